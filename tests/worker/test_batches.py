"""Batches in a worker: one callback, with the right counts, however and wherever the jobs end."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from contextlib import ExitStack
from datetime import timedelta

import psycopg
import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction

from django_stampeded import Batch, BatchFinished, InvalidOption, chain
from django_stampeded.maintenance.batcher import Batcher
from django_stampeded.maintenance.service import Maintenance
from django_stampeded.process.outage import Outage
from tests.testapp import tasks
from tests.worker.support import column, drain, eventually, real_transactions, rows, states, value, working

pytestmark = real_transactions


def maintain() -> None:
    with connection.cursor() as cur:
        Batcher().run_once(cur)


def counts_in_callbacks() -> list[tuple[str, str]]:
    told = "SELECT meta #>> '{batch,name}', meta #>> '{batch,counts}' FROM stampeded_jobs WHERE task = %s ORDER BY id"
    return rows(told, tasks.note_batch.name)


def test_a_batch_enqueues_its_callback_once_all_its_jobs_are_through(effects):
    with Batch("import", on_complete=tasks.note_batch) as batch:
        batch.enqueue(tasks.effect, n=1)
        batch.enqueue_many("tests.testapp.tasks.effect", ({"n": n} for n in range(2, 12)))
    assert batch.counts() == {"available": 11} and not batch.finished
    drain()
    assert batch.finished and batch.succeeded and batch.counts() == {"completed": 11}
    assert value("SELECT max(n) FROM effects") == 11
    assert counts_in_callbacks() == [("import", '{"completed": 11}')]


def test_batches_that_end_at_once_on_several_workers_have_one_callback_each(effects):
    number, size = 100, 10
    batches = []
    for n in range(number):
        with Batch(f"b{n}", on_complete=tasks.note_batch) as batch:
            batch.enqueue_many(tasks.noop, [{}] * size)
        batches.append(batch)
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(working(threads=4))
        # Of this size alone: a job of an earlier test that was given up may still leave its mark.
        eventually(lambda: value("SELECT count(*) FROM effects WHERE n = %s", size) >= number, timeout=120)
        eventually(lambda: set(states()) == {"completed"})
    told = Counter(name for name, _ in counts_in_callbacks())
    assert told == {f"b{n}": 1 for n in range(number)}
    assert {counts for _, counts in counts_in_callbacks()} == {f'{{"completed": {size}}}'}
    assert value("SELECT count(*) FROM effects WHERE n = %s", size) == number


def test_the_counts_say_how_each_job_ended(effects):
    with Batch("mixed", on_complete=tasks.note_batch, on_success=tasks.noop) as batch:
        batch.enqueue_many(tasks.noop, [{}] * 99)
        batch.enqueue(tasks.fail.using(max_attempts=1))
        batch.enqueue(tasks.fail_until.using(max_attempts=5), attempt=3)
        cancelled = batch.enqueue(tasks.noop.using(queue_name="elsewhere"))
    with connection.cursor() as cur:
        cur.execute("SELECT stampeded_cancel('elsewhere', %s)", [cancelled.id])
    with working():
        eventually(lambda: batch.finished)
    assert batch.counts() == {"completed": 100, "discarded": 1, "cancelled": 1}
    assert batch.succeeded is False
    assert value("SELECT count(*) FROM stampeded_jobs WHERE batch_id IS NULL") == 1


def test_a_job_of_a_batch_can_add_to_it(effects):
    with Batch("growing", on_complete=tasks.note_batch) as batch:
        batch.enqueue(tasks.add_to_batch, more=5)
    drain()
    assert batch.counts() == {"completed": 6}
    assert [n for (n,) in rows("SELECT n FROM effects ORDER BY n")] == [-1, 0, 1, 2, 3, 4, 6]


def test_adding_to_a_finished_batch_is_one_clear_error_and_spoils_no_transaction(effects):
    with Batch("over") as batch:
        batch.enqueue(tasks.noop)
    drain()
    with transaction.atomic():
        for add in (
            lambda: batch.enqueue(tasks.noop),
            lambda: batch.enqueue_many(tasks.noop, [{}]),
            lambda: Batch("inner", parent=batch).open(),
        ):
            with pytest.raises(BatchFinished, match="has finished"):
                add()
        tasks.noop.enqueue()
    assert states() == {"completed": 1, "available": 1}


def test_an_error_in_the_block_leaves_nothing(effects):
    with pytest.raises(RuntimeError), Batch("broken", on_complete=tasks.note_batch) as batch:
        batch.enqueue(tasks.noop)
        raise RuntimeError
    assert states() == {} and value("SELECT count(*) FROM stampeded_batches") == 0


def test_without_a_transaction_jobs_start_at_once_and_an_error_leaves_the_batch_to_be_sealed(effects):
    with pytest.raises(RuntimeError), Batch("piecemeal", on_complete=tasks.note_batch, atomic=False) as batch:
        batch.enqueue(tasks.effect, n=1)
        drain()
        assert batch.counts() == {"completed": 1}
        raise RuntimeError
    maintain()
    assert not batch.finished
    found = Batch.get(batch.id)
    found.enqueue(tasks.effect, n=2)
    found.seal()
    drain()
    assert found.finished and batch.counts() == {"completed": 2}


def test_a_batch_whose_jobs_ended_before_it_was_sealed_ends_with_its_sealing(effects):
    batch = Batch("late", on_complete=tasks.note_batch).open()
    batch.enqueue(tasks.noop)
    drain()
    assert not batch.finished
    batch.seal()
    assert batch.finished
    assert len(counts_in_callbacks()) == 1


def test_a_transaction_that_adds_keeps_the_batch_open_until_it_ends(effects):
    with Batch("shared", on_complete=tasks.note_batch) as batch:
        batch.enqueue(tasks.noop)
    with transaction.atomic():
        batch.enqueue(tasks.effect, n=1)
        drain_elsewhere()
        assert not batch.finished
    drain()
    assert batch.counts() == {"completed": 2} and len(counts_in_callbacks()) == 1


def drain_elsewhere() -> None:
    with working():
        eventually(lambda: states().get("completed") == 1)


def test_a_batch_within_another_holds_it_open(effects):
    with (
        Batch("outer", on_complete=tasks.note_batch) as outer,
        Batch("inner", parent=outer, on_complete=tasks.note_batch) as inner,
    ):
        inner.enqueue(tasks.noop)
    drain()
    assert inner.finished and outer.finished
    assert [name for name, _ in counts_in_callbacks()] == ["inner", "outer"]


def test_a_failure_tells_on_failure_and_not_on_success(effects):
    with Batch("failing", on_failure=tasks.note_batch, on_success=tasks.note_batch) as batch:
        batch.enqueue(tasks.fail.using(max_attempts=1))
    drain()
    assert batch.finished and counts_in_callbacks() == [("failing", '{"discarded": 1}')]


def test_a_callback_keeps_the_options_and_arguments_of_its_task(effects):
    callback = tasks.effect.using(queue_name="mail", priority=7, max_attempts=2, tenant="acme").with_args(n=42)
    with Batch("told", on_complete=callback):
        pass
    found = rows("SELECT queue, priority, max_attempts, tenant_id, args ->> 'n' FROM stampeded_jobs")
    assert found == [("mail", 7, 2, "acme", "42")]


@pytest.mark.parametrize("option", [{"run_after": timedelta(days=1)}, {"dedup": "x"}])
def test_a_callback_takes_no_option_that_it_could_not_keep(effects, option):
    with pytest.raises(InvalidOption, match=f"on_complete can't have {next(iter(option))}"):
        Batch("wrong", on_complete=tasks.noop.using(**option))
    with pytest.raises(InvalidOption, match="on_complete takes a task"):
        Batch("wrong", on_complete=print)


def test_a_stricter_isolation_by_default_keeps_no_batch_open(effects):
    database = connection.settings_dict["NAME"]
    with Batch("strict", on_complete=tasks.note_batch) as batch:
        batch.enqueue(tasks.noop)
    try:
        rows(f"ALTER ROLE CURRENT_USER IN DATABASE \"{database}\" SET default_transaction_isolation = 'repeatable read'")
        drain()
        assert batch.finished
        child = chain(tasks.noop, tasks.noop).enqueue()[1]
        drain()
        maintenance = Maintenance("default", [Batcher()], Outage())
        maintenance.run_once()
        maintenance.link.drop()
        drain()
        assert child.wait(timeout=10) is None
    finally:
        rows(f'ALTER ROLE CURRENT_USER IN DATABASE "{database}" RESET default_transaction_isolation')


def test_the_batch_of_a_job_is_known_only_inside_it(effects):
    assert Batch.current() is None
    with pytest.raises(BatchFinished, match="not open yet"):
        Batch("closed").enqueue(tasks.noop)


def test_cancelling_a_batch_ends_all_its_jobs_and_those_of_the_batches_within(effects):
    outer = Batch("outer", on_complete=tasks.note_batch.using(queue_name="callbacks")).open()
    inner = Batch("inner", parent=outer, on_complete=tasks.note_batch.using(queue_name="callbacks")).open()
    ended = outer.enqueue(tasks.noop)
    drain()
    outer.enqueue_many(tasks.noop, [{}] * 2500)
    first = inner.enqueue(tasks.noop)
    inner.enqueue(tasks.noop.using(depends_on=[first]))
    other = tasks.noop.enqueue()
    with working("held", grace_period=0.1):
        running = outer.enqueue(tasks.sleep.using(queue_name="held"), seconds=60)
        eventually(lambda: column("state", running) == "executing")
        told = outer.cancel("with\x00drawn")
    # The job that depends on another one may have been discarded with that before.
    assert told == 2501 + inner.counts()["cancelled"] and sum(inner.counts().values()) == 2
    assert outer.counts() == {"completed": 1, "cancelled": 2501} and outer.succeeded is False
    assert inner.finished and outer.finished
    assert column("last_error", running) == "with\ufffddrawn"
    assert column("state", other) == "available" and column("state", ended) == "completed"
    assert sorted(name for name, _ in counts_in_callbacks()) == ["inner", "outer"]
    assert outer.cancel() == 0


def test_a_job_that_somebody_locks_for_a_moment_is_cancelled_too(effects):
    with Batch("locked") as batch:
        job = batch.enqueue(tasks.noop)
    released = threading.Event()
    with psycopg.connect(**connection.get_connection_params()) as other:
        other.execute("SELECT FROM stampeded_jobs WHERE id = %s FOR UPDATE", [job.id])
        threading.Timer(0.1, lambda: (other.rollback(), released.set())).start()
        assert batch.cancel() == 1 and released.wait(60)
    assert batch.counts() == {"cancelled": 1}


def test_a_batch_in_async_code_is_sealed_at_the_end_of_its_block(effects):
    async def enqueue() -> Batch:
        async with Batch("async", atomic=False, on_complete=tasks.note_batch) as batch:
            await batch.aenqueue(tasks.effect, n=1)
            await batch.aenqueue_many(tasks.effect, [{"n": 2}])
        return batch

    batch = async_to_sync(enqueue)()
    drain()
    assert batch.finished and counts_in_callbacks() == [("async", '{"completed": 2}')]

    async def one_transaction() -> None:
        async with Batch("async"):
            pass

    with pytest.raises(InvalidOption, match="give the batch atomic=False"):
        async_to_sync(one_transaction)()


def test_a_large_batch_with_discards_calls_back_once_with_exact_counts(effects):
    size = int(os.environ.get("STAMPEDED_BATCH_JOBS", "5000"))
    with Batch("large", on_complete=tasks.note_batch, on_failure=tasks.note_batch, on_success=tasks.note_batch) as batch:
        batch.enqueue_many(tasks.noop, ({"n": n} for n in range(size - size // 100)))
        batch.enqueue_many(tasks.fail.using(max_attempts=1), ({} for _ in range(size // 100)))
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(working(threads=4))
        eventually(lambda: batch.finished, "the batch to finish", timeout=240)
    told = rows("SELECT meta #> '{batch,event}' #>> '{}', meta #>> '{batch,counts}' FROM stampeded_jobs WHERE batch_id IS NULL")
    exact = {"completed": size - size // 100, "discarded": size // 100}
    assert sorted(event for event, _ in told) == ["on_complete", "on_failure"]
    assert json.loads(dict(told)["on_complete"]) == batch.counts() == exact
