"""The job as whoever enqueued it knows it: its id, how it ended, and what it returned.

Owns EnqueuedJob and the waiting for an end, by looking again and again. What is stored is decided by the task (store_result)
and written by the worker together with the completion.
"""

from __future__ import annotations

import functools
import math
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from asgiref.sync import sync_to_async
from django.apps import apps
from django.db import connections, router

from django_stampeded import batch_functions
from django_stampeded.exceptions import JobFailed, NoResult
from django_stampeded.states import FINAL

if TYPE_CHECKING:
    from django.db.models import Model

FIRST_LOOK_S = 0.02
LONGEST_PAUSE_S = 1.0

_PENDING = object()


class EnqueuedJob(NamedTuple):
    """A job in its queue. `created` is False where a job with the same dedup scope was already there; `id` is its id.

    `replaced` is True where that one took the new arguments (on_conflict="replace"). It keeps its own where it is executing, or
    has completed and its period (unique_for) isn't over: then both are False.
    """

    id: UUID
    queue: str
    task: str
    created: bool
    replaced: bool = False

    def result(self, using: str | None = None) -> Any:
        """What the job returned, None where its task keeps no results (store_result) or it has expired.

        `using` is a database alias, None for the router's choice. Raises JobFailed when the job was discarded or cancelled,
        NoResult while it has not ended or when it is gone.
        """
        return result(self.queue, self.id, database(using))

    def wait(self, timeout: timedelta | float, using: str | None = None) -> Any:
        """The `result` once the job has ended. To be called after the transaction that enqueued it: before, no worker sees it.

        `timeout` is seconds or a timedelta. Raises TimeoutError when it has not ended by then, else what `result` raises.

        Example: `total = add.enqueue(x=1, y=2).wait(timeout=10)`
        """
        return wait(self.queue, self.id, timeout, database(using))

    async def aresult(self, using: str | None = None) -> Any:
        """`result` for async code."""
        return await sync_to_async(self.result)(using)

    async def await_result(self, timeout: timedelta | float, using: str | None = None) -> Any:
        """`wait` for async code. It sleeps in a thread of its own, which takes a connection of its own."""
        return await sync_to_async(_waited, thread_sensitive=False)(self, timeout, using)


def _waited(job: EnqueuedJob, timeout: timedelta | float, using: str | None) -> Any:
    try:
        return job.wait(timeout, using)
    finally:
        connections.close_all()


def database(using: str | None) -> str:
    """The alias of the database that jobs are written to: the one given, or the router's choice."""
    return using or router.db_for_write(_job_model())


@functools.cache
def _job_model() -> type[Model]:
    # Looked up at the first use: tasks are defined while apps load, when models can't be imported yet.
    return apps.get_model("stampeded", "Job")


def result(queue: str, id: UUID, using: str) -> Any:
    """What a job returned, None for one whose task keeps no results or whose result has expired.

    Raises JobFailed when it was discarded or cancelled, NoResult while it has not ended or when it is gone.
    """
    found = _look(queue, id, using)
    if found is _PENDING:
        raise NoResult(f"Job {id} has not ended yet: wait() for it, or ask again later.")
    return found


def wait(queue: str, id: UUID, timeout: timedelta | float, using: str) -> Any:
    """The result of a job once it has ended, as `result` gives it.

    `timeout` is seconds or a timedelta, else ValueError is raised. Raises TimeoutError when it has not ended by then, JobFailed
    and NoResult as `result`.
    """
    seconds = seconds_of(timeout)
    until = time.monotonic() + seconds
    pause = FIRST_LOOK_S
    while (found := _look(queue, id, using)) is _PENDING:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"Job {id} has not ended within {seconds:g} s: wait longer, or see that a worker takes it.")
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, LONGEST_PAUSE_S)
    return found


def seconds_of(timeout: timedelta | float) -> float:
    """A timeout in seconds. Raises ValueError for what is neither, and for NaN: a wait for it would never end."""
    if isinstance(timeout, timedelta):
        return timeout.total_seconds()
    if isinstance(timeout, int | float) and not isinstance(timeout, bool) and not math.isnan(timeout):
        return float(timeout)
    raise ValueError(f"A timeout is seconds or a timedelta, not {timeout!r:.50}.")


def _look(queue: str, id: UUID, using: str) -> Any:
    with connections[using].cursor() as cur:
        found = batch_functions.ending(cur, queue, id)
    if found.state in ("discarded", "cancelled"):
        raise JobFailed(
            f"Job {id} was {found.state}: {found.error or 'no reason is on record'}", found.state, found.error or ""
        )
    if found.stored:
        return found.value
    if found.state is None:
        raise NoResult(f"Job {id} is not in queue {queue!r} and has no result: it was rolled back, pruned, moved or deleted.")
    return None if found.state in FINAL else _PENDING
