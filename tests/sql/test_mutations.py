"""Which test fails when a rule is taken out of the SQL: each mutation below names one, and it must.

The functions are changed in an install of their own, in a schema of the test database, and put back after.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import psycopg
import pytest

from tests.races import test_outcome_races as outcome_races
from tests.sql import (
    test_breakers,
    test_claim,
    test_counts,
    test_dead_letters,
    test_deaths,
    test_dedup,
    test_expire,
    test_fail,
    test_fair_shares,
    test_key_limits,
    test_limits,
    test_owner,
    test_planner,
    test_prune,
    test_rates,
    test_reap,
    test_schedules,
)
from tests.sql.client import SqlClient
from tests.sql.fixtures import Connect, Params, clients, drop_schema, migrate

SCHEMA = "mutants"


class Mutation(NamedTuple):
    """In *function*, *old* becomes *new*; then *test*, called with *values*, must fail."""

    function: str
    old: str
    new: str
    test: Callable[..., None]
    values: dict[str, Any] = {}

    @property
    def name(self) -> str:
        return f"{self.function}: {' '.join(self.old.split())[:40]} -> {self.new[:20]}"


OWNED = {"verb": SqlClient.complete}
FAILED = {"verb": SqlClient.fail}

MUTATIONS = [
    # claim
    Mutation(
        "claim", "FOR UPDATE SKIP LOCKED", "FOR UPDATE",
        test_claim.test_a_job_that_another_transaction_holds_is_skipped_without_waiting,
    ),
    Mutation(
        "claim", "FOR UPDATE SKIP LOCKED", "",
        test_claim.test_a_job_that_another_transaction_holds_is_skipped_without_waiting,
    ),
    Mutation(
        "claim", "ORDER BY priority, scheduled_at, id", "ORDER BY scheduled_at, id",
        test_claim.test_the_first_jobs_are_taken_when_there_are_more_than_asked_for,
    ),
    Mutation(
        "claim", "ORDER BY priority, scheduled_at, id", "ORDER BY priority, id",
        test_claim.test_of_one_priority_the_job_that_is_due_longest_is_taken_first,
    ),
    Mutation(
        "claim", "ORDER BY taken.priority, taken.scheduled_at, taken.id", "ORDER BY taken.id",
        test_claim.test_claimed_rows_come_in_claim_order_whatever_order_they_were_written_in,
    ),
    Mutation("claim", "LIMIT v_limit", "LIMIT v_limit + 1", test_claim.test_a_claim_without_a_limit_takes_one),
    Mutation("claim", "LIMIT v_limit", "", test_claim.test_a_claim_without_a_limit_takes_one),
    Mutation("claim", "p_limit IS NULL OR p_limit < 0", "false",
             test_claim.test_a_limit_that_is_null_or_negative_is_refused, {"limit": None}),
    Mutation("claim", "scheduled_at <= v_now", "true", test_claim.test_a_job_is_not_claimed_before_its_time),
    Mutation("claim", "attempt < max_attempts", "true", test_claim.test_a_job_whose_attempts_are_spent_is_not_claimed),
    Mutation("claim", "('available', 'retryable')", "('available', 'retryable', 'executing')",
             test_claim.test_a_job_that_is_not_waiting_is_not_claimed, {"state": "executing"}),
    Mutation("claim", "attempt = j.attempt + 1", "attempt = j.attempt", test_claim.test_each_claim_counts_one_attempt),
    Mutation("claim", "v_found.paused_at IS NOT NULL", "false", test_limits.test_a_paused_queue_takes_jobs_and_gives_none),
    Mutation("claim", "v_found.paused_until > v_now", "true", test_limits.test_a_pause_ends_by_itself_when_it_was_said_to),
    Mutation("claim", "queue IN (p_queue, '*')", "queue = p_queue",
             test_limits.test_nothing_is_claimed_while_everything_is_paused),
    Mutation("admit", "p_policy.max_running IS NOT NULL", "false",
             test_limits.test_no_more_jobs_run_at_once_than_the_queue_allows),
    Mutation("admit", "state IN ('claimed', 'executing')", "state = 'executing'",
             test_limits.test_a_claimed_job_of_old_takes_a_slot),
    Mutation("admit", "p_policy.rate_limit IS NOT NULL AND room > 0", "false",
             test_rates.test_no_more_start_in_a_period_than_the_rate_allows),
    Mutation("rate_room", "s.total - s.n", "s.total", test_rates.test_no_more_start_in_a_period_than_the_rate_allows),
    Mutation("rate_room", "s.started_at >= since.moment", "true", test_rates.test_the_window_slides_and_does_not_begin_anew),
    Mutation("record_starts", "last.started_at + interval '1 microsecond'", "NULL",
             test_rates.test_a_clock_that_was_set_back_lets_nothing_through),
    Mutation("key_room", "value IS NULL", "false",
             test_key_limits.test_no_more_jobs_of_a_key_run_at_once_than_its_limit_allows, {"scope": "tenant"}),
    Mutation("fit", "(v_room ->> v_names[k])::bigint - 1", "(v_room ->> v_names[k])::bigint",
             test_key_limits.test_no_more_jobs_of_a_key_run_at_once_than_its_limit_allows, {"scope": "key"}),
    Mutation("candidates", "CASE WHEN p_fair THEN f.t <= p_turn.tenant END,", "", test_fair_shares.test_tenants_take_turns),
    # the attempt guard, and the other two of every verb
    *[
        Mutation(verb, guard, "true", test, {"verb": call, **values})
        for verb, call in (
            ("complete", SqlClient.complete), ("fail", SqlClient.fail), ("touch", SqlClient.touch),
            ("checkpoint", lambda sql, job: sql.checkpoint(job, {"at": 1})),
        )
        for guard, test, values in (
            ("attempt = p_attempt", test_owner.test_another_attempt_of_the_same_worker_is_refused, {"attempt": 2}),
            ("claimed_by = p_worker_id", test_owner.test_another_worker_is_refused, {}),
            ("state IN ('claimed', 'executing')", test_owner.test_a_job_that_is_no_longer_executing_is_refused,
             {"state": "cancelled"}),
        )
    ],
    Mutation("release", "j.attempt = p_attempt", "true",
             test_owner.test_another_attempt_of_the_same_worker_is_refused, {"verb": SqlClient.release, "attempt": 2}),
    Mutation("release", "greatest(j.attempt - 1, 0)", "j.attempt",
             test_owner.test_releasing_any_number_of_times_costs_no_attempt),
    *[
        Mutation(verb, guard, "true", test, {"verb": test_owner.VERBS[verb], **values})
        for verb in ("complete_many", "touch_many")
        for guard, test, values in (
            ("v_leases ? (j.id || ' ' || j.attempt)", test_owner.test_another_attempt_of_the_same_worker_is_refused,
             {"attempt": 2}),
            ("j.claimed_by = p_worker_id", test_owner.test_another_worker_is_refused, {}),
            ("j.state IN ('claimed', 'executing')", test_owner.test_a_job_that_is_no_longer_executing_is_refused,
             {"state": "cancelled"}),
        )
    ],
    # complete
    Mutation("complete", "dedup_scope = CASE WHEN dedup_period IS NOT NULL THEN dedup_scope END", "dedup_scope = dedup_scope",
             test_dedup.test_completing_frees_a_scope_without_a_period),
    Mutation("complete", "CASE WHEN dedup_period IS NOT NULL THEN dedup_scope END", "NULL",
             test_dedup.test_completing_keeps_a_periods_slot_so_that_one_per_bucket_is_true, {"period": "month"}),
    Mutation("complete", "checkpoint = NULL, claimed_by = NULL", "claimed_by = NULL",
             test_owner.test_a_completed_job_is_final_and_free_of_its_lease),
    # fail
    Mutation("fail", "FOR UPDATE", "", outcome_races.test_a_failure_that_waits_for_another_of_its_attempt_is_told_so),
    Mutation("apply_failure", "v_state = 'discarded' AND p_job.dead_letter_queue IS NOT NULL", "false",
             test_dead_letters.test_every_way_into_discarded_writes_one_dead_letter_and_an_error,
             {"way": test_dead_letters.by_reap}),
    Mutation("apply_failure", "v_attempt);\n", "0);\n", test_dead_letters.test_the_letter_counts_the_attempts_that_were_made),
    Mutation("apply_failure", "dedup_scope = CASE WHEN v_state = 'retryable' THEN j.dedup_scope END", "dedup_scope = NULL",
             test_fail.test_a_retry_keeps_the_dedup_slot),
    Mutation("apply_failure", "dedup_scope = CASE WHEN v_state = 'retryable' THEN j.dedup_scope END",
             "dedup_scope = j.dedup_scope", test_fail.test_a_terminal_failure_frees_the_dedup_slot_and_the_lease),
    Mutation("apply_failure", "greatest(v_attempt - 1, 0)", "v_attempt",
             test_fail.test_a_refusal_gives_the_attempt_back_and_counts_a_deferral, {"kind": "throttled"}),
    Mutation("apply_failure", "v_deferrals > p_job.max_deferrals", "false",
             test_fail.test_refusals_past_their_limit_are_terminal, {"kind": "throttled"}),
    Mutation("apply_failure", "OR v_attempt >= p_job.max_attempts THEN v_state := 'discarded'; END IF;\n    END IF;",
             "THEN v_state := 'discarded'; END IF;\n    END IF;", test_fail.test_one_attempt_means_exactly_one_run),
    Mutation("apply_failure", "v_deaths > p_job.max_interruptions OR v_attempt >= p_job.max_attempts",
             "v_deaths > p_job.max_interruptions",
             test_deaths.test_a_death_in_the_last_attempt_is_terminal, {"kind": "worker_missing"}),
    Mutation("apply_failure", "p_job.interrupted_checkpoint IS NOT DISTINCT FROM v_checkpoint", "true",
             test_deaths.test_a_job_that_gets_further_each_time_survives),
    Mutation("apply_failure", "p_job.interrupted_checkpoint IS NOT DISTINCT FROM v_checkpoint", "v_checkpoint IS NULL",
             test_deaths.test_a_job_that_dies_where_it_resumed_runs_out),
    Mutation("push_error", "WHEN refusal THEN 1 ELSE 10 END", "WHEN refusal THEN 1 ELSE 11 END",
             test_fail.test_the_ring_keeps_the_last_ten_failures),
    Mutation("push_error", "PARTITION BY refusal ", "", test_fail.test_refusals_never_push_real_failures_out),
    # sweeps
    Mutation("expire", "LIMIT p_limit", "", test_expire.test_no_more_than_the_limit_expire_at_once, {"limit": 1}),
    Mutation("expire", "'timed_out',", "'raised',", test_expire.test_a_silent_job_is_failed_as_timed_out_and_named),
    Mutation("reap", "stampeded_last_sign(j)", "'infinity'::timestamptz",
             test_reap.test_jobs_whose_worker_row_is_gone_are_dead_by_their_own_last_sign),
    Mutation("reap", "least(v_before, clock_timestamp() - interval '1 day')", "v_before",
             test_reap.test_a_dead_workers_row_stays_a_day_and_then_goes),
    Mutation("prune", "v_policy.age, v_left, v_policy.own", "v_policy.age, p_limit, v_policy.own",
             test_prune.test_the_limit_holds_over_all_states_together, {"limit": 4}),
    Mutation("prune_state", "queue <> ALL (p_queues)", "true",
             test_prune.test_a_state_that_the_policy_leaves_open_goes_by_the_age_given),
    Mutation("prune_state", "dedup_key IS NULL OR", "true OR",
             test_prune.test_a_completed_job_that_holds_its_period_stays_until_the_bucket_ends, {"period": "month"}),
    # breakers and the planner
    Mutation("claim", "v_rooms := stampeded_breaker_rooms(p_queue)", "v_rooms := NULL",
             test_breakers.test_a_claim_passes_over_the_jobs_of_an_open_breaker),
    Mutation("breaker_rooms", "|| b.key, 0)", "|| b.key, 1)",
             test_breakers.test_a_claim_passes_over_the_jobs_of_an_open_breaker),
    Mutation("breaker_rooms", "SKIP LOCKED", "",
             test_breakers.test_a_breaker_whose_probes_another_claim_takes_is_not_waited_for),
    Mutation("start_probes", "interval '1 second' * b.wait_secs", "interval '0'",
             test_breakers.test_when_the_wait_is_over_one_probe_starts_and_none_beside_it),
    Mutation("step_breaker", "v_breaker.failures >= coalesce((p_rule ->> 'share')", "0 >= coalesce((p_rule ->> 'share')",
             test_breakers.test_a_closed_breaker_opens_at_as_many_failures_as_its_rule_says),
    Mutation("step_breaker", "2.0 ^ least(v_breaker.openings, 30)", "1",
             test_breakers.test_a_probe_that_fails_opens_it_for_twice_as_long_up_to_the_longest_wait),
    Mutation("report_breaker", "p_failures = 0 AND", "false AND",
             test_breakers.test_successes_of_a_closed_breaker_write_nothing),
    Mutation("verdicts", "AND decided_at > clock_timestamp() - interval '30 seconds'", "",
             test_planner.test_a_stale_verdict_counts_as_none),
    Mutation("set_verdict", "verdict <> p_verdict OR", "true OR",
             test_planner.test_a_verdict_that_stands_is_written_again_only_before_it_goes_stale),
    # schedules and counts
    Mutation("fire_occurrence", "AND NOT paused AND next_run_at <= clock_timestamp()", "",
             test_schedules.test_a_schedule_that_is_not_due_or_paused_is_left_as_it_is, {"columns": {"paused": True}}),
    Mutation("claim_due_schedules", "SKIP LOCKED", "", test_schedules.test_a_schedule_that_another_scheduler_holds_is_skipped),
    Mutation("count_changes", "SELECT queue, state, -count(*) FROM old_jobs", "SELECT queue, state, 0 FROM old_jobs",
             test_counts.test_the_counts_are_exact_after_every_kind_of_change,
             {"change": test_counts.CHANGES["delete"], "partitioned": False}),
    Mutation("fold_counts", "RETURNING queue, state, n", "RETURNING queue, state, n + 1 AS n",
             test_counts.test_folding_while_a_transaction_is_open_loses_nothing),
]  # fmt: skip


@pytest.fixture(scope="module")
def install(params: Params, django_db_blocker: Any) -> Iterator[str]:
    with django_db_blocker.unblock():
        migrate(params, "stampeded", schema=SCHEMA)
    yield SCHEMA
    drop_schema(params, SCHEMA)


def definition(sql: SqlClient, function: str) -> str:
    text: str = sql.value("SELECT pg_get_functiondef(to_regproc(%s))", f"stampeded_{function}")
    return text


def run(test: Callable[..., None], connect: Connect, values: dict[str, Any]) -> None:
    """The test as pytest would call it, with clients of the mutated install."""
    given: dict[str, Any] = {"sql": connect(), "connect": connect, **values}
    test(**{name: given[name] for name in inspect.signature(test).parameters})


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[mutation.name for mutation in MUTATIONS])
def test_a_rule_taken_out_of_the_sql_is_missed_by_the_test_named_for_it(
    params: Params, install: str, mutation: Mutation
) -> None:
    with clients(params, install) as connect:
        sql = connect()
        whole = definition(sql, mutation.function)
        assert mutation.old in whole, "the SQL has changed: name the rule anew"
        sql.run(whole.replace(mutation.old, mutation.new))  # type: ignore[arg-type]
        try:
            with pytest.raises((AssertionError, psycopg.Error, ValueError, pytest.fail.Exception)):
                run(mutation.test, connect, mutation.values)
        finally:
            sql.run(whole)  # type: ignore[arg-type]


def test_every_test_named_for_a_rule_passes_with_the_rule_in_place(params: Params, install: str) -> None:
    for mutation in MUTATIONS:
        with clients(params, install) as connect:
            run(mutation.test, connect, mutation.values)
