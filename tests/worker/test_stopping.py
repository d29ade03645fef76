"""Stopping a worker loses no job and charges none that it did not run."""

from __future__ import annotations

import os

import pytest
from django.db import connection

from django_stampeded.process.wake import Wake
from django_stampeded.runner import Process, Roles, StopRequest
from django_stampeded.worker.options import WorkerOptions
from django_stampeded.worker.selection import select
from tests.testapp import tasks
from tests.worker.support import column, drain, eventually, real_transactions, rows, states, stop, value, working

pytestmark = real_transactions


def begun():
    return value("SELECT count(*) FROM effects WHERE n < 0")


def test_jobs_claimed_and_not_started_are_released_uncharged(effects):
    """Case C08: prefetched jobs stranded at shutdown."""
    tasks.noop.enqueue_many([{}] * 200)
    with working("default", threads=1) as worker:
        eventually(lambda: states() == {"completed": 200})
        jobs = tasks.begin_and_end.enqueue_many({"n": n, "seconds": 0.5} for n in range(1, 11))
        eventually(begun)
        eventually(lambda: len(worker.crew.desk.held) == 10, "all ten to be claimed by the worker of short jobs")
        report = stop(worker)
        assert (report.released, report.handed_back, report.unrecorded) == (9, 0, 0)
    waiting = rows("SELECT state, attempt, claimed_by, errors FROM stampeded_jobs WHERE state <> 'completed'")
    assert waiting == [("available", 0, None, "[]")] * 9
    assert column("state", jobs[0]) == "completed"
    drain()
    assert rows("SELECT DISTINCT state, attempt FROM stampeded_jobs") == [("completed", 1)]
    assert value("SELECT count(*) FROM effects") == 20


def test_a_running_job_gets_the_grace_period(effects):
    job = tasks.begin_and_end.enqueue(n=1, seconds=0.5)
    with working(grace_period=20.0) as worker:
        eventually(begun)
        assert stop(worker).handed_back == 0
    assert column("state", job) == "completed"


def test_a_job_longer_than_the_grace_period_is_released_and_its_late_result_refused(effects, caplog):
    job = tasks.until_told.enqueue(limit=3)
    with working(grace_period=0.2) as worker:
        eventually(lambda: value("SELECT count(*) FROM effects") == 1)
        assert stop(worker).handed_back == 1
    assert (column("state", job), column("attempt", job)) == ("available", 0)
    assert "did not end in time" in caplog.text
    eventually(lambda: not [t for t in running_threads() if t.lease], "the job's thread to end")
    assert column("state", job) == "available"


def running_threads():
    import threading

    return [thread for thread in threading.enumerate() if thread.name.startswith("stampeded-job")]


def test_a_released_job_is_taken_by_another_worker_at_once(effects):
    """Case C65: jobs handed back do not wait for a back-off."""
    job = tasks.until_told.enqueue(limit=1.0)
    with working(poll_interval=30.0) as other:
        eventually(lambda: value("SELECT count(*) FROM effects") == 1)
        with working(poll_interval=30.0):
            other.options.__dict__["grace_period"] = 0.0
            stop(other)
            eventually(lambda: column("state", job) == "completed", timeout=15)
    assert column("attempt", job) == 1


def test_a_second_stop_ends_the_grace_period(effects):
    job = tasks.until_told.enqueue(limit=5)
    with working(grace_period=600.0) as worker:
        eventually(lambda: value("SELECT count(*) FROM effects") == 1)
        worker.stop()
        worker.stop()
        assert worker.join().handed_back == 1
    assert column("state", job) == "available"


def test_a_stopped_worker_leaves_no_row_and_no_connection(effects):
    tasks.backends.enqueue_many([{"n": n} for n in range(20)])
    with working(threads=4):
        eventually(lambda: states() == {"completed": 20})
        assert value("SELECT count(*) FROM stampeded_workers") == 1
    assert value("SELECT count(*) FROM stampeded_workers") == 0
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    eventually(lambda: value(others) == 0, "every connection of the worker to be closed")


def test_stopping_right_after_the_start_is_as_good(effects):
    from django_stampeded.worker.worker import Worker

    for _ in range(5):
        worker = Worker(WorkerOptions(threads=2))
        worker.start()
        assert stop(worker).unrecorded == 0
    eventually(lambda: value("SELECT count(*) FROM stampeded_workers") == 0)


def test_what_a_claim_in_flight_brings_after_the_stop_is_released(effects):
    for _ in range(10):
        tasks.noop.enqueue_many([{}] * 300)
        with working("default", threads=2) as worker:
            stop(worker)
        assert value("SELECT count(*) FROM stampeded_jobs WHERE state = 'executing'") == 0
    assert value("SELECT count(*) FROM stampeded_jobs WHERE attempt > 1") == 0


def test_a_process_ends_with_its_drained_worker(effects):
    tasks.effect.enqueue(n=1)
    stopper = StopRequest()
    roles = Roles(worker=WorkerOptions(threads=1, drain=True, selection=select(["default"])))
    assert Process(roles, stopper.bell).run(stopper) == 0
    assert states() == {"completed": 1}


def test_a_stop_request_before_the_start_is_honoured(effects):
    from django_stampeded.runner import run

    stopper = StopRequest()
    stopper._note(15, None)
    assert run(Roles(), stopper) == 0
    assert value("SELECT count(*) FROM stampeded_workers") == 0


def test_the_exit_status_tells_an_orderly_end_from_an_abrupt_one():
    stopper = StopRequest()
    assert stopper.status == 0
    stopper._note(15, None)
    assert stopper.status == 0
    stopper._note(15, None)
    assert stopper.status == 128 + 15


def test_a_forked_child_is_another_worker(effects):
    """Case C187: identity changes after a fork."""
    with working() as worker:
        mine = worker.crew.identity.worker_id
        tasks.noop.enqueue_many([{}] * 3)
        eventually(lambda: states() == {"completed": 3})
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                connection.connection = None  # the parent's socket is not ours to use
                assert not worker.is_running
                worker.start()
                eventually(lambda: worker.crew.identity.worker_id)
                os.write(writer, str(worker.crew.identity.worker_id).encode())
                worker.stop()
                worker.join()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        theirs = os.read(reader, 100).decode()
        assert theirs
        assert theirs != str(mine)
        assert rows("SELECT id FROM stampeded_workers") == [(mine,)]
        tasks.noop.enqueue_many([{}] * 3)
        eventually(lambda: states() == {"completed": 6}, "the parent to work on after the child is gone")


def test_a_bell_rung_before_the_wait_is_heard():
    bell = Wake()
    assert not bell.wait(0.0)
    bell.ring()
    bell.ring()
    assert bell.wait(0.0)
    assert not bell.wait(0.0)


@pytest.mark.parametrize("fresh", [True, False])
def test_a_worker_can_be_started_again_after_it_was_joined(effects, fresh):
    with working() as worker:
        first = worker.crew.identity.worker_id
        stop(worker)
        worker.start()
        assert eventually(lambda: worker.crew.identity.worker_id) != first
