"""Batches of jobs: counted exactly, through with once, and what is enqueued then."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.sql.client import Row, SqlClient
from tests.sql.fixtures import Connect

DONE = {"queue": "callbacks", "task": "done"}


def opened(sql: SqlClient, **named: Any) -> UUID:
    for name in ("p_on_complete", "p_on_success", "p_on_failure"):
        if name in named:
            named[name] = psycopg.types.json.Jsonb(named[name])
    return sql.call("stampeded_open_batch", "import", **named)[0][0]


def sealed(sql: SqlClient, **named: Any) -> UUID:
    id = opened(sql, **named)
    assert seal(sql, id)
    return id


def seal(sql: SqlClient, id: UUID) -> bool:
    return sql.call("stampeded_seal_batch", id)[0][0]


def finish(sql: SqlClient, *ids: UUID) -> set[UUID]:
    return {row[0] for row in sql.call("stampeded_finish_batches", *([list(ids)] if ids else []))}


def batch(sql: SqlClient, id: UUID) -> Row:
    return sql.one("SELECT * FROM stampeded_batches WHERE id = %s", id)


def counts(sql: SqlClient, id: UUID) -> dict[str, int]:
    return dict(sql.rows("SELECT state, n FROM stampeded_batch_counts WHERE batch_id = %s", id))


def callbacks(sql: SqlClient) -> list[str]:
    return [job.task for job in sql.jobs("callbacks")]


def test_a_batch_ends_once_all_its_jobs_are_final_and_its_callback_knows_the_counts(sql: SqlClient) -> None:
    id = opened(sql, p_on_complete={**DONE, "args": {"x": 1}, "priority": 3})
    jobs = [sql.started(batch_id=id) for _ in range(3)]
    assert seal(sql, id)
    sql.complete(jobs[0])
    sql.fail(jobs[1], "unrecoverable")
    assert finish(sql) == set() and callbacks(sql) == []
    sql.call("stampeded_cancel", "q", jobs[2].id)
    assert finish(sql, uuid4(), id) == {id}
    assert finish(sql) == finish(sql, id) == set()
    (callback,) = sql.jobs("callbacks")
    assert (callback.args, callback.priority) == ({"x": 1}, 3)
    told = {"completed": 1, "discarded": 1, "cancelled": 1}
    assert callback.meta["batch"] == {"id": str(id), "name": "import", "event": "on_complete", "counts": told}
    assert batch(sql, id).counts == counts(sql, id) == told
    assert not batch(sql, id).succeeded


def test_a_batch_that_is_not_sealed_does_not_end(sql: SqlClient) -> None:
    id = opened(sql, p_on_complete=DONE)
    sql.complete(sql.started(batch_id=id))
    assert finish(sql) == set()
    assert seal(sql, id)
    assert finish(sql) == {id}
    assert not seal(sql, id)


def test_an_empty_batch_ends_when_it_is_sealed(sql: SqlClient) -> None:
    id = sealed(sql, p_on_complete=DONE, p_on_success={**DONE, "task": "well"})
    assert finish(sql) == {id}
    assert callbacks(sql) == ["done", "well"]
    assert batch(sql, id).counts == {}


def test_the_first_failure_has_a_callback_of_its_own_before_the_end(sql: SqlClient) -> None:
    id = sealed(sql, p_on_failure={**DONE, "task": "failed"}, p_on_success={**DONE, "task": "well"}, p_on_complete=DONE)
    jobs = [sql.started(batch_id=id) for _ in range(3)]
    sql.fail(jobs[0], "unrecoverable")
    finish(sql)
    sql.fail(jobs[1], "unrecoverable")
    finish(sql)
    assert callbacks(sql) == ["failed"]
    sql.complete(jobs[2])
    assert finish(sql) == {id}
    assert callbacks(sql) == ["failed", "done"]


def test_a_failed_job_that_is_retried_in_time_lets_the_batch_succeed(sql: SqlClient) -> None:
    id = sealed(sql, p_on_success={**DONE, "task": "well"})
    failed, other = sql.started(batch_id=id), sql.started(batch_id=id)
    sql.fail(failed, "unrecoverable")
    sql.call("stampeded_retry", "q", failed.id)
    sql.complete(other)
    assert finish(sql) == set()
    sql.complete(sql.claim()[0])
    assert finish(sql) == {id}
    assert callbacks(sql) == ["well"] and batch(sql, id).succeeded


def test_retries_and_snoozes_and_releases_keep_a_batch_open(sql: SqlClient) -> None:
    id = sealed(sql, p_on_complete=DONE)
    sql.fail(sql.started(batch_id=id))
    sql.release(sql.claim()[0])
    assert counts(sql, id) == {"retryable": 1} or counts(sql, id) == {"available": 1}
    assert finish(sql) == set()
    sql.complete(sql.claim()[0])
    assert finish(sql) == {id}


def test_adding_to_a_batch_that_has_finished_or_never_was_is_refused(sql: SqlClient) -> None:
    id = sealed(sql)
    finish(sql)
    for wrong in (id, uuid4()):
        with pytest.raises(psycopg.errors.ForeignKeyViolation, match=f"{wrong} is unknown or has finished"):
            sql.enqueue(batch_id=wrong)
        with pytest.raises(psycopg.errors.ForeignKeyViolation, match="unknown or has finished"):
            opened(sql, p_parent_id=wrong)
    assert sql.jobs() == []


def test_a_batch_does_not_end_while_somebody_is_adding_to_it(sql: SqlClient, connect: Connect) -> None:
    other = connect()
    id = sealed(sql, p_on_complete=DONE)
    with other.transaction():
        added = other.enqueue(batch_id=id)
        other.enqueue_many(3, batch_id=id)
        assert finish(sql) == set()
        sql.complete(sql.started(batch_id=id))
        assert finish(sql) == set()
    assert finish(sql) == set()
    for job in sql.claim(limit=9):
        sql.complete(job)
    assert finish(sql) == {id}
    assert batch(sql, id).counts == {"completed": 5}
    assert sql.job(added).state == "completed"


def test_a_transaction_that_adds_too_late_fails_and_the_callback_stays_right(sql: SqlClient, connect: Connect) -> None:
    id = sealed(sql)
    other = connect()
    with pytest.raises(psycopg.errors.ForeignKeyViolation), other.transaction():
        other.enqueue()
        assert finish(sql) == {id}
        other.enqueue(batch_id=id)
    assert sql.jobs() == []


def test_what_happens_to_jobs_after_the_end_leaves_the_counts_alone(sql: SqlClient) -> None:
    id = sealed(sql, p_on_complete=DONE)
    job = sql.started(batch_id=id)
    sql.fail(job, "unrecoverable")
    finish(sql)
    sql.call("stampeded_retry", "q", job.id)
    sql.call("stampeded_move", "q", job.id, "elsewhere")
    sql.complete(sql.claim("elsewhere")[0])
    assert finish(sql) == set()
    assert counts(sql, id) == {"discarded": 1} and callbacks(sql) == ["done"]


def test_deleting_and_moving_jobs_of_an_open_batch_keeps_its_counts_right(sql: SqlClient) -> None:
    id = sealed(sql)
    stays, goes = sql.enqueue(batch_id=id), sql.enqueue(batch_id=id)
    sql.call("stampeded_move", "q", stays, "r")
    sql.call("stampeded_delete", "q", goes)
    assert counts(sql, id) == {"available": 1}
    assert sql.job(stays).batch_id == id
    sql.call("stampeded_create_queue", "r")
    assert counts(sql, id) == {"available": 1}


def test_a_batch_waits_for_the_batches_within_it_and_succeeds_only_with_them(sql: SqlClient) -> None:
    outer = sealed(sql, p_on_complete={**DONE, "task": "outer"}, p_on_success={**DONE, "task": "well"})
    middle = sealed(sql, p_parent_id=outer)
    inner = sealed(sql, p_parent_id=middle, p_on_complete={**DONE, "task": "inner"})
    job = sql.started(batch_id=inner)
    assert finish(sql) == set()
    sql.fail(job, "unrecoverable")
    assert finish(sql, inner) == {inner, middle, outer}
    assert callbacks(sql) == ["inner", "outer"]


@pytest.mark.parametrize("wrong", [{"priority": "high"}, {"priority": 99_999}, {"queue": ""}, {"args": []}])
def test_a_callback_that_cannot_be_enqueued_stops_neither_its_batch_nor_others(sql: SqlClient, wrong: dict[str, Any]) -> None:
    broken = sealed(sql, p_on_complete={**DONE, **wrong}, p_on_success=DONE)
    fine = sealed(sql, p_on_complete={**DONE, "task": "fine"})
    assert finish(sql) == {broken, fine}
    assert sorted(callbacks(sql)) == ["done", "fine"]
    assert batch(sql, broken).callback_error.startswith("on_complete: ")
    assert batch(sql, fine).callback_error is None


def test_a_callback_without_queue_or_task_is_refused_when_the_batch_is_opened(sql: SqlClient) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        opened(sql, p_on_complete={"task": "done"})


def test_jobs_of_an_open_batch_are_not_pruned(sql: SqlClient) -> None:
    id = sealed(sql)
    done, waits = sql.started(batch_id=id), sql.enqueue(batch_id=id, scheduled_at=timedelta(hours=1))
    sql.complete(done)
    sql.set_job(done.id, finished_at=timedelta(days=-30))
    assert sql.call("stampeded_prune")[0][0] == 0
    sql.call("stampeded_cancel", "q", waits)
    finish(sql)
    assert sql.call("stampeded_prune")[0][0] == 1
    assert counts(sql, id) == {"completed": 1, "cancelled": 1}


def test_folding_keeps_the_counts_and_drops_those_of_finished_batches(sql: SqlClient) -> None:
    open_one, finished = opened(sql), sealed(sql)
    for job in [sql.started(batch_id=id) for id in (open_one, finished) for _ in range(12)]:
        sql.complete(job)
    finish(sql)
    before = counts(sql, open_one), counts(sql, finished)
    sql.call("stampeded_fold_counts")
    assert (counts(sql, open_one), counts(sql, finished)) == before == ({"completed": 12}, {"completed": 12})
    left = sql.rows("SELECT batch_id, sum(n) AS n FROM stampeded_batch_deltas GROUP BY batch_id HAVING sum(n) <> 0")
    assert [(row.batch_id, row.n) for row in left] == [(open_one, 12)]


def test_truncating_a_partition_takes_its_jobs_off_the_counts(sql: SqlClient) -> None:
    id = opened(sql)
    sql.call("stampeded_create_queue", "own")
    sql.enqueue("own", batch_id=id)
    sql.enqueue("q", batch_id=id)
    sql.run(f"TRUNCATE {sql.value('SELECT stampeded_partition_of(%s)::text', 'own')}")
    assert counts(sql, id) == {"available": 1}


def test_finishing_asks_for_read_committed(sql: SqlClient) -> None:
    with pytest.raises(psycopg.errors.InvalidTransactionState, match="READ COMMITTED"), sql.transaction():
        sql.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        finish(sql)


def test_old_batches_are_pruned_but_not_within_an_open_one(sql: SqlClient) -> None:
    outer = sealed(sql)
    inner = sealed(sql, p_parent_id=outer)
    job = sql.started(batch_id=outer)
    finish(sql)
    sql.run("UPDATE stampeded_batches SET finished_at = now() - interval '40 days' WHERE id = %s", inner)
    assert sql.call("stampeded_prune_results")[0][0] == 0
    sql.complete(job)
    finish(sql)
    sql.run("UPDATE stampeded_batches SET finished_at = now() - interval '40 days'")
    assert sql.call("stampeded_prune_results")[0][0] == 2


def test_cancelling_a_batch_makes_of_each_job_what_cancelling_it_does(sql: SqlClient) -> None:
    id = sealed(sql, p_on_complete=DONE)
    columns = {"dedup_period": "day", "destination": "bank", "max_attempts": 3}
    for queue, batch_id in (("alone", None), ("together", id)):
        jobs = [sql.started(queue=queue, batch_id=batch_id, **columns, dedup_scope=str(n)) for n in range(3)]
        sql.release(jobs[0])
        sql.fail(jobs[1], "raised")
    for job in sql.jobs("alone"):
        sql.call("stampeded_cancel", "alone", job.id, "withdrawn 42")
    assert sql.call("stampeded_cancel_batch", id, "withdrawn 42", 2) == [(2, True)]
    assert sql.call("stampeded_cancel_batch", id, "withdrawn 42") == [(1, False)]
    assert sql.call("stampeded_cancel_batch", id) == [(0, False)]
    own = ("id", "queue", "batch_id", "inserted_at", "scheduled_at", "claimed_at", "heartbeat_at", "finished_at", "claimed_by")
    alone, together = (
        [
            {
                name: [each | {"at": None} | _seconds(each) for each in value] if name == "errors" else value
                for name, value in job._asdict().items()
                if name not in (*own, "attempted_by", "dedup_key")
            }
            for job in sorted(sql.jobs(queue), key=lambda job: job.id)
        ]
        for queue in ("alone", "together")
    )
    assert alone == together and {job["state"] for job in together} == {"cancelled"}
    nodes = [each.get("node") for job in together for each in job["errors"] if each["kind"] == "cancelled"]
    assert nodes == [None, None, "host"]
    tallies = sql.rows("SELECT queue, sum(n)::int FROM stampeded_tallies WHERE what = 'cancelled' GROUP BY queue")
    assert dict(tallies) == {"alone": 3, "together": 3}
    assert finish(sql) == {id} and counts(sql, id) == {"cancelled": 3}


def _seconds(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry's duration as whether it has one."""
    return {"duration_s": True} if entry.get("duration_s") is not None else {}
