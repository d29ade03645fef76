"""The words for a job's state, for why an attempt ended, and for a breaker's state.

Owns the vocabulary only. Which state follows which is decided in SQL (sql/functions), never here.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum


class State(StrEnum):
    """The state of a job, as stored in `stampeded_jobs.state`."""

    AVAILABLE = "available"
    CLAIMED = "claimed"
    EXECUTING = "executing"
    RETRYABLE = "retryable"
    COMPLETED = "completed"
    DISCARDED = "discarded"
    CANCELLED = "cancelled"


WAITING: frozenset[State] = frozenset({State.AVAILABLE, State.RETRYABLE})
"""States a job can be claimed from."""

RUNNING: frozenset[State] = frozenset({State.CLAIMED, State.EXECUTING})
"""States in which a worker holds the job. `claimed` counts as executing everywhere."""

FINAL: frozenset[State] = frozenset({State.COMPLETED, State.DISCARDED, State.CANCELLED})
"""States that only an operator's retry leads out of."""


WAITS_UNTIL = datetime(9999, 1, 1, tzinfo=UTC)
"""For when a job is scheduled that waits for other jobs: stampeded_waits_until() in SQL."""


class BreakerState(StrEnum):
    """The state of a circuit breaker, as stored in `stampeded_breakers.state`."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class FailureKind(StrEnum):
    """Why an attempt ended without completing, as stored in `stampeded_jobs.failure_kind`."""

    RAISED = "raised"
    TIMED_OUT = "timed_out"
    HEARTBEAT_LOST = "heartbeat_lost"
    WORKER_EXITED = "worker_exited"
    WORKER_MISSING = "worker_missing"
    BREAKER_OPEN = "breaker_open"
    THROTTLED = "throttled"
    CANCELLED = "cancelled"
    UNRECOVERABLE = "unrecoverable"
