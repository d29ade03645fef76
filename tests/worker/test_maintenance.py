"""Maintenance takes back what the dead left, deletes what is old, and keeps its pace."""

from __future__ import annotations

import logging
import time
from datetime import timedelta

import psycopg
import pytest
from django.db import connection

from django_stampeded.exceptions import SchemaMismatch
from django_stampeded.maintenance.counter import Counter
from django_stampeded.maintenance.expirer import Expirer
from django_stampeded.maintenance.pruner import SMALLEST, OccurrencePruner, Pruner
from django_stampeded.maintenance.reaper import Reaper
from django_stampeded.maintenance.scheduler import BUSY_S, REST_S, Scheduler
from django_stampeded.maintenance.service import Maintenance, Report, next_due
from django_stampeded.process.outage import Outage
from tests.testapp import tasks
from tests.worker.support import column, eventually, real_transactions, rows, states, value, working

DAY = 86_400


class Slow:
    """A service whose runs take as long as told."""

    def __init__(self, name="slow", interval=0.05, takes=0.0, more=0):
        self.name, self.interval, self.takes, self.more = name, interval, takes, more
        self.runs: list[float] = []

    def run_once(self, cur):
        self.runs.append(time.monotonic())
        time.sleep(self.takes)
        self.more -= 1
        return Report(1, more=self.more >= 0)


def maintain(*services, **kwargs):
    return Maintenance("default", services, Outage(), **kwargs)


def test_the_next_run_starts_an_interval_after_the_last_start():
    assert next_due(started=100, ended=101, interval=10) == 110


def test_a_run_longer_than_its_interval_is_followed_at_once():
    """Case C13: maintenance that throttles itself to a hundredth of its pace."""
    assert next_due(started=100, ended=115, interval=10) == 115
    assert next_due(started=100, ended=1000, interval=10) == 1000


@pytest.mark.parametrize("dead_after", [1, 30, 300, 86_400])
def test_the_reaper_looks_several_times_within_the_time_to_be_dead(dead_after):
    assert 1.0 <= Reaper(dead_after).interval <= 10.0


@real_transactions
def test_a_service_that_is_slow_keeps_running_back_to_back(effects):
    slow = Slow(interval=0.01, takes=0.05)
    maintenance = maintain(slow)
    maintenance.start()
    eventually(lambda: len(slow.runs) > 5)
    maintenance.stop()
    maintenance.join(10)
    assert not maintenance.is_alive()


@real_transactions
def test_a_slow_service_leaves_the_others_their_turn(effects):
    slow, quick = Slow(interval=0.01, takes=0.02, more=10**6), Slow("quick", interval=0.05)
    maintenance = maintain(slow, quick)
    maintenance.start()
    eventually(lambda: len(quick.runs) > 5)
    maintenance.stop()
    maintenance.join(10)
    assert len(slow.runs) > 5


@real_transactions
def test_a_stop_is_obeyed_between_two_batches(effects):
    """Case C65: a prune of millions that ignores the stop."""
    endless = Slow(interval=60, takes=0.05, more=10**9)
    maintenance = maintain(endless)
    maintenance.start()
    eventually(lambda: len(endless.runs) > 2)
    maintenance.stop()
    maintenance.join(10)
    assert not maintenance.is_alive()


def test_a_late_run_is_reported_once_a_minute(caplog):
    now = [0.0]
    service = Slow(interval=10.0)
    maintenance = maintain(service, clock=lambda: now[0])
    (turn,) = maintenance.turns
    maintenance.link.cursor = lambda: None  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING):
        for late in (0, 30, 30):
            now[0] = turn.due + late
            maintenance.run_turn(turn)
    said = [record for record in caplog.records if "late" in record.message]
    assert len(said) == 1
    assert "slow runs 30 s late" in said[0].message


def test_after_a_lost_connection_nobody_is_called_dead_before_all_could_beat():
    now = [100.0]
    maintenance = maintain(Slow(), settle_s=10.0, clock=lambda: now[0])
    maintenance.broken()
    assert maintenance.turns[0].due == 110.0


@real_transactions
def test_a_service_that_fails_stops_no_other(effects, caplog):
    class Failing(Slow):
        def run_once(self, cur):
            super().run_once(cur)
            raise ValueError("a bug")

    failing, good = Failing(interval=0.01), Slow("good", interval=0.01)
    maintenance = maintain(failing, good)
    maintenance.start()
    eventually(lambda: len(good.runs) > 3 and len(failing.runs) > 3)
    maintenance.stop()
    maintenance.join(10)
    assert sum("did not expect" in record.message for record in caplog.records) == 1


@real_transactions
def test_jobs_of_a_dead_worker_are_taken_back(effects, caplog):
    job = tasks.noop.enqueue()
    dead = value(
        "INSERT INTO stampeded_workers (hostname, pid, last_heartbeat) VALUES ('x', 1, now() - interval '1 h') RETURNING id"
    )
    rows("SELECT * FROM stampeded_claim('default', %s)", dead)
    with connection.cursor() as cur:
        assert Reaper(60).run_once(cur).done == 1
        assert Reaper(60).run_once(cur).done == 0
    assert column("state", job) == "retryable"
    assert column("failure_kind", job) == "worker_missing"
    assert str(job.id) in caplog.text
    assert str(dead) in caplog.text


@real_transactions
def test_rows_in_impossible_states_stop_neither_worker_nor_recovery(effects):
    """Case C11."""
    jobs = [tasks.noop.using(expire_seconds=1).enqueue() for _ in range(4)]
    past = "now() - interval '1 hour'"
    rows(f"UPDATE stampeded_jobs SET state = 'executing', attempt = 1, claimed_at = {past} WHERE id = %s", jobs[0].id)
    rows(
        f"UPDATE stampeded_jobs SET state = 'executing', attempt = 1, claimed_by = uuidv7(), claimed_at = {past} WHERE id = %s",
        jobs[1].id,
    )
    rows(
        f"UPDATE stampeded_jobs SET state = 'executing', attempt = 1, finished_at = {past}, claimed_at = {past} WHERE id = %s",
        jobs[2].id,
    )
    rows(f"UPDATE stampeded_jobs SET state = 'claimed', attempt = 1, claimed_at = {past} WHERE id = %s", jobs[3].id)
    normal = tasks.effect.enqueue(n=1)
    with working():
        eventually(lambda: column("state", normal) == "completed")
        with connection.cursor() as cur:
            Reaper(60).run_once(cur)
            Expirer().run_once(cur)
        eventually(lambda: states() == {"completed": 5})


@real_transactions
def test_a_silent_job_is_expired_in_batches(effects):
    tasks.noop.using(expire_seconds=1).enqueue_many([{}] * 5)
    live = value("INSERT INTO stampeded_workers (hostname, pid) VALUES ('x', 1) RETURNING id")
    rows("SELECT * FROM stampeded_claim('default', %s, 5)", live)
    rows("UPDATE stampeded_jobs SET claimed_at = now() - interval '1 h', heartbeat_at = now() - interval '1 h'")
    with connection.cursor() as cur:
        expirer = Expirer(batch=3)
        assert expirer.run_once(cur) == Report(3, more=True)
        assert expirer.run_once(cur) == Report(2, more=False)
    assert value("SELECT count(*) FROM stampeded_jobs WHERE failure_kind = 'timed_out'") == 5


@real_transactions
def test_old_jobs_are_pruned_in_batches_each_kind_by_its_own_retention(effects):
    tasks.noop.enqueue_many([{}] * 10)
    rows("UPDATE stampeded_jobs SET state = 'completed', finished_at = now() - interval '2 days'")
    rows("UPDATE stampeded_jobs SET state = 'discarded' WHERE id IN (SELECT id FROM stampeded_jobs LIMIT 4)")
    with connection.cursor() as cur:
        pruner = Pruner(completed=DAY, discarded=7 * DAY, batch=4)
        assert pruner.run_once(cur) == Report(4, more=True)
        assert pruner.run_once(cur) == Report(2, more=False)
        assert OccurrencePruner().run_once(cur).done == 0
    assert states() == {"discarded": 4}


def test_a_batch_that_takes_too_long_is_tried_at_half_its_size_and_grows_again(monkeypatch):
    """Case C176: pruning under a statement_timeout."""
    from django_stampeded import functions

    patience = 600

    def prune(cur, completed, failed, limit):
        if limit > patience:
            raise psycopg.errors.QueryCanceled("canceling statement due to statement timeout")
        return limit

    monkeypatch.setattr(functions, "prune", prune)
    pruner = Pruner(completed=DAY, discarded=DAY)
    done = sum(pruner.run_once(None).done for _ in range(40))
    assert done > 5 * patience
    patience = 0
    with pytest.raises(psycopg.errors.QueryCanceled):
        while True:
            pruner.run_once(None)
    assert pruner.batch == SMALLEST


@real_transactions
def test_folding_keeps_the_counts(effects):
    for _ in range(30):
        tasks.noop.enqueue()
    with connection.cursor() as cur:
        Counter().run_once(cur)
    # Perhaps a trigger folded too, a moment before: what counts is that few rows are left.
    assert rows("SELECT count(*) <= 8 FROM stampeded_count_deltas") == [(True,)]
    assert rows("SELECT queue, state, n FROM stampeded_queue_counts") == [("default", "available", 30)]


@real_transactions
def test_one_round_of_everything_is_safe_to_call_at_any_time(effects):
    from django_stampeded.runner import services

    maintenance = maintain(*services())
    report = maintenance.run_once()
    maintenance.link.drop()
    pruners = {"pruner", "occurrence pruner", "result pruner"}
    assert set(report) == {"declarer", "scheduler", "reaper", "expirer", "batcher", "planner", "counter", "sampler"} | pruners
    assert timedelta(0) is not None


@real_transactions
def test_a_schema_that_is_not_installed_ends_the_process_with_the_cure(effects, monkeypatch):
    from django_stampeded import schema
    from django_stampeded.runner import Process, Roles, StopRequest

    monkeypatch.setattr(schema, "SCHEMA_VERSION", 99)
    for roles in (Roles(maintenance=False), Roles(worker=None)):
        stopper = StopRequest()
        with pytest.raises(SchemaMismatch, match="manage.py migrate"):
            Process(roles, stopper.bell).run(stopper)


@real_transactions
def test_the_scheduler_rests_until_the_next_schedule_is_due_and_no_longer_than_it_may(effects):
    scheduler = Scheduler()
    insert = (
        "INSERT INTO stampeded_schedules (key, queue, task, interval_secs, next_run_at) VALUES (%s, 'q', 't', 60, now() + %s)"
    )
    with connection.cursor() as cur:
        scheduler.run_once(cur)
        assert scheduler.interval == REST_S
        rows(insert, "later", timedelta(minutes=5))
        scheduler.run_once(cur)
        assert scheduler.interval == REST_S
        rows(insert, "soon", timedelta(seconds=2))
        scheduler.run_once(cur)
        assert 0 < scheduler.interval <= 2
        rows(insert, "due", timedelta(seconds=-1))
        assert scheduler.run_once(cur).done == 1
        assert scheduler.interval == BUSY_S
