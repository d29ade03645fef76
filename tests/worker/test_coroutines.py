"""`async def` jobs share an event loop with others of their thread, and nothing else."""

from __future__ import annotations

import pytest
from django.db import connection

from django_stampeded import functions
from django_stampeded.worker import django_connections
from tests.testapp import tasks
from tests.worker.support import column, drain, eventually, real_transactions, rows, states, value, working

pytestmark = real_transactions


def test_async_and_plain_jobs_in_any_order_run_once_each(effects):
    for n in range(60):
        (tasks.async_effect if n % 3 else tasks.effect).enqueue(n=n)
    drain(threads=2)
    assert states() == {"completed": 60}
    assert rows("SELECT count(*), count(DISTINCT n) FROM effects") == [(60, 60)]


def test_what_a_job_sets_in_a_context_variable_ends_with_it(effects):
    tasks.async_context.enqueue_many({"n": n} for n in range(10))
    drain(threads=1)
    assert rows("SELECT DISTINCT n FROM effects") == [(0,)]


def test_a_task_that_a_job_leaves_behind_is_cancelled(effects):
    tasks.async_leaves_a_task.enqueue_many({"n": n} for n in range(5))
    tasks.async_effect.using(priority=1).enqueue(n=7)
    drain(threads=1)
    assert states() == {"completed": 6}
    assert rows("SELECT n FROM effects") == [(7,)]


def test_an_async_job_that_exceeds_its_timeout_is_cancelled(effects):
    job = tasks.async_for_ever.enqueue()
    after = tasks.async_effect.using(priority=1).enqueue(n=1)
    drain(threads=1)
    assert column("failure_kind", job) == "timed_out"
    assert column("state", after) == "completed"


@pytest.mark.parametrize("kind", ["exit", "interrupt", "nul", "unprintable"])
def test_whatever_an_async_job_raises_ends_that_job_alone(effects, kind):
    job = tasks.async_fail_oddly.enqueue(kind=kind)
    after = tasks.async_effect.using(priority=1).enqueue(n=1)
    drain(threads=1)
    assert (column("state", job), column("failure_kind", job)) == ("discarded", "raised")
    assert "coroutines.py" not in column("last_error", job)
    assert column("state", after) == "completed"


def test_a_cancelled_async_job_may_clean_up(effects):
    job = tasks.async_until_cancelled.enqueue()
    with working(heartbeat_interval=0.2):
        eventually(lambda: value("SELECT count(*) FROM effects") == 1)
        with connection.cursor() as cur:
            functions.cancel(cur, "default", job.id, "not wanted")
        eventually(lambda: value("SELECT count(*) FROM effects WHERE n = 2") == 1)
    assert column("state", job) == "cancelled"


def test_async_code_may_call_plain_code_that_calls_async_code(effects):
    tasks.async_nested.enqueue_many({"n": n} for n in range(10))
    drain(threads=2)
    assert states() == {"completed": 10}
    assert value("SELECT count(DISTINCT n) FROM effects") == 10


def test_an_async_job_checkpoints_and_touches(effects):
    job = tasks.async_steps.enqueue(upto=5)
    with working():
        eventually(lambda: column("state", job) == "completed")
    assert column("attempt", job) == 2
    assert column("checkpoint_seq", job) == 5


def test_connections_of_async_jobs_are_those_of_their_threads(effects, kept_open, monkeypatch):
    monkeypatch.setattr(django_connections, "IDLE_CLOSE_S", 0.3)
    tasks.async_effect.enqueue_many({"n": n} for n in range(200))
    users = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
        "AND application_name NOT LIKE 'stampeded%%' AND backend_type = 'client backend'"
    )
    with working(threads=2):
        most = 0
        while states().get("completed", 0) < 200:
            most = max(most, value(users))
        assert most <= 2
        eventually(lambda: value(users) == 0)
