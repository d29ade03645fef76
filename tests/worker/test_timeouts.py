"""Jobs that take too long, that are cancelled while they run, and those that can't be interrupted."""

from __future__ import annotations

import time

from django.db import connection
from django.test import override_settings

from django_stampeded import functions
from django_stampeded.worker import interrupt
from tests.testapp import tasks
from tests.worker.support import column, drain, eventually, real_transactions, value, working

pytestmark = real_transactions


def cancel(job):
    with connection.cursor() as cur:
        functions.cancel(cur, "default", job.id, "not wanted")


def test_a_job_that_cannot_be_interrupted_is_given_up_with_what_it_is_doing(effects, monkeypatch, caplog):
    monkeypatch.setattr(interrupt, "GIVE_UP_S", 0.3)
    job = tasks.block_in_thread.enqueue(seconds=3)
    with working() as worker:
        eventually(lambda: column("state", job) == "discarded")
        assert worker.stuck == 1
        assert column("failure_kind", job) == "timed_out"
        assert "usleep" in column("last_error", job)
        after = tasks.effect.enqueue(n=7)
        eventually(lambda: column("state", after) == "completed", "the other thread to go on")
        eventually(lambda: not worker.stuck, "the thread to come back")
    assert column("state", job) == "discarded"
    assert "its result is dropped (1 so far)" in caplog.text
    assert "usleep" in caplog.text


def test_the_default_timeout_spares_the_tasks_that_want_none(effects):
    """Case C18."""
    from django_stampeded import registry, task

    with override_settings(STAMPEDED={"TIMEOUT": 0.2}):

        @task(timeout=None, name="tests.patient")
        def patient():
            time.sleep(1)

        try:
            hasty, unhurried = tasks.sleep.using(max_attempts=1).enqueue(seconds=30), patient.enqueue()
            drain()
        finally:
            registry._names.pop("tests.patient", None)
            registry._tasks.pop("tests.patient", None)
    assert column("failure_kind", hasty) == "timed_out"
    assert column("state", unhurried) == "completed"


def test_a_cancellation_reaches_a_running_job_without_notifications(effects):
    """Case C21: within about a second, however rare the heartbeat."""
    job = tasks.until_told.enqueue()
    with working(heartbeat_interval=600.0, dead_after=3600.0, listen=False):
        eventually(lambda: value("SELECT count(*) FROM effects") == 1)
        cancel(job)
        eventually(lambda: value("SELECT count(*) FROM effects WHERE n = 2") == 1, "the job to see it")
    assert column("state", job) == "cancelled"


def test_a_job_that_ignores_its_cancellation_is_interrupted(effects, monkeypatch):
    monkeypatch.setattr(interrupt, "TELL_S", 0.2)
    job = tasks.loop.enqueue()
    with working(heartbeat_interval=0.2) as worker:
        eventually(lambda: value("SELECT count(*) FROM effects") == 1)
        cancel(job)
        eventually(lambda: not worker.crew.desk.busy(), "the thread to be free")
    assert column("state", job) == "cancelled"
