"""A duplicate that replaces: what a waiting job takes of it, what it keeps, and whom it never holds up."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.sql.client import SqlClient
from tests.sql.fixtures import Connect
from tests.sql.test_notifications import Listener

HOUR = timedelta(hours=1)


def replace(sql: SqlClient, *ids: UUID, args: object = None, **more: object) -> list[UUID]:
    given = [Jsonb(args or {"new": True}) for _ in ids]
    named = "".join(f", {name} => %s" for name in more)
    found = sql.rows(f"SELECT * FROM stampeded_replace('q', %s::uuid[], %s::jsonb[]{named})", list(ids), given, *more.values())
    return [row[0] for row in found]


@pytest.mark.parametrize("state", ["available", "retryable", "claimed", "executing", "completed", "discarded", "cancelled"])
def test_only_a_job_that_waits_takes_new_arguments(sql: SqlClient, state: str) -> None:
    id = sql.enqueue(dedup_scope="s", dedup_period="month", state=state, args={"new": False})
    waits = state in ("available", "retryable")
    assert replace(sql, id) == ([id] if waits else [])
    assert sql.job(id).args == {"new": waits} and sql.job(id).state == state


def test_a_job_without_a_scope_in_another_queue_or_unknown_is_left_alone(sql: SqlClient) -> None:
    ids = [sql.enqueue(), sql.enqueue("other", dedup_scope="s")]
    assert replace(sql, *ids, UUID(int=1)) == []
    assert all(sql.job(id).args == {} for id in ids)


def test_what_a_retry_has_behind_it_stays_but_for_its_checkpoint(sql: SqlClient) -> None:
    job = sql.started(dedup_scope="s", priority=3, max_attempts=7)
    sql.checkpoint(job, {"page": 4})
    sql.fail(job, error="first", delay=3_600_000)
    assert replace(sql, job.id, p_priority=-3)
    after = sql.job(job.id)
    assert (after.attempt, after.max_attempts, after.state, after.last_error) == (1, 7, "retryable", "first")
    assert len(after.errors) == 1 and after.checkpoint is None
    assert after.priority == -3 and [claimed.id for claimed in sql.claim()] == [job.id]


def test_a_job_that_waits_for_others_keeps_on_waiting_for_them(sql: SqlClient) -> None:
    parent = sql.started("parents")
    id = sql.enqueue(dedup_scope="s", meta={"depends_on": [str(parent.id)], "django": 1})
    sql.call("stampeded_depend", "q", id, ["parents"], [parent.id])
    assert replace(sql, id, p_meta=Jsonb({"django": 2}))
    assert sql.claim() == []
    assert sql.job(id).meta == {"depends_on": [str(parent.id)], "django": 2}
    sql.complete(parent)
    assert [(job.id, job.args) for job in sql.claim()] == [(id, {"new": True})]


def test_a_job_of_a_batch_stays_in_it(sql: SqlClient) -> None:
    batch = sql.value("SELECT stampeded_open_batch('b')")
    id = sql.enqueue(dedup_scope="s", batch_id=batch)
    assert replace(sql, id)
    assert sql.job(id).batch_id == batch
    assert sql.value("SELECT sum(n) FROM stampeded_batch_deltas WHERE batch_id = %s", batch) == 1


def test_a_replacement_that_makes_a_job_due_wakes_a_worker_and_one_for_later_does_not(sql: SqlClient, connect: Connect) -> None:
    assert sql.worker
    listener = Listener(connect())
    id = sql.enqueue(dedup_scope="s", scheduled_at=HOUR)
    listener.heard()
    replace(sql, id, p_scheduled_at=sql.value("SELECT now() + interval '1 hour'"))
    assert not listener.heard()
    replace(sql, id)
    assert listener.heard() == {"q": 1}


def test_an_open_transaction_that_replaced_holds_up_neither_claims_nor_what_runs(sql: SqlClient, connect: Connect) -> None:
    running = sql.started(dedup_scope="runs")
    waiting, other = sql.enqueue(dedup_scope="waits"), sql.enqueue()
    enqueuer = connect()
    sql.run("SET lock_timeout = '300ms'")
    with enqueuer.transaction():
        assert replace(enqueuer, running.id, waiting) == [waiting]
        assert sql.touch(running)
        assert [job.id for job in sql.claim(limit=5)] == [other]
        assert sql.complete(running)
    assert [job.id for job in sql.claim(limit=5)] == [waiting]


def test_a_job_that_is_started_meanwhile_is_kept(sql: SqlClient, connect: Connect) -> None:
    id = sql.enqueue(dedup_scope="s")
    with sql.transaction():
        assert sql.claim()
        enqueuer = connect()
        enqueuer.run("SET lock_timeout = '20ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            replace(enqueuer, id)
    assert replace(sql, id) == []


def test_arguments_for_another_number_of_jobs_are_refused(sql: SqlClient) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="one object for each of p_ids"):
        sql.run("SELECT stampeded_replace('q', %s::uuid[], '{}'::jsonb[])", [UUID(int=1)])


def test_counts_stay_exact(sql: SqlClient) -> None:
    ids = [sql.enqueue(dedup_scope=str(n)) for n in range(5)]
    assert sorted(replace(sql, *reversed(ids))) == sorted(ids)
    assert sql.counts() == sql.true_counts()
