"""Jobs that wait for others, what they return, and whoever waits for that."""

from __future__ import annotations

from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction

from django_stampeded import Batch, InvalidArguments, InvalidOption, JobFailed, NoResult, Puller, chain
from django_stampeded.maintenance.batcher import Batcher
from django_stampeded.maintenance.pruner import ResultPruner
from tests.testapp import tasks
from tests.worker.support import column, drain, eventually, real_transactions, rows, states, value, working

pytestmark = real_transactions


def test_a_chain_runs_in_order_and_hands_results_on(effects):
    jobs = chain(
        tasks.add.with_args(x=1, y=2),
        [tasks.sum_of_parents, tasks.sum_of_parents.with_args(extra=10)],
        tasks.sum_of_parents,
    ).enqueue()
    drain()
    assert [job.result() for job in jobs] == [3, 3, 13, 16]
    started = [at for (at,) in rows("SELECT claimed_at FROM stampeded_jobs ORDER BY id")]
    assert started[0] <= min(started[1:3]) and max(started[1:3]) <= started[3]


def test_a_chain_ends_with_a_job_that_fails(effects):
    jobs = chain(tasks.fail.using(max_attempts=1), tasks.effect.with_args(n=1), tasks.effect.with_args(n=2)).enqueue()
    drain()
    assert states() == {"discarded": 3}
    with pytest.raises(JobFailed, match="which it depends on, was discarded") as caught:
        jobs[1].result()
    assert caught.value.state == "discarded"


def test_a_chain_may_go_on_after_a_job_that_fails(effects):
    chain(tasks.fail.using(max_attempts=1), tasks.effect.with_args(n=1), on_discard="run").enqueue()
    drain()
    assert states() == {"discarded": 1, "completed": 1}


def test_jobs_enqueued_in_bulk_can_wait_for_others(effects):
    parents = tasks.noop.enqueue_many([{}] * 2)
    tasks.effect.using(depends_on=parents).enqueue_many({"n": n} for n in range(3))
    assert value("SELECT count(*) FROM stampeded_jobs WHERE scheduled_at = stampeded_waits_until()") == 3
    drain()
    assert states() == {"completed": 5}


def test_a_job_that_ends_during_the_transaction_that_waits_for_it_is_swept_up(effects):
    parent = tasks.noop.enqueue()
    with working() as worker:
        with transaction.atomic():
            child = tasks.effect.using(depends_on=[parent]).enqueue(n=1)
            eventually(lambda: column("state", parent) == "completed")
        assert column("state", child) == "available"
        with connection.cursor() as cur:
            Batcher().run_once(cur)
        eventually(lambda: column("state", child) == "completed")
        assert worker


def test_a_duplicate_is_not_made_to_wait(effects):
    first = tasks.noop.using(dedup="one").enqueue()
    parent = tasks.noop.using(queue_name="never").enqueue()
    again = tasks.noop.using(dedup="one", depends_on=[parent]).enqueue()
    assert again.id == first.id and not again.created
    drain("default")
    assert column("state", first) == "completed"


def test_a_result_is_there_when_the_job_has_ended(effects):
    jobs = [task.enqueue(x=2, y=3) for task in (tasks.add, tasks.async_add)]
    with pytest.raises(NoResult, match="has not ended yet"):
        jobs[0].result()
    with working():
        assert [job.wait(timeout=60) for job in jobs] == [5, 5]
    assert jobs[0].result() == async_to_sync(jobs[0].aresult)() == 5
    assert async_to_sync(jobs[0].await_result)(timedelta(seconds=60)) == 5


def test_a_task_that_keeps_no_result_gives_none(effects):
    job = tasks.noop.enqueue()
    drain()
    assert job.wait(timeout=10) is None
    assert value("SELECT count(*) FROM stampeded_results") == 0


def test_a_job_that_is_retried_has_no_result_until_it_has_ended_again(effects):
    job = tasks.add.enqueue(x=2, y=3)
    drain()
    assert job.result() == 5
    rows("SELECT stampeded_retry(%s, %s)", job.queue, job.id)
    with pytest.raises(NoResult, match="has not ended yet"):
        job.result()
    drain()
    assert job.result() == 5


def test_waiting_ends_with_its_timeout(effects):
    with pytest.raises(TimeoutError, match="has not ended within 0.05 s"):
        tasks.noop.enqueue().wait(timeout=0.05)


@pytest.mark.parametrize(("kind", "why"), [("set", "is a set"), ("large", "more than the 65536 allowed")])
def test_a_result_that_cannot_be_stored_discards_the_job_and_says_why(effects, kind, why):
    job = tasks.give_back.enqueue(kind=kind)
    drain()
    with pytest.raises(JobFailed, match=why):
        job.wait(timeout=10)
    assert column("failure_kind", job) == "unrecoverable"


def test_none_is_a_result_too(effects):
    job = tasks.give_back.enqueue(kind="none")
    drain()
    assert job.result() is None and value("SELECT count(*) FROM stampeded_results") == 1


def test_an_expired_result_is_gone_before_and_after_it_is_pruned(effects):
    job = tasks.add.enqueue(x=1, y=1)
    drain()
    with connection.cursor() as cur:
        cur.execute("UPDATE stampeded_results SET expires_at = now() - interval '1 second'")
        assert job.result() is None
        assert ResultPruner().run_once(cur).done == 1
    with connection.cursor() as cur:
        cur.execute("DELETE FROM stampeded_jobs")
    with pytest.raises(NoResult, match="pruned"):
        job.result()


def test_wrong_chains_are_refused_before_anything_is_written(effects):
    with pytest.raises(InvalidOption, match="at least one task"):
        chain()
    with pytest.raises(InvalidOption, match="takes a task"):
        chain(print)
    with pytest.raises(InvalidOption, match="on_discard must be"):
        chain(tasks.noop, on_discard="perhaps")
    with pytest.raises(InvalidArguments):
        tasks.add.with_args(x=1)
    with pytest.raises(InvalidOption, match="depends_on must be a list of enqueued jobs"):
        tasks.noop.using(depends_on=["x"])
    assert states() == {}


def test_an_expired_result_of_a_parent_is_none_before_it_is_pruned_too(effects):
    kept, expired = (tasks.add.enqueue(x=1, y=y) for y in (1, 2))
    drain()
    rows("UPDATE stampeded_results SET expires_at = now() - interval '1 second' WHERE job_id = %s", expired.id)
    child = tasks.noop.using(depends_on=[expired, kept], queue_name="pulled").enqueue()
    with Puller("pulled") as puller:
        lease = puller.next(60)
        assert lease.id == child.id and lease.parent_results == [None, 2]
        lease.complete()


def test_a_chain_may_run_in_a_batch_and_its_jobs_count(effects):
    with Batch("chained") as batch:
        chain(tasks.add.using(batch=batch).with_args(x=1, y=2), tasks.sum_of_parents.using(batch=batch)).enqueue()
    drain()
    assert batch.finished and batch.counts() == {"completed": 2}
