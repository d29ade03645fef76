"""stampeded_expire: jobs with no sign of life for expire_seconds fail as timed_out."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.sql.client import SqlClient

DAY = timedelta(days=1)


def test_a_silent_job_is_failed_as_timed_out_and_named(sql: SqlClient) -> None:
    job = sql.started(expire_seconds=60)
    sql.silence(job.id, timedelta(seconds=61))
    (expired,) = sql.call("stampeded_expire")
    assert expired._asdict() == {"out_id": job.id, "out_queue": "q", "out_worker": sql.worker}
    after = sql.job(job.id)
    assert (after.state, after.failure_kind, after.attempt) == ("retryable", "timed_out", 1)
    assert [entry["kind"] for entry in after.errors] == ["timed_out"]
    assert after.last_error and after.error_fingerprint and after.claimed_by is None


def test_a_job_within_its_time_is_left_alone(sql: SqlClient) -> None:
    job = sql.started(expire_seconds=60)
    sql.silence(job.id, timedelta(seconds=30))
    assert sql.call("stampeded_expire") == []
    assert sql.job(job.id).state == "executing"


def test_each_job_has_the_time_of_its_own(sql: SqlClient) -> None:
    long = sql.started(expire_seconds=2**31 - 1)
    short = sql.started(expire_seconds=1)
    for job in (long, short):
        sql.silence(job.id, DAY)
    assert [row.out_id for row in sql.call("stampeded_expire")] == [short.id]


@pytest.mark.parametrize("sign", ["touch", "checkpoint"])
def test_a_job_that_beats_or_checkpoints_keeps_its_lease(sql: SqlClient, sign: str) -> None:
    job = sql.started(expire_seconds=60)
    sql.silence(job.id, DAY)
    sql.touch(job) if sign == "touch" else sql.checkpoint(job, {"row": 1})
    assert sql.call("stampeded_expire") == []


def test_the_retry_waits_for_the_jobs_back_off(sql: SqlClient) -> None:
    sql.enqueue_many(40, backoff_base_ms=32767)
    for job in sql.claim(limit=40):
        sql.silence(job.id, DAY)
    assert len(sql.call("stampeded_expire")) == 40
    waits = [job.scheduled_at - sql.now() for job in sql.jobs()]
    assert max(waits) > timedelta(seconds=10), "expired jobs are retried at once"
    assert max(waits) < timedelta(seconds=33)
    assert len({job.scheduled_at for job in sql.jobs()}) > 10, "they all come back together"


def test_the_last_attempt_expires_for_good(sql: SqlClient) -> None:
    job = sql.started(max_attempts=1, dedup_scope="s")
    sql.silence(job.id, DAY)
    sql.call("stampeded_expire")
    after = sql.job(job.id)
    assert (after.state, after.dedup_key) == ("discarded", None)
    assert after.finished_at is not None


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_no_more_than_the_limit_expire_at_once(sql: SqlClient, limit: int) -> None:
    sql.enqueue_many(5)
    for job in sql.claim(limit=5):
        sql.silence(job.id, DAY)
    assert len(sql.call("stampeded_expire", limit)) == limit
    assert sql.counts().get(("q", "retryable"), 0) == limit


def test_a_hundred_expire_at_once_where_nothing_is_said(sql: SqlClient) -> None:
    sql.enqueue_many(105)
    for job in sql.claim(limit=105):
        sql.silence(job.id, DAY)
    assert len(sql.call("stampeded_expire")) == 100


def test_jobs_that_are_not_running_never_expire(sql: SqlClient) -> None:
    for state in ("available", "retryable", "completed", "discarded", "cancelled"):
        sql.silence(sql.enqueue(state=state), DAY)
    assert sql.call("stampeded_expire") == []


ODD = {
    "claimed by nobody": {"claimed_by": None},
    "no heartbeat": {"heartbeat_at": None},
    "no sign of life at all": {"heartbeat_at": None, "claimed_at": None, "checkpoint_at": None},
    "finished and executing": {"finished_at": timedelta(days=-1)},
    "the state of old": {"state": "claimed"},
    "more attempts than workers": {"attempted_by": []},
    "no attempt counted": {"attempt": 0},
}


@pytest.mark.parametrize("columns", ODD.values(), ids=ODD)
def test_a_row_thought_impossible_is_recovered_with_the_others(sql: SqlClient, columns: dict[str, object]) -> None:
    odd, plain = sql.started(), sql.started()
    for job in (odd, plain):
        sql.silence(job.id, DAY)
    sql.set_job(odd.id, **columns)
    assert {row.out_id for row in sql.call("stampeded_expire")} == {odd.id, plain.id}
    after = sql.job(odd.id)
    assert (after.state, after.finished_at) == ("retryable", None)


def test_one_row_that_cannot_be_recovered_does_not_stop_the_others(sql: SqlClient) -> None:
    jobs = [sql.started() for _ in range(10)]
    for job in jobs:
        sql.silence(job.id, DAY)
    # Its own next state would break a rule that an operator has added.
    sql.run("ALTER TABLE stampeded_jobs ADD CONSTRAINT operators_rule CHECK (task <> 'odd' OR state = 'executing')")
    try:
        sql.set_job(jobs[4].id, task="odd")
        sql.notices.clear()
        assert len(sql.call("stampeded_expire")) == 9
        assert sql.counts() == {("q", "retryable"): 9, ("q", "executing"): 1}
        assert any(str(jobs[4].id) in notice.text for notice in sql.notices)
        assert sql.call("stampeded_expire") == [], "the second sweep"
    finally:
        sql.run("ALTER TABLE stampeded_jobs DROP CONSTRAINT operators_rule")
