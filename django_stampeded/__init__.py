"""A job queue for Django on PostgreSQL.

Owns the public names, and loads each when it is first asked for: importing the package imports no model, so that it can
be done anywhere, settings and models.py included.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_stampeded.batches import Batch
    from django_stampeded.chains import Chain, chain
    from django_stampeded.declaring import task
    from django_stampeded.enqueueing import EnqueuedJob
    from django_stampeded.exceptions import (
        BatchFinished,
        Cancel,
        Discard,
        DuplicateTask,
        InvalidArguments,
        InvalidOption,
        InvalidSchedule,
        InvalidStep,
        JobFailed,
        LeaseFinished,
        LeaseLost,
        NoResult,
        PullerClosed,
        RetryIn,
        SchemaMismatch,
        ServerTooOld,
        Snooze,
        StampededError,
        UnknownTask,
    )
    from django_stampeded.pulling.lease import Lease
    from django_stampeded.pulling.puller import Puller
    from django_stampeded.tasks import Call, Task, aenqueue, aenqueue_many, enqueue, enqueue_many, task_by_name
    from django_stampeded.worker.context import JobContext, current_job

__all__ = [
    "Batch",
    "BatchFinished",
    "Call",
    "Cancel",
    "Chain",
    "Discard",
    "DuplicateTask",
    "EnqueuedJob",
    "InvalidArguments",
    "InvalidOption",
    "InvalidSchedule",
    "InvalidStep",
    "JobContext",
    "JobFailed",
    "Lease",
    "LeaseFinished",
    "LeaseLost",
    "NoResult",
    "Puller",
    "PullerClosed",
    "RetryIn",
    "SchemaMismatch",
    "ServerTooOld",
    "Snooze",
    "StampededError",
    "Task",
    "UnknownTask",
    "aenqueue",
    "aenqueue_many",
    "chain",
    "current_job",
    "enqueue",
    "enqueue_many",
    "task",
    "task_by_name",
]

_ELSEWHERE = {
    "Batch": "batches",
    "Call": "tasks",
    "Chain": "chains",
    "EnqueuedJob": "enqueueing",
    "JobContext": "worker.context",
    "Lease": "pulling.lease",
    "Puller": "pulling.puller",
    "Task": "tasks",
    "aenqueue": "tasks",
    "aenqueue_many": "tasks",
    "chain": "chains",
    "current_job": "worker.context",
    "enqueue": "tasks",
    "enqueue_many": "tasks",
    "task": "declaring",
    "task_by_name": "tasks",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_ELSEWHERE.get(name, 'exceptions')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
