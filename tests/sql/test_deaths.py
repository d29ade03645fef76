"""A worker's death: a budget of its own, reset by progress and by nothing else."""

from __future__ import annotations

import pytest

from tests.sql.client import DEATHS, Row, SqlClient


def die(sql: SqlClient, kind: str = "worker_exited", *checkpoints: object) -> Row:
    """Claim the job, write the checkpoints, lose the worker; the row as it stands then."""
    (job,) = sql.claim()
    for state in checkpoints:
        assert sql.checkpoint(job, state) is not None
    return sql.failed(job, kind)


@pytest.mark.parametrize("kind", DEATHS)
def test_a_death_past_the_budget_is_terminal(sql: SqlClient, kind: str) -> None:
    sql.enqueue(max_interruptions=2)
    for interruptions in (1, 2):
        after = die(sql, kind)
        assert (after.state, after.interruptions) == ("retryable", interruptions)
    assert die(sql, kind).state == "discarded"


@pytest.mark.parametrize("kind", DEATHS)
def test_no_death_at_all_can_be_asked_for(sql: SqlClient, kind: str) -> None:
    sql.enqueue(max_interruptions=0)
    assert die(sql, kind).state == "discarded"


def test_the_default_forgives_one_death(sql: SqlClient) -> None:
    sql.enqueue()
    assert die(sql).state == "retryable"
    assert die(sql).state == "discarded"


def test_deaths_of_every_kind_share_one_budget(sql: SqlClient) -> None:
    sql.enqueue(max_interruptions=2)
    states = [die(sql, kind).state for kind in DEATHS]
    assert states == ["retryable", "retryable", "discarded"]


@pytest.mark.parametrize("kind", DEATHS)
def test_a_death_in_the_last_attempt_is_terminal(sql: SqlClient, kind: str) -> None:
    sql.enqueue(max_attempts=2, max_interruptions=100)
    assert die(sql, kind).state == "retryable"
    after = die(sql, kind)
    assert (after.state, after.attempt) == ("discarded", 2)
    assert after.finished_at is not None


def test_other_failures_take_nothing_of_the_budget(sql: SqlClient) -> None:
    job = sql.started()
    for kind in ("raised", "timed_out", "throttled", "breaker_open"):
        assert sql.failed(job, kind).interruptions == 0
        (job,) = sql.claim()


def test_an_interruption_counter_at_its_end_still_records_the_death(sql: SqlClient) -> None:
    job = sql.started(interruptions=32767, max_interruptions=32767)
    assert sql.failed(job, "worker_exited").failure_kind == "worker_exited"


def test_a_job_that_gets_further_each_time_survives(sql: SqlClient) -> None:
    sql.enqueue(max_interruptions=1)
    for row in range(10):
        after = die(sql, "worker_exited", {"row": row})
        assert (after.state, after.interruptions) == ("retryable", 1)


def test_a_job_that_dies_where_it_resumed_runs_out(sql: SqlClient) -> None:
    sql.enqueue(max_interruptions=1)
    assert die(sql, "worker_exited", {"row": 1}, {"row": 2}).state == "retryable"
    assert die(sql, "worker_exited").state == "discarded"


def test_a_job_that_starts_over_and_dies_at_the_same_point_runs_out(sql: SqlClient) -> None:
    sql.enqueue(max_interruptions=2)
    for _ in range(2):
        after = die(sql, "worker_exited", {"row": 1}, {"row": 2}, {"row": 3})
        assert after.state == "retryable"
    assert die(sql, "worker_exited", {"row": 1}, {"row": 2}, {"row": 3}).state == "discarded"


def test_a_job_that_rewrites_its_checkpoint_and_dies_there_runs_out(sql: SqlClient) -> None:
    sql.enqueue(max_interruptions=1)
    assert die(sql, "worker_exited", {"row": 2}).state == "retryable"
    assert die(sql, "worker_exited", {"row": 2}, {"row": 2}).state == "discarded"


def test_a_job_that_never_gets_to_its_first_checkpoint_runs_out(sql: SqlClient) -> None:
    sql.enqueue(max_interruptions=1)
    assert die(sql).state == "retryable"
    assert die(sql).state == "discarded"


def test_progress_after_a_death_starts_the_count_again_at_one(sql: SqlClient) -> None:
    sql.enqueue(max_interruptions=3)
    assert [die(sql, "worker_exited", {"row": 1}).interruptions for _ in range(3)] == [1, 2, 3]
    assert die(sql, "worker_exited", {"row": 2}).interruptions == 1


def test_an_ordinary_failure_between_two_deaths_at_one_point_changes_nothing(
    sql: SqlClient,
) -> None:
    sql.enqueue(max_interruptions=1)
    die(sql, "worker_exited", {"row": 5})
    (job,) = sql.claim()
    sql.fail(job, "raised")
    assert die(sql, "worker_exited").state == "discarded"


def test_a_checkpoint_with_its_keys_in_another_order_is_no_progress(sql: SqlClient) -> None:
    sql.enqueue(max_interruptions=1)
    die(sql, "worker_exited", {"file": "a", "row": 5})
    assert die(sql, "worker_exited", {"row": 5, "file": "a"}).state == "discarded"
