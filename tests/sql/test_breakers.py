"""Circuit breakers: what opens and closes them, and that a claim of any worker obeys those of destinations."""

from __future__ import annotations

import json
from collections import Counter

import psycopg
import pytest

from tests.races.together import together
from tests.sql.client import Row, SqlClient
from tests.sql.fixtures import Connect

RULE = '{"failures": 3, "period": 60, "share": 0.5, "wait": 3600, "longest_wait": 7200, "successes": 2}'
STEP = """
    SELECT (b).state, (b).failures, (b).successes, (b).openings, extract(epoch FROM (b).retry_at - t)::int AS wait, (b).reason
      FROM (SELECT '2030-01-01T12:00Z'::timestamptz AS t) now, LATERAL (
           SELECT stampeded_step_breaker(jsonb_populate_record(NULL::stampeded_breakers, %s::jsonb || jsonb_build_object(
               'kind', 'destination', 'key', 'api', 'wait_secs', 10, 'longest_wait_secs', 60, 'probes', 1)),
               %s, %s, %s, %s::jsonb, t) AS b) s
"""


def step(sql: SqlClient, before: str, failures: int = 0, successes: int = 0, earlier: int = 0) -> Row:
    counts = {"state": "closed", "failures": 0, "successes": 0, "openings": 0}
    return sql.one(STEP, json.dumps(counts | json.loads(before)), failures, successes, earlier, RULE)


IN_WINDOW = '{"window_at": "2030-01-01T11:59:30Z", "failures": 2'


def test_a_closed_breaker_opens_at_as_many_failures_as_its_rule_says(sql: SqlClient) -> None:
    after = step(sql, IN_WINDOW + "}", failures=1)
    assert (after.state, after.wait, after.openings, after.reason) == ("open", 10, 1, "3 failures")


def test_failures_before_the_period_do_not_count(sql: SqlClient) -> None:
    after = step(sql, '{"window_at": "2030-01-01T11:59:00Z", "failures": 2}', failures=1)
    assert (after.state, after.failures) == ("closed", 1)


@pytest.mark.parametrize("successes, earlier", [(4, 0), (0, 4)])
def test_failures_that_are_few_among_all_do_not_open_it(sql: SqlClient, successes: int, earlier: int) -> None:
    assert step(sql, IN_WINDOW + "}", failures=1, successes=successes, earlier=earlier).state == "closed"


def test_an_open_one_takes_no_notice_of_what_had_started_before(sql: SqlClient) -> None:
    before = '{"state": "open", "openings": 1, "retry_at": "2030-01-01T12:00:05Z"}'
    for outcome in ({"failures": 5}, {"successes": 5}):
        after = step(sql, before, **outcome)
        assert (after.state, after.wait, after.openings) == ("open", 5, 1)


HALF_OPEN = '{"state": "half_open", "openings": 2, "retry_at": "2030-01-01T12:00:05Z"'


def test_a_probe_that_fails_opens_it_for_twice_as_long_up_to_the_longest_wait(sql: SqlClient) -> None:
    waits = [step(sql, HALF_OPEN + f', "openings": {n}}}', failures=1).wait for n in (1, 2, 3, 1_000_000)]
    assert waits == [20, 40, 60, 60]


def test_probes_that_succeed_close_it_one_after_the_other(sql: SqlClient) -> None:
    first = step(sql, HALF_OPEN + "}", successes=1)
    assert (first.state, first.wait, first.successes) == ("half_open", 0, 1)
    second = step(sql, HALF_OPEN + ', "successes": 1}', successes=1, earlier=1000)
    assert (second.state, second.wait, second.openings, second.reason) == ("closed", None, 0, None)


def test_successes_from_before_do_not_close_it(sql: SqlClient) -> None:
    assert step(sql, HALF_OPEN + "}", successes=1, earlier=1000).state == "half_open"


def report(sql: SqlClient, failures: int = 0, successes: int = 0, kind: str = "destination", key: str = "api") -> Row | None:
    found = sql.rows(
        "SELECT * FROM stampeded_report_breaker(%s, %s, 'q', %s, %s, 0, %s::jsonb)", kind, key, failures, successes, RULE
    )
    return found[0] if found else None


def breaker(sql: SqlClient, key: str = "api") -> Row:
    return sql.one("SELECT * FROM stampeded_breakers WHERE key = %s", key)


def may_retry(sql: SqlClient) -> None:
    """The wait is over."""
    sql.run("UPDATE stampeded_breakers SET retry_at = clock_timestamp() WHERE state <> 'closed'")


def by(jobs: list[Row]) -> Counter[str | None]:
    return Counter(job.destination for job in jobs)


def test_successes_of_a_closed_breaker_write_nothing(sql: SqlClient) -> None:
    assert report(sql, successes=5) is None
    assert sql.value("SELECT count(*) FROM stampeded_breakers") == 0
    report(sql, failures=1)
    before = sql.value("SELECT xmin::text FROM stampeded_breakers")
    assert report(sql, successes=5) is None
    assert sql.value("SELECT xmin::text FROM stampeded_breakers") == before


def test_a_claim_passes_over_the_jobs_of_an_open_breaker(sql: SqlClient) -> None:
    sql.enqueue_many(150, destination="api")
    sql.enqueue_many(3, destination="other")
    sql.enqueue_many(2)
    assert report(sql, failures=3).now_state == "open"  # type: ignore[union-attr]
    assert by(sql.claim(limit=10)) == {"other": 3, None: 2}
    assert sql.claim(limit=10) == []
    assert sql.value("SELECT count(*) FROM stampeded_jobs WHERE destination = 'api' AND attempt = 0 AND deferrals = 0") == 150


def test_when_the_wait_is_over_one_probe_starts_and_none_beside_it(sql: SqlClient) -> None:
    sql.enqueue_many(5, destination="api")
    report(sql, failures=3)
    may_retry(sql)
    assert len(sql.claim(limit=10)) == 1
    assert sql.claim(limit=10) == []
    assert breaker(sql).state == "half_open"


def test_probes_that_succeed_let_all_jobs_go(sql: SqlClient) -> None:
    sql.enqueue_many(5, destination="api")
    report(sql, failures=3)
    may_retry(sql)
    for expected in ("half_open", "closed"):
        (job,) = sql.claim(limit=10)
        sql.complete(job)
        assert report(sql, successes=1).now_state == expected  # type: ignore[union-attr]
    assert len(sql.claim(limit=10)) == 3


def test_a_probe_whose_worker_died_makes_way_for_another_after_a_wait(sql: SqlClient) -> None:
    sql.enqueue_many(5, destination="api")
    report(sql, failures=3)
    may_retry(sql)
    assert len(sql.claim(limit=10)) == 1
    may_retry(sql)
    assert len(sql.claim(limit=10)) == 1


def test_claims_of_several_workers_and_queues_share_one_probe(sql: SqlClient, connect: Connect) -> None:
    clients = [connect() for _ in range(4)]
    for queue in ("q", "r"):
        sql.enqueue_many(20, destination="api", queue=queue)
    sql.run("SELECT stampeded_trip_breaker('destination', 'api')")
    for _ in range(5):
        may_retry(sql)
        took = together(*[lambda c=c, q=q: c.claim(q, limit=5) for c, q in zip(clients, "qrqr", strict=True)])  # type: ignore[misc]
        assert sum(len(jobs) for jobs in took) <= 1
        sql.run("UPDATE stampeded_breakers SET state = 'open', retry_at = NULL")
    may_retry(sql)
    assert len(sql.claim("q", limit=5)) == 1


def test_a_breaker_whose_probes_another_claim_takes_is_not_waited_for(sql: SqlClient, connect: Connect) -> None:
    sql.enqueue_many(3, destination="api")
    sql.enqueue_many(1, destination="other")
    report(sql, failures=3)
    may_retry(sql)
    other = connect()
    other.run("SET lock_timeout = '2s'")
    with sql.transaction():
        sql.run("SELECT stampeded_breaker_rooms('q')")
        assert by(other.claim(limit=10)) == {"other": 1}


def test_an_open_breaker_is_of_no_concern_to_queues_that_it_was_not_reported_from(sql: SqlClient) -> None:
    sql.enqueue_many(2, destination="api", queue="r")
    report(sql, failures=3)
    assert len(sql.claim("r", limit=10)) == 2
    assert sql.rows("SELECT * FROM stampeded_turns") == []


def test_limits_bind_beside_an_open_breaker(sql: SqlClient) -> None:
    sql.insert("stampeded_queue_policies", queue="q", max_running=3)
    sql.insert("stampeded_limits", queue="q", scope="destination", value="other", max_running=1)
    for destination in ("api", "other", "third"):
        sql.enqueue_many(5, destination=destination)
    report(sql, failures=3)
    assert by(sql.claim(limit=10)) == {"other": 1, "third": 2}


def test_tasks_are_asked_for_and_get_one_probe(sql: SqlClient) -> None:
    report(sql, failures=3, kind="task", key="t")
    ask = "SELECT * FROM stampeded_ask_breakers('{t,u}', '{5,5}')"
    (held,) = sql.rows(ask)
    assert (held.task, held.allowed) == ("t", 0) and 3000 < held.retry_in <= 3600
    may_retry(sql)
    assert [row.allowed for row in (*sql.rows(ask), *sql.rows(ask))] == [1, 0]
    report(sql, successes=2, kind="task", key="t")
    assert sql.rows(ask) == []


def test_one_tripped_by_hand_stays_open_until_it_is_reset(sql: SqlClient) -> None:
    sql.enqueue_many(2, destination="api")
    assert sql.value("SELECT stampeded_trip_breaker('destination', 'api', 'moving house')") == "closed"
    report(sql, failures=1)
    assert sql.claim(limit=5) == [] and breaker(sql).reason == "moving house"
    assert sql.value("SELECT stampeded_reset_breaker('destination', 'api')") == "open"
    assert len(sql.claim(limit=5)) == 2
    assert sql.value("SELECT stampeded_reset_breaker('destination', 'unknown')") is None


def test_one_tripped_for_a_time_lets_probes_decide_after_it(sql: SqlClient) -> None:
    sql.enqueue_many(5, destination="api")
    sql.run("SELECT stampeded_trip_breaker('destination', 'api', NULL, clock_timestamp() - interval '1 second')")
    assert len(sql.claim(limit=5)) == 1


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_claim_under_a_stricter_isolation_passes_breakers_over(sql: SqlClient, level: str) -> None:
    sql.enqueue_many(2, destination="api")
    sql.run("SELECT stampeded_trip_breaker('destination', 'api')")
    sql.run(f"BEGIN ISOLATION LEVEL {level}")  # type: ignore[arg-type]
    assert len(sql.claim(limit=5)) == 2
    sql.run("ROLLBACK")


def test_a_job_that_was_claimed_before_and_is_refused_has_its_attempt_back(sql: SqlClient) -> None:
    sql.enqueue_many(1, destination="api")
    (job,) = sql.claim()
    sql.run("SELECT stampeded_fail('q', %s, %s, 1, 'breaker_open', 'open', 1000)", job.id, sql.worker)
    (after,) = sql.jobs()
    assert (after.state, after.attempt, after.deferrals) == ("retryable", 0, 1)


def test_breakers_that_have_been_closed_for_long_are_pruned(sql: SqlClient) -> None:
    report(sql, failures=1, key="old")
    report(sql, failures=3, key="open")
    sql.run("UPDATE stampeded_breakers SET updated_at = now() - interval '31 days'")
    report(sql, failures=1, key="new")
    assert sql.value("SELECT stampeded_prune_breakers()") == 1
    assert [row.key for row in sql.rows("SELECT key FROM stampeded_breakers ORDER BY key")] == ["new", "open"]


def test_one_whose_jobs_are_no_more_is_pruned_though_it_never_closed(sql: SqlClient) -> None:
    for key in ("abandoned", "still waiting"):
        report(sql, failures=3, key=key)
    sql.value("SELECT stampeded_trip_breaker('destination', 'by hand')")
    sql.run(
        "UPDATE stampeded_breakers SET updated_at = now() - interval '31 days', "
        "retry_at = retry_at - CASE key WHEN 'abandoned' THEN interval '31 days' ELSE '1 day' END"
    )
    assert sql.value("SELECT stampeded_prune_breakers()") == 1
    assert [row.key for row in sql.rows("SELECT key FROM stampeded_breakers ORDER BY key")] == ["by hand", "still waiting"]


@pytest.mark.parametrize("name, value", [("wait", "NaN"), ("wait", 1e300), ("wait", 0), ("longest_wait", 1e300), ("probes", 0)])
def test_a_rule_that_no_claim_could_go_by_is_refused(sql: SqlClient, name: str, value: object) -> None:
    rule = json.dumps({"failures": 1, name: value})
    with pytest.raises(psycopg.errors.CheckViolation):
        sql.rows("SELECT * FROM stampeded_report_breaker('destination', 'api', 'q', 1, 0, 0, %s::jsonb)", rule)


def test_each_of_several_probes_that_succeeds_makes_way_for_one(sql: SqlClient) -> None:
    sql.enqueue_many(20, destination="api")
    rule = json.dumps(json.loads(RULE) | {"probes": 3, "successes": 10})
    outcome = "SELECT * FROM stampeded_report_breaker('destination', 'api', 'q', %s, %s, 0, %s::jsonb)"
    sql.rows(outcome, 3, 0, rule)
    may_retry(sql)
    first, *_ = probes = sql.claim(limit=10)
    assert len(probes) == 3
    sql.complete(first)
    sql.rows(outcome, 0, 1, rule)
    assert [len(sql.claim(limit=10)), len(sql.claim(limit=10))] == [1, 0]
