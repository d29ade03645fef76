"""What a worker runs for a Task of Django's: a function of the same name that calls it as Django would.

Owns the registration of such functions and Django's signals of a task's start and end.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

from django.utils import timezone
from django.utils.module_loading import import_string

from django_stampeded import registry, tasks
from django_stampeded.backend.results import JobResult, error_of, running_result
from django_stampeded.compat import Task, TaskContext, TaskResultStatus, task_backends, task_finished, task_started
from django_stampeded.exceptions import Cancel, Discard, Snooze
from django_stampeded.options import checked
from django_stampeded.worker.context import JobContext

_known: dict[str, Task] = {}


def register(task: Task, options: dict[str, Any]) -> None:
    """Makes jobs of a task known to the registry, the first time that it is seen."""
    name = task.module_path
    known = _known.get(name)
    if known is not None and known.func is task.func:
        return
    _known[name] = task
    body = _async_body(name) if iscoroutinefunction(task.func) else _body(name)
    # Its origin, but not __wrapped__: arguments are passed on as they came, whatever the function's signature.
    body.__module__, body.__qualname__, body.__doc__ = task.func.__module__, task.func.__qualname__, task.func.__doc__
    made: tasks.Task[..., Any] = tasks.Task(name=name, func=body, takes_context=True)
    registry.register(made._with(checked(options)))


def django_task(name: str) -> Task | None:
    """The task that jobs of that name are made from, None where there is none."""
    if name not in _known:
        try:
            import_string(name)
        except (ImportError, ValueError):
            return None
    return _known.get(name)


def _body(name: str) -> Callable[..., Any]:
    def run(job: JobContext, /, **arguments: Any) -> Any:
        task, result, positional, named = _begin(name, job, arguments)
        try:
            value = task.func(*positional, **named)
        except BaseException as exc:
            _failed(result, job, exc)
            raise
        _succeeded(result, value)
        return value

    return run


def _async_body(name: str) -> Callable[..., Any]:
    async def run(job: JobContext, /, **arguments: Any) -> Any:
        task, result, positional, named = _begin(name, job, arguments)
        try:
            value = await task.func(*positional, **named)
        except BaseException as exc:
            _failed(result, job, exc)
            raise
        _succeeded(result, value)
        return value

    return run


def _begin(name: str, job: JobContext, arguments: dict[str, Any]) -> tuple[Task, JobResult, list[Any], dict[str, Any]]:
    task = _known[name]
    given = job.meta.get("django", {})
    args, kwargs = (given["args"], given["kwargs"]) if "args" in given else ([], arguments)
    result = running_result(job, task, given.get("backend", task.backend), args, kwargs)
    _send(task_started, result)
    context: list[Any] = [TaskContext(task_result=result)] if task.takes_context else []
    return task, result, [*context, *args], kwargs


def _succeeded(result: JobResult, value: Any) -> None:
    object.__setattr__(result, "_return_value", value)
    _ended(result, TaskResultStatus.SUCCESSFUL)


def _failed(result: JobResult, job: JobContext, exc: BaseException) -> None:
    """Tells of a failure that ends the job. One that leads to another attempt is no end."""
    if isinstance(exc, Cancel | Discard) or job.attempt >= job.max_attempts and not isinstance(exc, Snooze):
        result.errors.append(error_of(exc))
        _ended(result, TaskResultStatus.FAILED)


def _ended(result: JobResult, status: TaskResultStatus) -> None:
    object.__setattr__(result, "status", status)
    object.__setattr__(result, "finished_at", timezone.now())
    _send(task_finished, result)


def _send(signal: Any, result: JobResult) -> None:
    signal.send_robust(type(task_backends[result.backend]), task_result=result)
