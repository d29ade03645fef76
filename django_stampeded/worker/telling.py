"""Which signals tell of the end of an attempt, and with what: one for each transition that this worker brings about.

Pure. Sending them is for execution.py and coroutines.py, in the thread of the job: threads that speak to the queue run no
user's code, so the signals come right before the outcome is recorded and not after.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.dispatch import Signal

from django_stampeded import signals
from django_stampeded.states import FailureKind
from django_stampeded.worker.lease import Lease
from django_stampeded.worker.outcomes import Failed, Outcome, Snoozed

Told = tuple[Signal, dict[str, Any]]


def of_end(lease: Lease, outcome: Outcome, exc: BaseException | None) -> list[Told]:
    """The signals for an attempt that did not complete, in order; those that nobody hears are left out.

    `exc` is what the body raised, None where it didn't run.
    """
    return [told for told in _of_end(lease, outcome, exc) if told[0].receivers]


def _of_end(lease: Lease, outcome: Outcome, exc: BaseException | None) -> list[Told]:
    if lease.lost or (lease.settled and not lease.ending):
        return [(signals.job_interrupted, {"exception": exc})]
    if isinstance(outcome, Snoozed):
        return [(signals.job_snoozed, {"delay": timedelta(milliseconds=outcome.delay_ms)})]
    if not isinstance(outcome, Failed):
        return []
    exception = outcome.exception if exc is None else exc
    job = lease.job
    failed = (signals.job_failed, {"exception": exception})
    if outcome.kind is FailureKind.CANCELLED:
        return [failed, (signals.job_cancelled, {"exception": exception})]
    if outcome.kind is FailureKind.UNRECOVERABLE or job.attempt >= job.max_attempts:
        return [failed, (signals.job_discarded, {"exception": exception})]
    delay = None if outcome.delay_ms is None else timedelta(milliseconds=outcome.delay_ms)
    return [failed, (signals.job_retried, {"exception": exception, "delay": delay})]
