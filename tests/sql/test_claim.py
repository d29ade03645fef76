"""stampeded_claim: who gets which job, in what order, and what the claim leaves on the row."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.sql.client import SqlClient
from tests.sql.fixtures import Connect

HOUR = timedelta(hours=1)


def test_jobs_come_by_priority_then_by_due_time(sql: SqlClient) -> None:
    late = sql.enqueue(priority=0, scheduled_at=-HOUR)
    later = sql.enqueue(priority=0, scheduled_at=-HOUR / 2)
    low = sql.enqueue(priority=5, scheduled_at=-2 * HOUR)
    urgent = sql.enqueue(priority=-32768)
    assert [job.id for job in sql.claim(limit=10)] == [urgent, late, later, low]


def test_the_first_jobs_are_taken_when_there_are_more_than_asked_for(sql: SqlClient) -> None:
    for priority in (3, 1, 4, 2, 5):
        sql.enqueue(priority=priority)
    assert [job.priority for job in sql.claim(limit=2)] == [1, 2]
    assert [job.priority for job in sql.claim(limit=2)] == [3, 4]


def test_of_one_priority_the_job_that_is_due_longest_is_taken_first(sql: SqlClient) -> None:
    sql.enqueue(scheduled_at=-HOUR)
    longest = sql.enqueue(scheduled_at=-2 * HOUR)
    sql.enqueue(scheduled_at=-HOUR)
    assert [job.id for job in sql.claim(limit=1)] == [longest]


def test_claimed_rows_come_in_claim_order_whatever_order_they_were_written_in(
    sql: SqlClient,
) -> None:
    for priority in (7, 3, 9, 1, 5, 2, 8, 4, 6, 0):
        sql.enqueue_many(20, priority=priority)
    claimed = sql.claim(limit=200)
    order = [(job.priority, job.scheduled_at) for job in claimed]
    is_sorted = order == sorted(order)  # compared here, as telling 200 rows apart in a report takes minutes
    assert len(order) == 200 and is_sorted


@pytest.mark.parametrize("state", ["available", "retryable"])
def test_a_waiting_job_that_is_due_is_claimed(sql: SqlClient, state: str) -> None:
    id = sql.enqueue(state=state)
    assert [job.id for job in sql.claim()] == [id]


@pytest.mark.parametrize("state", ["claimed", "executing", "completed", "discarded", "cancelled"])
def test_a_job_that_is_not_waiting_is_not_claimed(sql: SqlClient, state: str) -> None:
    sql.enqueue(state=state)
    assert sql.claim() == []


def test_a_job_is_not_claimed_before_its_time(sql: SqlClient) -> None:
    sql.enqueue(scheduled_at=timedelta(minutes=1))
    sql.enqueue(scheduled_at=timedelta(minutes=1), state="retryable")
    assert sql.claim(limit=10) == []


def test_the_time_of_the_claim_can_be_given(sql: SqlClient) -> None:
    id = sql.enqueue(scheduled_at=HOUR)
    soon, later = sql.one("SELECT now() + '59 minutes' AS a, now() + '61 minutes' AS b")
    assert sql.claim(p_now=soon) == []
    assert [job.id for job in sql.claim(p_now=later)] == [id]


def test_a_job_whose_attempts_are_spent_is_not_claimed(sql: SqlClient) -> None:
    sql.enqueue(attempt=3, max_attempts=3)
    last = sql.enqueue(attempt=2, max_attempts=3)
    assert [job.id for job in sql.claim(limit=10)] == [last]


def test_only_jobs_of_the_queue_asked_for_are_claimed(sql: SqlClient) -> None:
    sql.enqueue("other")
    mine = sql.enqueue("q")
    assert [job.id for job in sql.claim("q", 10)] == [mine]
    assert sql.claim("Q", 10) == []


def test_a_claim_marks_the_job_as_executing_by_that_worker(sql: SqlClient) -> None:
    id = sql.enqueue()
    (claimed,) = sql.claim()
    assert claimed == sql.job(id)
    assert (claimed.state, claimed.attempt, claimed.claimed_by) == ("executing", 1, sql.worker)
    assert claimed.attempted_by == [str(sql.worker)]
    now = sql.now()
    assert now - HOUR < claimed.claimed_at <= now
    assert now - HOUR < claimed.heartbeat_at <= now


def test_each_claim_counts_one_attempt(sql: SqlClient) -> None:
    job = sql.started()
    for attempt in (1, 2, 3):
        assert job.attempt == attempt
        sql.fail(job)
        (job,) = sql.claim()


def test_the_last_ten_workers_are_kept_newest_last(sql: SqlClient) -> None:
    id = sql.enqueue()
    workers = [sql.register() for _ in range(12)]
    for worker in workers:
        (job,) = sql.claim(worker=worker)
        sql.fail(job)
    assert sql.job(id).attempted_by == [str(worker) for worker in workers[2:]]


@pytest.mark.parametrize("limit", [None, -1, -(2**31), -(2**40)])
def test_a_limit_that_is_null_or_negative_is_refused(sql: SqlClient, limit: int | None) -> None:
    sql.enqueue_many(3)
    with pytest.raises(psycopg.Error) as refusal:
        sql.call("stampeded_claim", "q", sql.worker, limit)
    assert refusal.value.sqlstate and refusal.value.sqlstate.startswith(("22", "P0"))
    assert sql.counts() == {("q", "available"): 3}


def test_a_limit_of_nothing_takes_nothing(sql: SqlClient) -> None:
    sql.enqueue_many(3)
    assert sql.claim(limit=0) == []
    assert sql.counts() == {("q", "available"): 3}


def test_a_claim_without_a_limit_takes_one(sql: SqlClient) -> None:
    sql.enqueue_many(3)
    assert len(sql.call("stampeded_claim", "q", sql.worker)) == 1


@pytest.mark.parametrize("limit", [100, 2**31 - 1, 2**31, 2**63 - 1])
def test_a_limit_above_what_is_there_takes_all(sql: SqlClient, limit: int) -> None:
    sql.enqueue_many(3)
    assert len(sql.claim(limit=limit)) == 3


def test_a_job_that_another_transaction_holds_is_skipped_without_waiting(sql: SqlClient, connect: Connect) -> None:
    sql.enqueue_many(4)
    other = connect()
    sql.run("SET lock_timeout = '2s'")
    with other.transaction():
        held = {job.id for job in other.claim(limit=2)}
        assert len(held) == 2
        free = {job.id for job in sql.claim(limit=10)}
    assert len(free) == 2 and not free & held


def test_a_claim_that_is_rolled_back_leaves_the_job_as_it_was(sql: SqlClient, connect: Connect) -> None:
    id = sql.enqueue()
    before = sql.job(id)
    other = connect()
    with other.transaction() as transaction:
        assert other.claim()
        raise psycopg.Rollback(transaction)
    assert sql.job(id) == before
    assert [job.id for job in sql.claim()] == [id]


def test_a_claim_leaves_everything_else_on_the_row_alone(sql: SqlClient) -> None:
    columns: dict[str, Any] = {
        "args": {"a": [1, None, "x"]}, "meta": {"django": {"k": 1}, "activejob": {}},
        "tenant_id": "acme", "destination": "api", "dedup_scope": "s", "dedup_period": "day",
        "checkpoint": {"at": 3}, "checkpoint_seq": 7, "interruptions": 1, "deferrals": 2,
        "last_error": "before", "failure_kind": "raised", "dead_letter_queue": "dead",
        "source_id": uuid4(), "source_queue": "there", "source_attempts": 4,
    }  # fmt: skip
    id = sql.enqueue(**columns)
    before = sql.job(id)
    (claimed,) = sql.claim()
    touched = {"state", "attempt", "claimed_by", "claimed_at", "heartbeat_at", "attempted_by"}
    changed = {name for name in before._fields if getattr(before, name) != getattr(claimed, name)}
    assert changed == touched


def test_a_queue_without_jobs_and_a_queue_never_heard_of_give_nothing(sql: SqlClient) -> None:
    assert sql.claim("q") == []
    assert sql.claim("never heard of") == []
