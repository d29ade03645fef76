"""What an operator does to one job: cancel, retry, discard, move; and what a job does: snooze."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.sql.client import Row, SqlClient

WAITING = ["available", "retryable"]
RUNNING = ["claimed", "executing"]
FINAL = ["completed", "discarded", "cancelled"]
DAY = timedelta(days=1)


def job_in(sql: SqlClient, state: str, **columns: Any) -> Row:
    if state in RUNNING:
        job = sql.started(**columns)
        sql.set_job(job.id, state=state)
        return job
    final = {"finished_at": -DAY} if state in FINAL else {}
    return sql.job(sql.enqueue(state=state, **final, **columns))


def refused(sql: SqlClient, verb: str, job: Row, *more: object) -> None:
    before = sql.jobs()
    assert sql.call(f"stampeded_{verb}", job.queue, job.id, *more) == []
    assert sql.jobs() == before


@pytest.mark.parametrize(("verb", "more"), [("cancel", []), ("retry", []), ("discard", []), ("move", ["other"])])
def test_a_job_that_is_not_there_gives_no_row(sql: SqlClient, verb: str, more: list[str]) -> None:
    job = sql.job(sql.enqueue())
    refused(sql, verb, job._replace(id=uuid4()), *more)
    refused(sql, verb, job._replace(queue="elsewhere"), *more)


# -- cancel --------------------------------------------------------------------------------


@pytest.mark.parametrize("state", WAITING + RUNNING)
def test_an_unfinished_job_can_be_cancelled(sql: SqlClient, state: str) -> None:
    job = job_in(sql, state, dedup_scope="s", dedup_period="month", dead_letter_queue="dead")
    (answer,) = sql.call("stampeded_cancel", "q", job.id, "not wanted any more")
    assert (answer.was, answer.now_state) == (state, "cancelled")
    after = sql.job(job.id)
    assert (after.state, after.claimed_by, after.dedup_key) == ("cancelled", None, None)
    assert after.finished_at is not None
    assert "not wanted any more" in f"{after.last_error} {after.errors}"
    assert sql.claim() == [] and sql.jobs("dead") == []


@pytest.mark.parametrize("state", FINAL)
def test_a_finished_job_is_not_cancelled(sql: SqlClient, state: str) -> None:
    refused(sql, "cancel", job_in(sql, state))


def test_the_worker_of_a_cancelled_job_is_told_at_its_next_beat(sql: SqlClient) -> None:
    job = sql.started()
    sql.call("stampeded_cancel", "q", job.id)
    assert not sql.touch(job)
    assert sql.checkpoint(job, {"row": 1}) is None
    assert sql.complete(job) == [] and sql.fail(job) == [] and sql.release(job) == []
    assert sql.job(job.id).state == "cancelled"


# -- retry ---------------------------------------------------------------------------------


@pytest.mark.parametrize("state", WAITING + FINAL)
def test_a_job_that_is_not_running_is_due_at_once_when_retried(sql: SqlClient, state: str) -> None:
    job = job_in(sql, state, scheduled_at=DAY)
    (answer,) = sql.call("stampeded_retry", "q", job.id)
    assert (answer.was, answer.now_state in WAITING) == (state, True)
    assert [again.id for again in sql.claim()] == [job.id]


@pytest.mark.parametrize("state", FINAL)
def test_a_job_that_plain_sql_has_put_into_a_final_state_can_be_retried(sql: SqlClient, state: str) -> None:
    id = sql.enqueue(state=state, failure_kind="raised", attempt=3, max_attempts=3)
    (answer,) = sql.call("stampeded_retry", "q", id)
    assert answer.now_state == "available" and sql.job(id).failure_kind is None
    assert [again.id for again in sql.claim()] == [id]


@pytest.mark.parametrize("state", RUNNING)
def test_a_running_job_is_not_retried(sql: SqlClient, state: str) -> None:
    refused(sql, "retry", job_in(sql, state))


@pytest.mark.parametrize("max_attempts", [1, 3])
def test_a_job_whose_attempts_are_spent_runs_once_more(sql: SqlClient, max_attempts: int) -> None:
    job = sql.started(attempt=max_attempts - 1, max_attempts=max_attempts)
    assert sql.failed(job).state == "discarded"
    sql.call("stampeded_retry", "q", job.id)
    (again,) = sql.claim()
    assert again.attempt <= again.max_attempts
    assert sql.failed(again).state == "discarded", "it got more than one more"


def test_a_job_at_the_highest_number_of_attempts_can_still_be_retried(sql: SqlClient) -> None:
    job = sql.started(attempt=32766, max_attempts=32767)
    sql.fail(job)
    assert len(sql.call("stampeded_retry", "q", job.id)) == 1
    assert [again.id for again in sql.claim()] == [job.id]


def test_a_retried_job_is_free_of_its_failure_but_keeps_its_history(sql: SqlClient) -> None:
    job = sql.started(max_interruptions=0)
    discarded = sql.failed(job, "worker_exited", error="killed")
    sql.call("stampeded_retry", "q", job.id)
    after = sql.job(job.id)
    assert (after.finished_at, after.failure_kind, after.last_error) == (None, None, None)
    assert after.error_fingerprint is None and after.errors == discarded.errors
    assert after.scheduled_at <= sql.now() and after.claimed_by is None


@pytest.mark.parametrize("kind", ["worker_exited", "throttled"])
def test_a_job_out_of_interruptions_or_deferrals_gets_them_anew(sql: SqlClient, kind: str) -> None:
    job = sql.started(max_interruptions=1, max_deferrals=1)
    while sql.failed(job, kind).state != "discarded":
        (job,) = sql.claim()
    sql.call("stampeded_retry", "q", job.id)
    (job,) = sql.claim()
    assert sql.failed(job, kind).state == "retryable"


def test_a_retry_whose_scope_another_job_holds_loses_neither(sql: SqlClient) -> None:
    old = sql.started(dedup_scope="s")
    sql.fail(old, "unrecoverable")
    new = sql.enqueue(dedup_scope="s")
    sql.call("stampeded_retry", "q", old.id)
    assert {job.id for job in sql.claim(limit=5)} == {old.id, new}


# -- discard -------------------------------------------------------------------------------


@pytest.mark.parametrize("state", WAITING + RUNNING)
def test_an_unfinished_job_can_be_discarded(sql: SqlClient, state: str) -> None:
    job = job_in(sql, state, dedup_scope="s", dead_letter_queue="dead")
    (answer,) = sql.call("stampeded_discard", "q", job.id, "hopeless")
    assert answer._asdict() == {"was": state, "now_state": "discarded", "dead_lettered": True}
    after = sql.job(job.id)
    assert (after.state, after.claimed_by, after.dedup_key) == ("discarded", None, None)
    assert after.finished_at is not None and "hopeless" in f"{after.last_error} {after.errors}"
    assert [letter.source_id for letter in sql.jobs("dead")] == [job.id]


@pytest.mark.parametrize("state", FINAL)
def test_a_finished_job_is_not_discarded(sql: SqlClient, state: str) -> None:
    refused(sql, "discard", job_in(sql, state, dead_letter_queue="dead"))


# -- move ----------------------------------------------------------------------------------


@pytest.mark.parametrize("state", WAITING + FINAL)
@pytest.mark.parametrize("partitioned", [False, True], ids=["default", "partition"])
def test_a_job_that_is_not_running_moves_with_all_it_has(sql: SqlClient, state: str, partitioned: bool) -> None:
    if partitioned:
        sql.call("stampeded_create_queue", "other")
    job = job_in(sql, state, args={"a": 1}, dedup_scope="s", dedup_period="day", checkpoint={"b": 2})
    (answer,) = sql.call("stampeded_move", "q", job.id, "other")
    assert (answer.was, answer.now_state) == (state, state)
    assert sql.jobs("q") == []
    (moved,) = sql.jobs("other")
    assert moved._replace(queue="q") == job
    assert sql.counts() == {("other", state): 1}


@pytest.mark.parametrize("state", RUNNING)
def test_a_running_job_is_not_moved(sql: SqlClient, state: str) -> None:
    refused(sql, "move", job_in(sql, state), "other")


def test_moving_a_job_to_where_it_is_loses_nothing(sql: SqlClient) -> None:
    job = sql.job(sql.enqueue(dedup_scope="s"))
    sql.call("stampeded_move", "q", job.id, "q")
    assert sql.jobs() == [job] and sql.counts() == {("q", "available"): 1}


@pytest.mark.parametrize("obstacle", ["scope held there", "its dead letter queue", "no name"])
def test_a_move_that_cannot_be_made_leaves_the_job_where_it_was(sql: SqlClient, obstacle: str) -> None:
    job = sql.job(sql.enqueue(dedup_scope="s", dead_letter_queue="dead"))
    sql.enqueue("other", dedup_scope="s")
    target = {"scope held there": "other", "its dead letter queue": "dead", "no name": ""}[obstacle]
    with pytest.raises(psycopg.Error):
        sql.call("stampeded_move", "q", job.id, target)
    assert sql.jobs("q") == [job]
    assert sql.counts() == sql.true_counts()


# -- snooze --------------------------------------------------------------------------------


def test_a_snoozed_job_gets_its_attempt_back_and_comes_later(sql: SqlClient) -> None:
    job = sql.started(max_attempts=1)
    answer = sql.call("stampeded_snooze", "q", job.id, sql.worker, 1, 3_600_000)
    assert answer[0][0] is True
    after = sql.job(job.id)
    assert (after.attempt, after.claimed_by, after.errors) == (0, None, [])
    assert (after.failure_kind, after.last_error, after.deferrals) == (None, None, 0)
    wait = after.scheduled_at - sql.now()
    assert timedelta(minutes=50) < wait <= timedelta(hours=1)
    assert sql.claim() == []


@pytest.mark.parametrize(("attempt", "mine"), [(2, True), (2**40, True), (1, False)])
def test_only_its_owner_snoozes_a_job(sql: SqlClient, attempt: int, mine: bool) -> None:
    job = sql.started()
    worker = sql.worker if mine else sql.register()
    assert not sql.call("stampeded_snooze", "q", job.id, worker, attempt, 1000)[0][0]
    assert sql.job(job.id) == job


@pytest.mark.parametrize("delay", [-1, 0, -(2**63)])
def test_a_snooze_of_nothing_is_due_at_once(sql: SqlClient, delay: int) -> None:
    job = sql.started()
    sql.call("stampeded_snooze", "q", job.id, sql.worker, 1, delay)
    assert len(sql.claim()) == 1


def test_a_snooze_is_clamped_to_ten_years(sql: SqlClient) -> None:
    job = sql.started()
    sql.call("stampeded_snooze", "q", job.id, sql.worker, 1, 2**63 - 1)
    assert sql.job(job.id).scheduled_at - sql.now() < timedelta(days=3655)
