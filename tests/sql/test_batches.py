"""Several jobs in one call: claiming over queues, and completing, releasing, touching many."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.sql.client import Row, SqlClient
from tests.sql.fixtures import Connect


def claim_many(sql: SqlClient, queues: list[str], limit: int | None, *more: object) -> list[Row]:
    return sql.call("stampeded_claim_many", queues, sql.worker, limit, *more)


def many(sql: SqlClient, verb: str, jobs: list[Row], worker: UUID | None = None) -> set[UUID]:
    found = sql.call(
        f"stampeded_{verb}_many", worker or sql.worker, [job.queue for job in jobs],
        [job.id for job in jobs], [job.attempt for job in jobs],
    )  # fmt: skip
    assert {(row.queue, row.id) for row in found} <= {(job.queue, job.id) for job in jobs}
    return {row.id for row in found}


def test_the_first_queue_named_comes_first(sql: SqlClient) -> None:
    for queue in ("a", "b", "c"):
        sql.enqueue_many(3, queue)
    claimed = claim_many(sql, ["c", "a"], 5)
    assert [job.queue for job in claimed] == ["c"] * 3 + ["a"] * 2
    assert all(job.state == "executing" and job.attempt == 1 for job in claimed)


def test_within_each_queue_the_order_is_the_claims(sql: SqlClient) -> None:
    for priority in (2, 0, 1):
        for queue in ("a", "b"):
            sql.enqueue(queue, priority=priority)
    claimed = claim_many(sql, ["b", "a"], 6)
    assert [(job.queue, job.priority) for job in claimed] == [
        ("b", 0), ("b", 1), ("b", 2), ("a", 0), ("a", 1), ("a", 2),
    ]  # fmt: skip


def test_each_queue_can_be_bounded(sql: SqlClient) -> None:
    for queue in ("a", "b", "c"):
        sql.enqueue_many(5, queue)
    assert Counter(job.queue for job in claim_many(sql, ["a", "b"], 4, [1, 2])) == {"a": 1, "b": 2}
    assert Counter(job.queue for job in claim_many(sql, ["a", "b"], 4, [0, 9])) == {"b": 3}
    assert Counter(job.queue for job in claim_many(sql, ["a", "c"], 3, [2, 9])) == {"a": 2, "c": 1}


@pytest.mark.parametrize("limit", [None, -1])
def test_a_limit_that_is_null_or_negative_is_refused(sql: SqlClient, limit: int | None) -> None:
    sql.enqueue("a")
    with pytest.raises(psycopg.Error):
        claim_many(sql, ["a"], limit)
    assert sql.counts() == {("a", "available"): 1}


def test_claiming_from_null_queues_is_refused_in_a_sentence(sql: SqlClient) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="p_queues"):
        sql.call("stampeded_claim_many", None, sql.worker, 1)


def test_no_queue_no_room_and_an_unknown_queue_give_nothing(sql: SqlClient) -> None:
    sql.enqueue("a")
    assert claim_many(sql, [], 5) == []
    assert claim_many(sql, ["a"], 0) == []
    assert claim_many(sql, ["never heard of"], 5) == []
    assert sql.counts() == {("a", "available"): 1}


def test_a_queue_named_twice_gives_no_job_twice(sql: SqlClient) -> None:
    sql.enqueue_many(3, "a")
    claimed = claim_many(sql, ["a", "a"], 10)
    assert len({job.id for job in claimed}) == len(claimed) == 3
    assert {job.attempt for job in claimed} == {1}


def test_the_time_of_the_claim_can_be_given(sql: SqlClient) -> None:
    sql.enqueue("a", scheduled_at=timedelta(hours=1))
    assert claim_many(sql, ["a"], 5) == []
    later = sql.value("SELECT now() + '2 hours'")
    assert len(claim_many(sql, ["a"], 5, None, later)) == 1


def test_held_jobs_are_skipped_over_all_queues(sql: SqlClient, connect: Connect) -> None:
    for queue in ("a", "b"):
        sql.enqueue_many(2, queue)
    other = connect()
    sql.run("SET lock_timeout = '2s'")
    with other.transaction():
        held = {job.id for job in claim_many(other, ["a"], 1)}
        free = {job.id for job in claim_many(sql, ["a", "b"], 10)}
    assert len(free) == 3 and not held & free


# -- acknowledging -------------------------------------------------------------------------


@pytest.fixture
def running(sql: SqlClient) -> list[Row]:
    for queue in ("a", "b"):
        sql.enqueue_many(3, queue, dedup_scope=None)
    return claim_many(sql, ["a", "b"], 6)


VERBS = ["complete", "release", "touch"]


@pytest.mark.parametrize("verb", VERBS)
def test_the_answer_names_the_jobs_that_were_still_ours(sql: SqlClient, running: list[Row], verb: str) -> None:
    cancelled, retried, mine = running[0], running[1], running[2:]
    sql.call("stampeded_cancel", cancelled.queue, cancelled.id)
    sql.fail(retried)
    (again,) = sql.claim(retried.queue, worker=sql.register())
    assert again.id == retried.id
    before = [sql.job(job.id) for job in (cancelled, retried)]
    assert many(sql, verb, running) == {job.id for job in mine}
    assert [sql.job(job.id) for job in (cancelled, retried)] == before


@pytest.mark.parametrize("verb", VERBS)
def test_another_worker_and_another_attempt_get_nothing(sql: SqlClient, running: list[Row], verb: str) -> None:
    before = [sql.job(job.id) for job in running]
    assert many(sql, verb, running, worker=uuid4()) == set()
    for attempt in (0, 2, 32768, 2**40):
        assert many(sql, verb, [job._replace(attempt=attempt) for job in running]) == set()
    assert many(sql, verb, [job._replace(queue="elsewhere") for job in running]) == set()
    assert [sql.job(job.id) for job in running] == before


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_to_acknowledge_is_no_error(sql: SqlClient, verb: str) -> None:
    assert many(sql, verb, []) == set()


@pytest.mark.parametrize("verb", VERBS)
def test_a_job_named_twice_is_acknowledged_once(sql: SqlClient, running: list[Row], verb: str) -> None:
    assert many(sql, verb, running[:1] * 2) == {running[0].id}
    assert sql.job(running[0].id).attempt == (0 if verb == "release" else 1)


@pytest.mark.parametrize("verb", ["complete", "release"])
def test_many_at_once_leave_what_one_by_one_leaves(sql: SqlClient, verb: str) -> None:
    moving = {"id", "queue", "inserted_at", "scheduled_at", "claimed_at", "heartbeat_at",
              "checkpoint_at", "finished_at", "errors", "dedup_scope", "dedup_key"}  # fmt: skip
    left = []
    for number, period in enumerate([None, "month"]):
        jobs = []
        for way in ("one", "many"):
            queue = f"{way} {number}"
            job = sql.started(queue, dedup_scope="s", dedup_period=period, max_attempts=5)
            if number:
                sql.fail(job)
                (job,) = sql.claim(queue)
            sql.checkpoint(job, {"row": 1})
            jobs.append(job)
        getattr(sql, verb)(jobs[0])
        assert many(sql, verb, jobs[1:]) == {jobs[1].id}
        left.append([sql.job(job.id) for job in jobs])
    for one, other in left:
        for name in one._fields:
            if name not in moving:
                assert getattr(one, name) == getattr(other, name), name
            else:
                assert (getattr(one, name) is None) is (getattr(other, name) is None), name


def test_jobs_completed_together_are_counted_and_free_their_slots(sql: SqlClient) -> None:
    for number in range(4):
        sql.enqueue("a", dedup_scope=str(number))
    jobs = claim_many(sql, ["a"], 4)
    assert len(many(sql, "complete", jobs)) == 4
    assert sql.counts() == {("a", "completed"): 4}
    for number in range(4):
        sql.enqueue("a", dedup_scope=str(number))


def test_touching_many_moves_their_heartbeats(sql: SqlClient, running: list[Row]) -> None:
    many(sql, "touch", running[:3])
    moved = [sql.job(job.id).heartbeat_at > job.heartbeat_at for job in running]
    assert moved == [True] * 3 + [False] * 3


def test_an_acknowledgement_waits_for_no_job_but_its_own(sql: SqlClient, connect: Connect, running: list[Row]) -> None:
    other = connect()
    sql.run("SET lock_timeout = '2s'")
    with other.transaction():
        other.run("SELECT FROM stampeded_jobs WHERE id = %s FOR UPDATE", running[0].id)
        assert len(many(sql, "complete", running[1:])) == 5
