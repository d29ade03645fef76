"""Only the owner of that very attempt may complete, fail, release, touch or checkpoint a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from tests.sql.client import Row, SqlClient

Verb = Callable[[SqlClient, Row], Any]


def in_a_batch(function: str) -> Verb:
    """The verb's form for many jobs, which workers use, as if it were for one."""
    return lambda sql, job: sql.call(function, job.claimed_by, [job.queue], [job.id], [job.attempt])


VERBS: dict[str, Verb] = {
    "complete": SqlClient.complete,
    "fail": SqlClient.fail,
    "release": SqlClient.release,
    "touch": SqlClient.touch,
    "checkpoint": lambda sql, job: sql.checkpoint(job, {"at": 1}),
    **{verb: in_a_batch(f"stampeded_{verb}") for verb in ("complete_many", "release_many", "touch_many")},
}
FINISHED = ["completed", "discarded", "cancelled"]
WAITING = ["available", "retryable"]


@pytest.fixture(params=VERBS)
def verb(request: pytest.FixtureRequest) -> Verb:
    return VERBS[request.param]


def refuses(sql: SqlClient, verb: Verb, lease: Row) -> None:
    before = sql.jobs()
    assert not verb(sql, lease), "the caller is told that it owns the job"
    assert sql.jobs() == before


def test_another_worker_is_refused(sql: SqlClient, verb: Verb) -> None:
    job = sql.started()
    refuses(sql, verb, job._replace(claimed_by=sql.register()))
    refuses(sql, verb, job._replace(claimed_by=uuid4()))


def test_a_worker_that_names_none_is_refused(sql: SqlClient, verb: Verb) -> None:
    job = sql.started()
    refuses(sql, verb, job._replace(claimed_by=None))


@pytest.mark.parametrize("attempt", [0, 2, -1, None])
def test_another_attempt_of_the_same_worker_is_refused(sql: SqlClient, verb: Verb, attempt: int | None) -> None:
    job = sql.started()
    refuses(sql, verb, job._replace(attempt=attempt))


@pytest.mark.parametrize("attempt", [32768, -32769, 2**31, 2**63 - 1])
def test_an_attempt_out_of_a_smallints_range_finds_no_job(sql: SqlClient, verb: Verb, attempt: int) -> None:
    job = sql.started()
    refuses(sql, verb, job._replace(attempt=attempt))


def test_the_attempt_before_is_refused_after_a_second_claim(sql: SqlClient, verb: Verb) -> None:
    first = sql.started()
    sql.fail(first)
    (second,) = sql.claim()
    refuses(sql, verb, first)
    assert verb(sql, second)


@pytest.mark.parametrize("state", WAITING + FINISHED)
def test_a_job_that_is_no_longer_executing_is_refused(sql: SqlClient, verb: Verb, state: str) -> None:
    job = sql.started()
    sql.set_job(job.id, state=state)
    refuses(sql, verb, job)


@pytest.mark.parametrize("state", ["claimed", "executing"])
def test_the_owner_is_obeyed_while_the_job_is_claimed_or_executing(sql: SqlClient, verb: Verb, state: str) -> None:
    job = sql.started()
    sql.set_job(job.id, state=state)
    assert verb(sql, job)


def test_the_job_of_another_queue_is_not_found(sql: SqlClient, verb: Verb) -> None:
    job = sql.started()
    refuses(sql, verb, job._replace(queue="other"))


def test_a_job_that_was_deleted_is_no_longer_owned(sql: SqlClient, verb: Verb) -> None:
    job = sql.started()
    sql.run("DELETE FROM stampeded_jobs")
    assert not verb(sql, job)


def test_a_job_without_an_owner_belongs_to_nobody(sql: SqlClient, verb: Verb) -> None:
    job = sql.started()
    sql.set_job(job.id, claimed_by=None)
    refuses(sql, verb, job)
    refuses(sql, verb, job._replace(claimed_by=None))


def test_the_owner_is_obeyed_only_for_its_own_job(sql: SqlClient, verb: Verb) -> None:
    mine, other = sql.started(), sql.started()
    before = sql.job(other.id)
    assert verb(sql, mine)
    assert sql.job(other.id) == before


# -- what each verb answers and leaves behind -----------------------------------------


@pytest.mark.parametrize("was", ["claimed", "executing"])
def test_complete_tells_what_the_job_was_and_is(sql: SqlClient, was: str) -> None:
    job = sql.started()
    sql.set_job(job.id, state=was)
    (answer,) = sql.complete(job)
    assert answer._asdict() == {"was": was, "now_state": "completed", "owned": True}


def test_a_completed_job_is_final_and_free_of_its_lease(sql: SqlClient) -> None:
    job = sql.started()
    sql.checkpoint(job, {"at": 1})
    sql.complete(job)
    after = sql.job(job.id)
    assert (after.state, after.checkpoint, after.claimed_by) == ("completed", None, None)
    assert job.claimed_at <= after.finished_at <= sql.now()
    assert (after.attempt, after.attempted_by) == (1, [str(sql.worker)])


def test_completing_twice_finds_nothing_the_second_time(sql: SqlClient) -> None:
    job = sql.started()
    assert len(sql.complete(job)) == 1
    assert sql.complete(job) == []


def test_a_job_cancelled_while_it_ran_is_not_completed_by_its_worker(sql: SqlClient) -> None:
    job = sql.started()
    sql.set_job(job.id, state="cancelled")
    assert sql.complete(job) == []
    assert sql.job(job.id).state == "cancelled"


def test_a_worker_declared_dead_changes_nothing_when_it_comes_back(sql: SqlClient) -> None:
    lost = sql.started(dedup_scope="acct:1", dead_letter_queue="dead")
    sql.fail(lost, "worker_missing")
    (second,) = sql.claim(worker=sql.register())
    for verb in VERBS.values():
        assert not verb(sql, lost)
    after = sql.job(lost.id)
    assert (after.state, after.claimed_by, after.attempt) == ("executing", second.claimed_by, 2)
    assert after.dedup_key is not None and after.checkpoint is None
    assert sql.jobs("dead") == []


def test_release_undoes_a_claim_that_never_started(sql: SqlClient) -> None:
    id = sql.enqueue(args={"a": 1}, dedup_scope="s")
    before = sql.job(id)
    (job,) = sql.claim()
    (answer,) = sql.release(job)
    assert answer._asdict() == {"was": "executing", "now_state": "available", "owned": True}
    after = sql.job(id)
    assert (after.state, after.attempt, after.claimed_by) == ("available", 0, None)
    assert after.attempted_by == [str(sql.worker)]
    for name in ("errors", "last_error", "failure_kind", "interruptions", "deferrals",
                 "finished_at", "dedup_key", "args", "priority"):  # fmt: skip
        assert getattr(after, name) == getattr(before, name), name
    assert [again.id for again in sql.claim()] == [id], "it can't be claimed at once"


def test_a_released_job_is_retryable_where_a_failure_is_on_record(sql: SqlClient) -> None:
    failed = sql.failed(sql.started(), error="first")
    (job,) = sql.claim()
    (answer,) = sql.release(job)
    assert answer.now_state == "retryable"
    after = sql.job(job.id)
    assert (after.state, after.attempt, after.last_error) == ("retryable", 1, "first")
    assert after.errors == failed.errors


def test_releasing_any_number_of_times_costs_no_attempt(sql: SqlClient) -> None:
    id = sql.enqueue(max_attempts=1)
    for _ in range(5):
        (job,) = sql.claim()
        sql.release(job)
    assert (sql.job(id).attempt, sql.job(id).state) == (0, "available")


def test_touch_moves_the_heartbeat_and_nothing_else(sql: SqlClient) -> None:
    job = sql.started()
    before = sql.job(job.id)
    assert sql.touch(job) is True
    after = sql.job(job.id)
    assert after.heartbeat_at > before.heartbeat_at
    assert after._replace(heartbeat_at=None) == before._replace(heartbeat_at=None)
