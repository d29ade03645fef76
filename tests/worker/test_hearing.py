"""How a worker learns of due jobs: by notification, by the clock of the next due job, by polling."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.db import connection

from django_stampeded import functions
from django_stampeded.worker import claimer as claimer_module
from django_stampeded.worker import listener as listener_module
from tests.testapp import tasks
from tests.worker.support import column, eventually, real_transactions, rows, states, value, working

pytestmark = real_transactions

STATUS = "SELECT metadata->>'notifications' FROM stampeded_workers"
LONG = 600.0
"""A poll interval that no test waits for: what starts earlier was heard of otherwise."""


def listening():
    return value(STATUS) == "listening"


def test_a_due_job_starts_by_notification_however_long_the_poll_interval(effects):
    with working(poll_interval=LONG):
        eventually(listening)
        time.sleep(0.5)
        job = tasks.effect.enqueue(n=1)
        eventually(lambda: column("state", job) == "completed")


def test_a_job_is_announced_only_when_its_transaction_commits(effects):
    from django.db import transaction

    with working(poll_interval=LONG):
        eventually(listening)
        with transaction.atomic():
            job = tasks.effect.enqueue(n=1)
            time.sleep(0.3)
        eventually(lambda: column("state", job) == "completed")


def test_a_job_of_the_future_starts_when_it_is_due_however_long_the_poll_interval(effects):
    """Case C86: delayed jobs late by a whole poll interval."""
    with working(poll_interval=LONG):
        eventually(listening)
        job = tasks.effect.using(run_after=timedelta(seconds=1.5)).enqueue(n=1)
        eventually(lambda: column("state", job) == "completed")
    assert value("SELECT claimed_at >= scheduled_at FROM stampeded_jobs")


def test_a_retry_starts_when_it_is_due_however_long_the_poll_interval(effects):
    job = tasks.end_as.enqueue(outcome="retry")
    with working(poll_interval=LONG):
        eventually(lambda: column("state", job) == "completed")


@pytest.mark.parametrize("queues", ["", "default"])
def test_without_listening_jobs_start_by_polling(effects, queues):
    with working(queues, listen=False, poll_interval=0.2):
        assert value(STATUS) == "off"
        jobs = [tasks.effect.enqueue(n=n) for n in range(3)]
        eventually(lambda: all(column("state", job) == "completed" for job in jobs))


def test_a_worker_that_hears_nothing_of_itself_says_polling_only_and_works(effects, monkeypatch, caplog):
    monkeypatch.setattr(listener_module, "PROBE_S", 0.2)
    monkeypatch.setattr(listener_module.notify, "listen", lambda cur, name: None)  # what a pooler makes of LISTEN
    with working(poll_interval=0.2) as worker:
        eventually(lambda: value(STATUS) == "polling only")
        job = tasks.effect.enqueue(n=1)
        eventually(lambda: column("state", job) == "completed")
        assert not worker.crew.listener.link.is_open
    assert "Polling only" in caplog.text
    assert "direct connection" in caplog.text


def test_listening_is_taken_up_again_after_each_lost_connection(effects):
    """Case C85: LISTEN not restored after a reconnect."""
    with working(poll_interval=LONG) as worker:
        for n in range(5):
            eventually(lambda: worker.crew.listener.status == "listening" and listening())
            rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name = 'stampeded listener'"
            )
            missed = tasks.effect.enqueue(n=n)
            eventually(lambda missed=missed: column("state", missed) == "completed", "what was enqueued while deaf")
            eventually(lambda: worker.crew.listener.status == "listening")
            heard = tasks.effect.enqueue(n=n)
            eventually(lambda heard=heard: column("state", heard) == "completed")
        eventually(listening)


def test_the_listener_never_holds_a_transaction(effects):
    """Case C83: a listener in a transaction fills the notification queue."""
    with working():
        eventually(listening)
        for _ in range(20):
            tasks.noop.enqueue()
            found = rows(
                "SELECT state, xact_start FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name = 'stampeded listener'"
            )
            assert all(state in ("idle", "active") for state, _ in found)
            assert all(begun is None for state, begun in found if state == "idle")


def test_a_busy_worker_asks_for_no_notifications_and_an_idle_one_does(effects):
    tasks.effect.enqueue_many({"n": n, "seconds": 0.005} for n in range(400))
    with working("default", threads=2):
        eventually(lambda: value("SELECT NOT waiting FROM stampeded_workers"), "the worker to say that it is busy")
        eventually(lambda: states() == {"completed": 400})
        eventually(lambda: value("SELECT waiting FROM stampeded_workers"), "the worker to say that it waits")
        job = tasks.effect.enqueue(n=1)
        eventually(lambda: column("state", job) == "completed")


def test_jobs_enqueued_at_the_end_of_a_busy_spell_are_found(effects):
    """An enqueuer that read "nobody waits" and commits after the worker fell asleep."""
    with working("default", threads=2, poll_interval=LONG):
        for _ in range(4):
            tasks.effect.enqueue_many({"n": n, "seconds": 0.003} for n in range(40))
            for pause in range(30):
                time.sleep(pause / 1000)
                tasks.effect.enqueue(n=0)
            eventually(lambda: set(states()) == {"completed"})


def test_a_worker_of_every_queue_finds_queues_that_appear_later(effects):
    with working(poll_interval=LONG):
        eventually(listening)
        jobs = [tasks.effect.using(queue_name=f"new {n}").enqueue(n=n) for n in range(5)]
        eventually(lambda: all(column("state", job) == "completed" for job in jobs))


def test_excluded_queues_wake_nobody_and_wait(effects):
    from django_stampeded.worker.options import WorkerOptions
    from django_stampeded.worker.selection import select
    from django_stampeded.worker.worker import Worker

    worker = Worker(WorkerOptions(threads=1, poll_interval=0.1, selection=select([], ["dlq"])))
    worker.start()
    try:
        dead = tasks.effect.using(queue_name="dlq").enqueue(n=1)
        other = tasks.effect.using(queue_name="other").enqueue(n=2)
        eventually(lambda: column("state", other) == "completed")
        assert column("state", dead) == "available"
    finally:
        worker.stop()
        worker.join()


def test_a_resumed_queue_is_worked_off_again(effects):
    with connection.cursor() as cur:
        functions.pause(cur, "default")
    job = tasks.effect.enqueue(n=1)
    with working("default", poll_interval=0.2):
        time.sleep(0.5)
        assert column("state", job) == "available"
        with connection.cursor() as cur:
            functions.resume(cur, "default")
        eventually(lambda: column("state", job) == "completed")


@pytest.mark.slow
@pytest.mark.parametrize("queues", ["", "default,mail"])
def test_an_idle_worker_makes_fewer_than_two_statements_a_second(effects, queues, monkeypatch):
    import psycopg

    statements = []
    execute = psycopg.Cursor.execute

    def counting(self, *args, **kwargs):
        if getattr(self.connection, "info", None) and "stampeded" in self.connection.info.get_parameters().get(
            "application_name", ""
        ):
            statements.append(args[0])
        return execute(self, *args, **kwargs)

    with working(queues, poll_interval=1.0, heartbeat_interval=5.0):
        eventually(listening)
        time.sleep(1.0)
        monkeypatch.setattr(psycopg.Cursor, "execute", counting)
        time.sleep(5.0)
        monkeypatch.undo()
    assert 0 < len(statements) < 10


def test_no_queue_starves_beside_a_deep_one(effects):
    tasks.effect.using(queue_name="deep").enqueue_many({"n": 0, "seconds": 0.002} for _ in range(800))
    tasks.effect.using(queue_name="small").enqueue_many({"n": 1, "seconds": 0.002} for _ in range(10))
    with working("deep,small", threads=2):
        eventually(lambda: value("SELECT count(*) FROM effects WHERE n = 1") == 10)
        assert value("SELECT count(*) FROM effects WHERE n = 0") < 700


def looks_within_a_second(worker):
    """How often the claimer of a worker with nothing to do wakes up."""
    claimer, looks = worker.crew.claimer, []
    look = claimer.run_once
    claimer.run_once = lambda: looks.append(None) or look()
    time.sleep(1.0)
    return len(looks)


@pytest.mark.parametrize("others", [0, 1])
def test_a_worker_of_every_queue_rests_once_a_queue_has_given_its_last_job(effects, others):
    """As many jobs as threads: the claim that took them came full, and the queue is off the list at the next look."""
    for _ in range(others):
        tasks.effect.using(queue_name="later", run_after=timedelta(hours=1)).enqueue(n=0)
    tasks.effect.enqueue_many({"n": n, "seconds": 1.5} for n in range(2))
    with working(poll_interval=0.2) as worker:
        eventually(lambda: states().get("completed") == 2)
        eventually(lambda: not worker.crew.claimer._deep, "the claimer to see that there is no more")
        assert looks_within_a_second(worker) < 50
        assert value("SELECT waiting FROM stampeded_workers")


@pytest.mark.parametrize("queues", ["default:2", "default:2,mail"])
def test_a_worker_rests_while_it_holds_as_many_jobs_of_a_queue_as_its_bound_allows(effects, queues):
    tasks.effect.enqueue_many({"n": n, "seconds": 3.0} for n in range(5))
    with working(queues, threads=4, poll_interval=0.2, grace_period=0.1) as worker:
        eventually(lambda: states().get("executing") == 2)
        assert looks_within_a_second(worker) < 50
        assert states()["executing"] == 2


def test_a_queue_with_max_running_is_worked_off_as_its_jobs_end_however_long_the_poll_interval(effects):
    rows("INSERT INTO stampeded_queue_policies (queue, max_running) VALUES ('default', 2)")
    tasks.effect.enqueue_many({"n": n} for n in range(20))
    with working("default", threads=4, poll_interval=LONG):
        eventually(lambda: states() == {"completed": 20})


def test_a_worker_rests_until_the_rate_of_its_queue_allows_the_next_start(effects):
    rows("INSERT INTO stampeded_queue_policies (queue, rate_limit, rate_period_secs) VALUES ('default', 3, 3600)")
    tasks.effect.enqueue_many({"n": n} for n in range(20))
    with working("default", threads=4, poll_interval=0.2) as worker:
        eventually(lambda: states().get("completed") == 3)
        assert looks_within_a_second(worker) < 50
        rows("UPDATE stampeded_starts SET started_at = started_at - interval '59 minutes 58 seconds'")
        eventually(lambda: states().get("completed") == 6)
    assert states() == {"completed": 6, "available": 14}


def test_a_worker_rests_while_every_job_of_its_queue_is_held_back(effects):
    rows("INSERT INTO stampeded_queue_policies (queue) VALUES ('default')")
    rows("INSERT INTO stampeded_limits (queue, scope, rate_limit, rate_period_secs) VALUES ('default', 'tenant', 1, 3600)")
    tasks.effect.using(tenant="acme").enqueue_many({"n": n} for n in range(20))
    with working("default", threads=4, poll_interval=0.2) as worker:
        eventually(lambda: states().get("completed") == 1)
        assert looks_within_a_second(worker) < 50
    assert value("SELECT max(attempt) + max(deferrals) FROM stampeded_jobs") == 1


def test_a_queue_that_is_named_while_another_is_deep_is_claimed_from_at_the_next_look(effects, monkeypatch):
    """What was heard must not be dropped because the list of queues with work is not a second old."""
    tasks.effect.using(queue_name="deep").enqueue_many({"n": 0, "seconds": 0.05} for _ in range(60))
    monkeypatch.setattr(claimer_module, "LOOK_AHEAD_S", LONG)
    with working(poll_interval=LONG, threads=1) as worker:
        eventually(lambda: worker.crew.claimer._deep)
        new = tasks.effect.using(queue_name="new").enqueue(n=1)
        worker.crew.claimer.heard("new")
        eventually(lambda: column("state", new) == "completed")
        assert states()["available"] > 0
