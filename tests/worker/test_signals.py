"""Django signals tell what happens to a job, in its own thread, and can't change its outcome."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.dispatch import Signal

from django_stampeded import (
    Cancel,
    Discard,
    InvalidArguments,
    RetryIn,
    Snooze,
    current_job,
    enqueue,
    signals,
    task_by_name,
)
from tests.testapp import tasks
from tests.worker.support import column, drain, eventually, real_transactions, rows, stop, value, working

pytestmark = real_transactions

OF_A_JOB = sorted(
    name for name, each in vars(signals).items() if isinstance(each, Signal) and name not in ("job_enqueued", "job_replaced")
)


@pytest.fixture
def told():
    """What the signals said: their names, the job, the thread and the other arguments."""
    said = []
    receivers = []
    for name in OF_A_JOB:

        def receive(sender, job, signal, name=name, **more):
            assert current_job().id == job.id
            said.append((name, job.id, threading.current_thread().name, more))
            raise RuntimeError("a receiver of no worth")

        receivers.append((getattr(signals, name), receive))
        getattr(signals, name).connect(receive)
    yield said
    for signal, receive in receivers:
        signal.disconnect(receive)


def names(told):
    return [name for name, *_ in told]


def test_a_completed_job_is_told_of_at_its_start_and_its_end(effects, told):
    job = tasks.effect.enqueue(n=1)
    drain()
    assert [(name, id_) for name, id_, *_ in told] == [("job_started", job.id), ("job_completed", job.id)]
    assert all(thread.startswith("stampeded-job") for _, _, thread, _ in told)
    assert column("state", job) == "completed"


@pytest.mark.parametrize("failing", ["fail_oddly", "async_fail_oddly"])
def test_a_failed_attempt_is_told_of_with_what_it_raised_and_what_follows(effects, told, failing):
    job = getattr(tasks, failing).using(max_attempts=2, backoff_base=0.001).enqueue(kind="nul")
    drain()
    one_of_two = ["job_started", "job_failed", "job_retried"]
    assert names(told) == [*one_of_two, "job_started", "job_failed", "job_discarded"]
    assert all(isinstance(more["exception"], ValueError) for name, _, _, more in told if name != "job_started")
    assert told[2][3]["delay"] is None
    assert column("state", job) == "discarded"


@pytest.mark.parametrize(
    ("outcome", "expected", "raised"),
    [
        ("retry", ["job_failed", "job_retried"], RetryIn),
        ("snooze", ["job_snoozed"], Snooze),
        ("cancel", ["job_failed", "job_cancelled"], Cancel),
        ("discard", ["job_failed", "job_discarded"], Discard),
    ],
)
def test_each_outcome_has_a_signal_of_its_own(effects, told, outcome, expected, raised):
    tasks.end_as.enqueue(outcome=outcome)
    drain()
    ending = [(name, more) for name, _, _, more in told if name not in ("job_started", "job_completed")]
    assert [name for name, _ in ending] == expected
    assert all(isinstance(more["exception"], raised) for _, more in ending if "exception" in more)
    if outcome in ("retry", "snooze"):
        assert ending[-1][1]["delay"] == timedelta(milliseconds=50)


@pytest.mark.parametrize("misfit", ["effect", "async_fail_oddly"])
def test_arguments_that_do_not_fit_are_told_of_though_the_body_never_ran(effects, told, misfit):
    rows("INSERT INTO stampeded_jobs (queue, task, args) VALUES ('default', %s, '{\"wrong\": 1}')", getattr(tasks, misfit).name)
    drain()
    assert names(told) == ["job_failed", "job_discarded"]
    assert all(isinstance(more["exception"], InvalidArguments) for *_, more in told)
    assert "is missing" in value("SELECT last_error FROM stampeded_jobs")


def test_a_job_of_an_unknown_task_is_told_of_as_put_off(effects, told):
    enqueue("nobody.knows.it")
    with working():
        eventually(lambda: told)
    assert names(told) == ["job_snoozed"] and told[0][3]["delay"] >= timedelta(seconds=5)


def test_a_job_cancelled_while_it_runs_is_told_of_as_interrupted(effects, told):
    job = task_by_name(tasks.async_until_cancelled.name).enqueue()
    with working() as worker:
        eventually(lambda: value("SELECT count(*) FROM effects"))
        rows("SELECT * FROM stampeded_cancel(%s, %s)", job.queue, job.id)
        eventually(lambda: "job_interrupted" in names(told))
        stop(worker)
    assert names(told) == ["job_started", "job_interrupted"]
    assert column("state", job) == "cancelled"


def test_a_transactional_job_that_fails_is_told_of_as_any_other(effects, told, monkeypatch):
    monkeypatch.setitem(tasks.ENDINGS, "raise", lambda job: job.no_such_thing)
    job = tasks.whole.enqueue(n=1, ending="raise")
    drain()
    assert names(told) == ["job_started", "job_failed", "job_retried", "job_started", "job_failed", "job_discarded"]
    assert column("state", job) == "discarded"
