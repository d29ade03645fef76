"""A job as Django's TaskResult tells it.

Owns what each state and error is called there. Which job, and what may be asked, is the backend's.
"""

from __future__ import annotations

import builtins
import re
import traceback
from dataclasses import dataclass, replace
from typing import Any

from django.db import connections
from django.utils import timezone

from django_stampeded import batch_functions
from django_stampeded.compat import (
    TASK_REFRESH_ATTRS,
    InvalidTask,
    Task,
    TaskError,
    TaskResult,
    TaskResultStatus,
)
from django_stampeded.states import RUNNING, State
from django_stampeded.worker.context import JobContext

_HEADLINE = re.compile(r"([A-Za-z_][\w.]*)(?::|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult(TaskResult):  # type: ignore[misc]  # the stubs don't say that it is frozen
    """A TaskResult that counts attempts as the job does: a worker's death or a refusal is none."""

    attempt_count: int = 0

    @property
    def attempts(self) -> int:
        """How many attempts were begun."""
        return self.attempt_count

    def refresh(self) -> None:
        """Read the job anew."""
        self._take(self.task.get_backend().get_result(self.id))

    async def arefresh(self) -> None:
        """`refresh` for async code."""
        self._take(await self.task.get_backend().aget_result(self.id))

    def _take(self, other: TaskResult) -> None:
        for name in (*TASK_REFRESH_ATTRS, "attempt_count"):
            object.__setattr__(self, name, getattr(other, name))


def status_of(state: str) -> TaskResultStatus:
    """What a job's state is called."""
    if state in RUNNING:
        return TaskResultStatus.RUNNING
    if state == State.COMPLETED:
        return TaskResultStatus.SUCCESSFUL
    return TaskResultStatus.FAILED if state in (State.DISCARDED, State.CANCELLED) else TaskResultStatus.READY


def result_of(job: Any, task: Task, alias: str) -> JobResult:
    """The result of a job's row."""
    given = job.meta.get("django", {})
    result = JobResult(
        task=_as_enqueued(task, job, given.get("backend", alias)),
        id=str(job.id),
        status=status_of(job.state),
        enqueued_at=job.inserted_at,
        started_at=job.claimed_at,
        finished_at=job.finished_at,
        last_attempted_at=job.claimed_at,
        args=given.get("args", []),
        kwargs=given.get("kwargs", job.args),
        backend=given.get("backend", alias),
        errors=_errors(job),
        worker_ids=list(job.attempted_by),
        attempt_count=job.attempt,
    )
    if result.status == TaskResultStatus.SUCCESSFUL:
        with connections[job._state.db].cursor() as cur:
            object.__setattr__(result, "_return_value", batch_functions.results(cur, [job.id]).get(job.id))
    return result


def running_result(job: JobContext, task: Task, alias: str, args: list[Any], kwargs: dict[str, Any]) -> JobResult:
    """The result of a job while it runs here."""
    now = timezone.now()
    return JobResult(
        task=task,
        id=str(job.id),
        status=TaskResultStatus.RUNNING,
        enqueued_at=job.enqueued_at,
        started_at=now,
        finished_at=None,
        last_attempted_at=now,
        args=args,
        kwargs=kwargs,
        backend=alias,
        errors=[],
        worker_ids=[str(job.worker_id)],
        attempt_count=job.attempt,
    )


def error_of(exc: BaseException) -> TaskError:
    """An exception as Django keeps it."""
    kind = type(exc)
    return TaskError(
        exception_class_path=f"{kind.__module__}.{kind.__qualname__}", traceback="".join(traceback.format_exception(exc))
    )


def _as_enqueued(task: Task, job: Any, alias: str) -> Task:
    try:
        return replace(task, priority=-job.priority, queue_name=job.queue, backend=alias)
    except (InvalidTask, KeyError):
        return task  # it was moved to a queue, or given a priority, that no task of Django's could have


def _errors(job: Any) -> list[TaskError]:
    texts = [str(entry.get("message", "")) for entry in job.errors]
    if texts and job.last_error:
        texts[-1] = job.last_error  # the ring keeps less of each
    return [TaskError(exception_class_path=_class_path(text), traceback=text) for text in texts]


def _class_path(text: str) -> str:
    """The path of the exception in the first line of an error's text."""
    found = _HEADLINE.match(text)
    name = found[1] if found else ""
    if "." in name:
        return name
    if isinstance(getattr(builtins, name, None), type):
        return f"builtins.{name}"
    return f"django_stampeded.exceptions.{name}" if name in ("Discard", "Cancel", "RetryIn") else "builtins.Exception"
