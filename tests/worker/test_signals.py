"""Django signals tell what happens to a job, in its own thread, and can't change its outcome."""

from __future__ import annotations

import threading

import pytest

from django_stampeded import current_job, signals
from tests.testapp import tasks
from tests.worker.support import column, drain, real_transactions

pytestmark = real_transactions


@pytest.fixture
def told():
    """What the signals said: their names, the job and the thread."""
    said = []
    receivers = []
    for name in ("job_started", "job_completed", "job_failed"):

        def receive(sender, job, name=name, **more):
            assert current_job() is job
            said.append((name, job.id, threading.current_thread().name, more.get("exception")))
            raise RuntimeError("a receiver of no worth")

        receivers.append(receive)
        getattr(signals, name).connect(receive)
    yield said
    for name, receive in zip(("job_started", "job_completed", "job_failed"), receivers, strict=True):
        getattr(signals, name).disconnect(receive)


def test_a_completed_job_is_told_of_at_its_start_and_its_end(effects, told):
    job = tasks.effect.enqueue(n=1)
    drain()
    assert [(name, id_) for name, id_, *_ in told] == [("job_started", job.id), ("job_completed", job.id)]
    assert all(thread.startswith("stampeded-job") for _, _, thread, _ in told)
    assert column("state", job) == "completed"


def test_a_failed_attempt_is_told_of_with_what_it_raised(effects, told):
    job = tasks.fail_oddly.enqueue(kind="nul")
    drain()
    assert [name for name, *_ in told] == ["job_started", "job_failed"]
    assert isinstance(told[1][3], ValueError)
    assert column("state", job) == "discarded"


def test_a_snooze_is_no_failure(effects, told):
    tasks.end_as.enqueue(outcome="snooze")
    drain()
    assert "job_failed" not in [name for name, *_ in told]
