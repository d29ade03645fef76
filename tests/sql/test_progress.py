"""stampeded_progress and stampeded_progress_many: for the latest attempt alone, without a lock on the job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.sql.client import SqlClient
from tests.sql.fixtures import Connect

DAY = timedelta(days=1)


def tell(sql: SqlClient, job: Any, *told: object, worker: Any = None, attempt: int | None = None) -> bool:
    lease = (job.queue, job.id, worker or job.claimed_by, job.attempt if attempt is None else attempt)
    return sql.call("stampeded_progress", *lease, *told)[0][0]


def told(sql: SqlClient) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in sql.rows("SELECT attempt, done, total, message FROM stampeded_progress ORDER BY job_id")]


def test_progress_is_noted_and_replaced(sql: SqlClient) -> None:
    job = sql.started()
    assert tell(sql, job, 1)
    assert told(sql) == [(1, 1, None, "")]
    assert tell(sql, job, 40, 100, "page 4")
    assert told(sql) == [(1, 40, 100, "page 4")]


def test_a_long_message_is_cut(sql: SqlClient) -> None:
    job = sql.started()
    assert tell(sql, job, 1, None, "é" * 300)
    assert told(sql) == [(1, 1, None, "é" * 255)]


def test_nobody_but_the_owner_of_the_attempt_is_heard(sql: SqlClient) -> None:
    job = sql.started()
    assert not tell(sql, job, 1, worker=uuid4())
    assert not tell(sql, job, 1, attempt=2)
    assert not tell(sql, job, 1, attempt=0)
    assert not tell(sql, job._replace(id=uuid4()), 1)
    assert told(sql) == []


@pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
def test_the_last_word_may_come_after_the_end(sql: SqlClient, end: str) -> None:
    job = sql.started()
    if end == "cancel":
        sql.call("stampeded_cancel", job.queue, job.id)
    else:
        getattr(sql, end)(job)
    assert tell(sql, job, 10, 10)
    assert told(sql) == [(1, 10, 10, "")]


def test_a_job_that_somebody_has_claimed_since_is_not_spoken_for(sql: SqlClient) -> None:
    job = sql.started()
    sql.fail(job)
    (again,) = sql.claim(worker=sql.register())
    assert not tell(sql, job, 1)
    assert tell(sql, again, 2)
    assert told(sql) == [(2, 2, None, "")]


def test_a_released_or_retried_job_starts_without_progress(sql: SqlClient) -> None:
    job = sql.started()
    assert tell(sql, job, 1)
    sql.release(job)
    assert not tell(sql, job, 2)
    sql.call("stampeded_retry", job.queue, job.id)
    assert told(sql) == []
    assert not tell(sql, job, 2)


def test_many_are_noted_at_once_and_those_of_others_left_out(sql: SqlClient) -> None:
    mine = [sql.started("a"), sql.started("b"), sql.started("a")]
    other = sql.enqueue("a")
    sql.claim("a", worker=sql.register())
    jobs = [*mine, sql.job(other)]
    arrays = [[j.queue for j in jobs], [j.id for j in jobs], [j.attempt for j in jobs]]
    found = sql.call("stampeded_progress_many", sql.worker, *arrays, [1, 2, 3, 4], [None, 5, 5, 5], ["x", None, "", "y"])
    assert {row.id for row in found} == {job.id for job in mine}
    assert told(sql) == [(1, 1, None, "x"), (1, 2, 5, ""), (1, 3, 5, "")]


def test_a_transaction_that_holds_the_job_holds_up_nothing(sql: SqlClient, connect: Connect) -> None:
    another = connect()
    job = sql.started()
    with another.transaction():
        another.run("SELECT FROM stampeded_jobs WHERE id = %s FOR UPDATE", job.id)
        sql.run("SET lock_timeout = '1ms'")
        assert tell(sql, job, 1)


def test_a_row_that_somebody_is_deleting_is_not_waited_for(sql: SqlClient, connect: Connect) -> None:
    another = connect()
    job = sql.started()
    tell(sql, job, 1)
    sql.complete(job)
    with another.transaction():
        another.call("stampeded_delete", job.queue, job.id)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            tell(sql, job, 2)


def test_progress_goes_with_the_job(sql: SqlClient) -> None:
    jobs = [sql.started() for _ in range(3)]
    for n, job in enumerate(jobs):
        tell(sql, job, n)
    for job in jobs[:2]:
        sql.complete(job)
    sql.set_job(jobs[0].id, finished_at=-DAY)
    assert sql.call("stampeded_prune", timedelta(hours=1), 10)[0][0] == 1
    assert told(sql) == [(1, 1, None, ""), (1, 2, None, "")]
    assert sql.call("stampeded_delete", "q", jobs[1].id)[0][0] == "completed"
    assert sql.call("stampeded_delete", "q", jobs[2].id)[0][0] is None
    assert told(sql) == [(1, 2, None, "")]


def test_reports_of_one_job_are_hot_updates(sql: SqlClient) -> None:
    job = sql.started()
    tell(sql, job, 0)
    sql.run("SELECT pg_stat_force_next_flush()")
    counted = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = 'stampeded_progress'::regclass"
    before = sql.one(counted)
    for n in range(20):
        tell(sql, job, n, 20, "counting")
    sql.run("SELECT pg_stat_force_next_flush()")
    after = sql.one(counted)
    assert (after.n_tup_upd - before.n_tup_upd, after.n_tup_hot_upd - before.n_tup_hot_upd) == (20, 20)
