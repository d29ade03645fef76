"""Circuit breakers as workers meet them: what they report, what does not start, and what that costs the jobs."""

from __future__ import annotations

import pytest
from django.db import connection

from django_stampeded import signals
from tests.testapp import tasks
from tests.testapp.tasks import OUTAGE, call_out
from tests.worker.support import drain, eventually, real_transactions, rows, states, value, working

pytestmark = real_transactions

ENOUGH = 40
"""Jobs, several times as many as failures open the breaker."""


def outage(begins: bool) -> None:
    rows(f"INSERT INTO effects (n) VALUES ({OUTAGE})" if begins else f"DELETE FROM effects WHERE n = {OUTAGE}")


def state(key: str) -> str:
    return value("SELECT coalesce((SELECT state FROM stampeded_breakers WHERE key = %s), 'none')", key)


def starts() -> int:
    return value("SELECT count(*) FROM effects WHERE n <> %s", OUTAGE)


def may_retry() -> None:
    rows("UPDATE stampeded_breakers SET retry_at = clock_timestamp() WHERE state <> 'closed'")
    rows("UPDATE stampeded_jobs SET scheduled_at = now() WHERE state = 'retryable'")


def never_by_itself() -> None:
    rows("UPDATE stampeded_breakers SET retry_at = now() + interval '1 hour' WHERE state <> 'closed'")


@pytest.mark.parametrize("destination", ["api", None])
def test_a_breaker_opens_by_failures_lets_probes_through_and_closes_when_they_succeed(effects, destination):
    outage(True)
    key = destination or call_out.name
    call_out.using(destination=destination).enqueue_many([{"n": n} for n in range(ENOUGH)])
    with working(threads=2):
        eventually(lambda: state(key) == "open", "the breaker to open")
        eventually(lambda: value("SELECT openings > 2 FROM stampeded_breakers"), "probes to fail")
        outage(False)
        eventually(lambda: states() == {"completed": ENOUGH}, "all jobs to complete")
    assert state(key) == "closed"
    spent = starts() - ENOUGH
    assert spent == value("SELECT sum(attempt - 1) FROM stampeded_jobs"), "refusals must cost no attempt"
    assert spent < ENOUGH, "only probes and what had started may have failed"


def test_jobs_of_an_open_destination_are_not_even_claimed(effects):
    rows("SELECT stampeded_trip_breaker('destination', 'api')")
    call_out.using(destination="api").enqueue_many([{"n": n} for n in range(ENOUGH)])
    others = call_out.using(destination="other").enqueue_many([{"n": n} for n in range(5)])
    with working():
        eventually(lambda: states().get("completed") == len(others))
    assert rows("SELECT DISTINCT destination, state, attempt, deferrals FROM stampeded_jobs WHERE destination = 'api'") == [
        ("api", "available", 0, 0)
    ]


def test_jobs_of_a_task_whose_breaker_is_open_are_refused_once_and_keep_their_attempts(effects):
    rows("SELECT stampeded_trip_breaker('task', %s)", call_out.name)
    call_out.enqueue_many([{"n": n} for n in range(ENOUGH)])
    tasks.effect.enqueue(n=1)
    with working():
        eventually(lambda: value("SELECT min(deferrals + attempt) FROM stampeded_jobs") == 1)
        eventually(lambda: states() == {"completed": 1, "retryable": ENOUGH})
        assert starts() == 1
        refused = rows("SELECT DISTINCT attempt, failure_kind, last_error FROM stampeded_jobs WHERE state = 'retryable'")
        assert refused == [(0, "breaker_open", None)]
        rows("SELECT stampeded_reset_breaker('task', %s)", call_out.name)
        rows("UPDATE stampeded_jobs SET scheduled_at = now() WHERE state = 'retryable'")
        eventually(lambda: states() == {"completed": 1 + ENOUGH})


def test_what_a_process_has_claimed_before_its_breaker_opened_does_not_start(effects):
    outage(True)
    call_out.using(destination="api").enqueue_many([{"n": n} for n in range(ENOUGH)])
    with working(threads=1):
        eventually(lambda: state("api") != "none" and state("api") != "closed")
        never_by_itself()
        eventually(lambda: "executing" not in states())
    assert value("SELECT sum(attempt) FROM stampeded_jobs") == starts()
    assert value("SELECT max(deferrals) FROM stampeded_jobs") <= 1


def test_a_task_without_a_breaker_runs_whatever_its_own_jobs_do(effects):
    outage(True)
    tasks.call_carelessly.using(max_attempts=1).enqueue_many([{"n": n} for n in range(ENOUGH)])
    drain()
    assert states() == {"discarded": ENOUGH} and rows("SELECT * FROM stampeded_breakers") == []


def test_a_destination_has_a_breaker_by_default_and_tasks_of_which_none_is_said_have_none(effects):
    tasks.fail.using(max_attempts=1).enqueue_many([{}] * 12)
    tasks.fail.using(max_attempts=1, destination="api").enqueue_many([{}] * 12)
    drain()
    assert rows("SELECT kind, key, state FROM stampeded_breakers") == [("destination", "api", "open")]


@pytest.mark.parametrize("outcome", ["retry", "cancel", "discard"])
def test_what_a_job_asks_for_is_no_sign_of_trouble(effects, outcome):
    tasks.end_as.using(destination="api", max_attempts=1).enqueue_many([{"outcome": outcome}] * 12)
    drain()
    assert rows("SELECT * FROM stampeded_breakers") == []


def test_signals_tell_of_opening_and_closing_once(effects):
    heard = []

    def note(sender, signal, **about):
        heard.append((signal is signals.breaker_opened, about["kind"], about["key"], about["using"]))
        connection.ensure_connection()

    signals.breaker_opened.connect(note)
    signals.breaker_closed.connect(note)
    try:
        outage(True)
        call_out.using(destination="api").enqueue_many([{"n": n} for n in range(ENOUGH)])
        with working(threads=2):
            eventually(lambda: heard)
            outage(False)
            eventually(lambda: len(heard) == 2)
            eventually(lambda: states() == {"completed": ENOUGH})
    finally:
        signals.breaker_opened.disconnect(note)
        signals.breaker_closed.disconnect(note)
    assert heard == [(True, "destination", "api", "default"), (False, "destination", "api", "default")]


def test_a_report_that_fails_costs_no_outcome(effects, monkeypatch, caplog):
    from django_stampeded import breaker_functions

    def broken(*_, **__):
        raise RuntimeError("no ear")

    monkeypatch.setattr(breaker_functions, "report", broken)
    call_out.using(destination="api").enqueue(n=1)
    drain()
    assert states() == {"completed": 1} and "could not be reported to the circuit breakers" in caplog.text
