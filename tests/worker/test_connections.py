"""A worker outlives its connections, and a database that is away is noted once."""

from __future__ import annotations

import logging

import psycopg
import pytest
from django.db import connection

from django_stampeded import functions
from django_stampeded.process.link import Link, Trouble, trouble
from django_stampeded.process.outage import LONGEST_DELAY, REPEAT_S, Outage, delay
from django_stampeded.worker import django_connections
from tests.testapp import tasks
from tests.worker.support import eventually, real_transactions, rows, states, value, working

KILL = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s"
)
ROLES = ("claimer", "acker", "heartbeat", "listener")


@pytest.mark.parametrize("role", ROLES)
@real_transactions
def test_a_killed_connection_is_replaced_and_work_goes_on(effects, role):
    with working(heartbeat_interval=0.2) as worker:
        tasks.noop.enqueue_many([{}] * 20)
        eventually(lambda: states() == {"completed": 20})
        for round_ in range(1, 4):
            eventually(lambda: value(KILL, f"stampeded {role}"), "the connection to be there")
            tasks.noop.enqueue_many([{}] * 20)
            done = 20 + 20 * round_
            eventually(lambda done=done: states() == {"completed": done})
        identity = worker.crew.identity.worker_id
    assert identity


@real_transactions
def test_connections_killed_under_load_cost_no_job_and_run_none_twice(effects):
    tasks.effect.enqueue_many({"n": n} for n in range(600))
    with working("default", threads=4):
        for _ in range(6):
            for role in ("claimer", "acker"):
                rows(KILL, f"stampeded {role}")
            tasks.effect.enqueue(n=1000)
        eventually(lambda: states() == {"completed": 606})
    assert value("SELECT count(*) FROM effects") == 606
    assert value("SELECT count(DISTINCT job) FROM effects") == 606
    assert value("SELECT max(attempt) FROM stampeded_jobs") == 1


@real_transactions
def test_jobs_claimed_while_the_connection_broke_are_released_and_run(effects, monkeypatch, caplog):
    tasks.effect.enqueue_many({"n": n} for n in range(5))
    whole = functions.claim
    broken = []

    def claim(cur, *args):
        jobs = whole(cur, *args)
        if jobs and not broken:
            broken.extend(jobs)
            raise psycopg.OperationalError("the connection broke after the commit and before the answer")
        return jobs

    monkeypatch.setattr(functions, "claim", claim)
    with caplog.at_level(logging.INFO), working():
        eventually(lambda: states() == {"completed": 5})
    assert broken
    assert f"Released {len(broken)} jobs" in caplog.text
    assert value("SELECT max(attempt) FROM stampeded_jobs") == 1
    assert value("SELECT count(*) FROM effects") == 5


@real_transactions
def test_an_outcome_recorded_while_the_connection_broke_is_not_recorded_twice(effects, monkeypatch, caplog):
    whole = functions.complete_many
    broken = []

    def complete_many(cur, *args, **named):
        done = whole(cur, *args, **named)
        if not broken:
            broken.extend(done)
            raise psycopg.OperationalError("the connection broke after the commit and before the answer")
        return done

    monkeypatch.setattr(functions, "complete_many", complete_many)
    with caplog.at_level(logging.INFO), working():
        tasks.effect.enqueue(n=1)
        eventually(lambda: "nothing is recorded twice" in caplog.text)
    assert states() == {"completed": 1}
    assert "lease lost" not in caplog.text


@real_transactions
def test_an_outcome_that_the_database_refuses_holds_up_no_other(effects, monkeypatch, caplog):
    whole = functions.complete_many

    def complete_many(cur, worker_id, acks, **named):
        if any(ack.queue == "bad" for ack in acks):
            cur.execute("SELECT 1 / 0")
        return whole(cur, worker_id, acks, **named)

    monkeypatch.setattr(functions, "complete_many", complete_many)
    tasks.effect.using(queue_name="bad").enqueue(n=1)
    tasks.effect.enqueue_many({"n": n} for n in range(2, 12))
    with working():
        eventually(lambda: states() == {"completed": 10, "executing": 1})
        eventually(lambda: "can't be recorded" in caplog.text)


@real_transactions
def test_an_idle_connection_that_the_server_drops_is_replaced(effects):
    """Case C67: idle_session_timeout."""
    here = f'ALTER ROLE CURRENT_USER IN DATABASE "{connection.settings_dict["NAME"]}"'  # others test beside us
    rows(f"{here} SET idle_session_timeout = '300ms'")
    try:
        with working(poll_interval=1.0, heartbeat_interval=1.0):
            eventually(
                lambda: value("SELECT count(*) FROM stampeded_workers WHERE last_heartbeat > started_at + interval '2 s'")
            )
            tasks.backends.enqueue_many([{"n": 1}] * 4)
            eventually(lambda: states() == {"completed": 4})
    finally:
        rows(f"{here} RESET idle_session_timeout")


@real_transactions
def test_a_broken_connection_of_a_job_thread_fails_no_job(effects):
    with working(threads=2):
        for round_ in range(1, 4):
            tasks.backends.enqueue_many([{"n": n} for n in range(10)])
            eventually(lambda done=10 * round_: states() == {"completed": done})
            rows(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid() AND application_name NOT LIKE 'stampeded%%' AND backend_type = 'client backend'"
            )
    assert value("SELECT max(attempt) FROM stampeded_jobs") == 1


@real_transactions
def test_job_threads_keep_one_connection_each_and_close_it_when_idle(effects, kept_open, monkeypatch):
    """Case C130: threads that leak connections."""
    monkeypatch.setattr(django_connections, "IDLE_CLOSE_S", 0.3)
    with working(threads=3):
        tasks.backends.enqueue_many([{"n": n} for n in range(300)])
        tasks.async_effect.enqueue_many([{"n": n} for n in range(50)])
        most = 0
        while states().get("completed", 0) < 350:
            most = max(most, users())
        assert most <= 3
        eventually(lambda: users() == 0, "idle threads to close their connections")


def users() -> int:
    return value(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
        "AND application_name NOT LIKE 'stampeded%%' AND backend_type = 'client backend'"
    )


@real_transactions
def test_a_read_only_server_counts_as_lost_and_recovers_by_itself(effects):
    """Case C69: a failover leaves sessions that can only read."""
    name = value("SELECT current_database()")
    with working(poll_interval=0.1, heartbeat_interval=0.2):
        rows(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        try:
            rows(KILL, "stampeded claimer")
            rows(KILL, "stampeded acker")
            rows("SET default_transaction_read_only = off")
            tasks.noop.enqueue()
        finally:
            rows("SET default_transaction_read_only = off")
            rows(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
        eventually(lambda: states() == {"completed": 1})


def error(sqlstate: str) -> psycopg.Error:
    return psycopg.errors.lookup(sqlstate)("said the server")


@pytest.mark.parametrize("sqlstate", ["57P01", "57P02", "57P03", "25006", "08006", "53300"])
def test_a_server_that_leaves_or_only_reads_means_another_connection(sqlstate):
    assert trouble(error(sqlstate)) is Trouble.LOST


@pytest.mark.parametrize("sqlstate", ["40001", "40P01", "55000", "55P03", "57014"])
def test_a_passing_conflict_means_another_try(sqlstate):
    assert trouble(error(sqlstate)) is Trouble.AGAIN


def test_other_errors_mean_a_look_by_somebody():
    assert trouble(error("42P01")) is Trouble.OTHER
    assert trouble(error("22P02")) is Trouble.OTHER
    assert trouble(KeyError("x")) is Trouble.OTHER


def test_an_error_without_a_code_is_a_lost_connection():
    assert trouble(psycopg.OperationalError("server closed the connection")) is Trouble.LOST
    assert trouble(psycopg.InterfaceError("the connection is closed")) is Trouble.LOST
    assert trouble(OSError("no route")) is Trouble.LOST


def test_the_wait_for_a_lost_database_doubles_up_to_a_cap_and_never_overflows():
    longest = [delay(n, uniform=lambda low, high: high) for n in range(2000)]
    assert longest[:4] == [0.1, 0.2, 0.4, 0.8]
    assert longest[-1] == LONGEST_DELAY
    assert all(0 < delay(n) <= LONGEST_DELAY for n in range(50))


def test_an_outage_is_told_once_then_counted_and_its_end_told_once(caplog):
    """Cases C70 and C163: ten minutes without a database, four loops that all notice."""
    now = [0.0]
    outage = Outage(clock=lambda: now[0])
    with caplog.at_level(logging.INFO):
        for second in range(600):
            now[0] = float(second)
            for role in ROLES:
                outage.failed(role, psycopg.OperationalError("connection refused\n\tIs the server running?"), 5.0)
        lines = len(caplog.records)
        assert lines == 1 + 599 // REPEAT_S
        assert "connection refused Is the server running?" in caplog.records[0].message
        assert "2160 tries" not in caplog.records[0].message
        for role in ROLES:
            outage.over(role)
        assert len(caplog.records) == lines + 1
        assert "again after 599" in caplog.records[-1].message


@real_transactions
def test_a_connection_of_ours_prepares_nothing_and_holds_no_transaction(effects):
    """Case C72: prepared statements behind a pooler."""
    link = Link("default", "test")
    for n in range(20):
        link.cursor().execute("SELECT %s::int", [n])
    assert link.cursor().execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
    assert link.connection().info.transaction_status.name == "IDLE"
    link.drop()
    assert not link.is_open
    link.drop()


@real_transactions
def test_a_wait_is_ended_from_another_thread_by_shutting_the_link(effects):
    import threading

    link = Link("default", "test")
    link.cursor()
    threading.Timer(0.2, link.shut).start()
    with pytest.raises(psycopg.OperationalError):
        list(link.connection().notifies(timeout=60))
    link.drop()
    link.shut()
