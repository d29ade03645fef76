"""The heartbeat keeps a worker and its leases alive whatever its jobs do, and learns what was lost."""

from __future__ import annotations

import time

import pytest
from django.db import connection

from django_stampeded import Puller, functions
from tests.testapp import tasks
from tests.worker.support import column, eventually, real_transactions, rows, states, value, working

pytestmark = real_transactions


def begun(n=1):
    return value("SELECT count(*) FROM effects WHERE n = %s", n)


def test_a_worker_registers_with_its_labels_and_beats(effects, settings):
    settings.STAMPEDED = {"NODE_NAME": "node-7"}
    with working("mail", heartbeat_interval=0.1) as worker:
        (row,) = rows("SELECT id, hostname, queues, metadata FROM stampeded_workers")
        assert row[0] == worker.crew.identity.worker_id
        assert row[1:3] == ("node-7", ["mail"])
        eventually(lambda: value("SELECT last_heartbeat > started_at + interval '300 ms' FROM stampeded_workers"))


def test_a_job_that_hogs_the_interpreter_does_not_stop_the_beat(effects):
    """Case C17: heartbeats starved by the GIL."""
    tasks.hog.enqueue_many([{"seconds": 3.0}] * 2)
    with working(heartbeat_interval=0.2, threads=4):
        eventually(lambda: states() == {"executing": 2})
        longest = 0.0
        for _ in range(8):
            time.sleep(0.25)
            longest = max(
                longest, value("SELECT extract(epoch FROM clock_timestamp() - last_heartbeat)::float8 FROM stampeded_workers")
            )
            with connection.cursor() as cur:
                assert functions.reap(cur, dead_after=__import__("datetime").timedelta(seconds=5)) == []
        eventually(lambda: states() == {"completed": 2})
    assert longest < 5
    assert value("SELECT max(attempt) FROM stampeded_jobs") == 1


@pytest.mark.parametrize("expire_seconds", [1, 2])
def test_a_job_longer_than_its_expire_seconds_keeps_its_lease(effects, expire_seconds):
    """Case C18: what is allowed to run long is not rescued."""
    job = tasks.effect.using(expire_seconds=expire_seconds).enqueue(n=1, seconds=expire_seconds * 2.5)
    with working(heartbeat_interval=60.0):
        until = time.monotonic() + 20
        while column("state", job) != "completed" and time.monotonic() < until:
            with connection.cursor() as cur:
                assert functions.expire(cur) == []
            time.sleep(0.1)
        assert column("state", job) == "completed"
    assert column("attempt", job) == 1


def test_a_worker_whose_row_is_gone_registers_anew_and_keeps_what_is_still_its_own(effects, caplog):
    """Case C137: taken for dead while it was asleep."""
    kept = tasks.effect.enqueue(n=1, seconds=1.5)
    with working(heartbeat_interval=0.1) as worker:
        before = worker.crew.identity.worker_id
        eventually(lambda: column("state", kept) == "executing")
        rows("DELETE FROM stampeded_workers")
        after = eventually(lambda: worker.crew.identity.worker_id != before and worker.crew.identity.worker_id)
        assert rows("SELECT id FROM stampeded_workers") == [(after,)]
        eventually(lambda: column("state", kept) == "completed")
        later = tasks.effect.enqueue(n=2)
        eventually(lambda: column("state", later) == "completed")
        assert column("attempted_by", later) == [str(after)]
    assert column("attempt", kept) == 1
    assert "was taken for dead" in caplog.text


def test_a_job_given_to_another_worker_is_lost_to_the_first_one(effects, caplog):
    """Case C15: the first execution ends late and must change nothing."""
    job = tasks.until_told.enqueue(limit=30)
    with working(heartbeat_interval=0.2) as first:
        eventually(begun)
        rows("UPDATE stampeded_workers SET last_heartbeat = now() - interval '1 hour'")
        first.crew.heartbeat.link.shut()
        with connection.cursor() as cur:
            other = functions.register_worker(cur, "other", 1, ["default"], {})
            rows("UPDATE stampeded_workers SET last_heartbeat = now() - interval '1 hour' WHERE id <> %s", other)
            taken = functions.reap(cur, dead_after=__import__("datetime").timedelta(minutes=5))
        if not taken:
            pytest.skip("the first worker beat in between")
        with connection.cursor() as cur:
            rows("UPDATE stampeded_jobs SET scheduled_at = now() WHERE id = %s", job.id)
            (again,) = functions.claim(cur, ["default"], other, 1)
        eventually(lambda: begun(2))
        assert (again.id, again.attempt) == (job.id, 2)
        assert column("claimed_by", job) == other
    assert column("state", job) == "executing"
    assert column("attempt", job) == 2


def test_two_workers_of_one_host_and_process_id_never_take_each_other_for_themselves(effects, monkeypatch):
    """Case C187: containers that share host name and process id."""
    from django_stampeded.worker import identity

    monkeypatch.setattr(identity.os, "getpid", lambda: 1)
    monkeypatch.setattr(identity.socket, "gethostname", lambda: "app")
    with working(heartbeat_interval=0.1) as one, working(heartbeat_interval=0.1) as two:
        ids = {one.crew.identity.worker_id, two.crew.identity.worker_id}
        assert len(ids) == 2
        rows("DELETE FROM stampeded_workers WHERE id = %s", one.crew.identity.worker_id)
        eventually(lambda: value("SELECT count(*) FROM stampeded_workers WHERE hostname = 'app' AND pid = 1") == 2)
        eventually(lambda: one.crew.identity.worker_id not in ids, "the new id, on record a moment earlier")
        assert two.crew.identity.worker_id in ids


def test_a_request_to_stop_on_its_row_reaches_the_worker(effects):
    with working(heartbeat_interval=0.1) as worker:
        assert not worker.stop_requested
        rows("SELECT stampeded_stop_worker(%s)", worker.crew.identity.worker_id)
        eventually(lambda: worker.stop_requested)


def test_a_puller_that_is_asked_to_stop_gives_no_more_leases(effects, settings):
    settings.STAMPEDED = {"HEARTBEAT_INTERVAL": 0.1}
    with Puller("pulled") as puller:
        tasks.noop.using(queue_name="pulled").enqueue()
        lease = puller.next(60)
        rows("SELECT stampeded_stop_worker(%s)", lease.worker_id)
        assert list(puller) == [], "it goes on"
        lease.complete()
    assert states() == {"completed": 1}
