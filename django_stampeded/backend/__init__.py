"""The backend for Django's Tasks API (`django.tasks`, or the backport django-tasks on Django 5.2).

Owns how a Task of Django's becomes a job: names, arguments, priority. What the worker runs is running.py, how a job is told
as a TaskResult is results.py. Backends are made while tasks are being declared, before models can be imported.
"""

from __future__ import annotations

import inspect
from typing import Any, cast
from uuid import UUID

from django.apps import apps
from django.utils import timezone

from django_stampeded import registry
from django_stampeded.backend.results import JobResult, result_of, status_of
from django_stampeded.backend.running import django_task, register
from django_stampeded.compat import (
    BaseTaskBackend,
    InvalidTaskBackend,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    task_enqueued,
)
from django_stampeded.conf import settings
from django_stampeded.exceptions import InvalidArguments, InvalidOption
from django_stampeded.options import OF_ONE_JOB, OF_THE_FUNCTION, checked
from django_stampeded.results import database

__all__ = ["StampededBackend"]

_OF_THE_TASKS = ("name", "aliases", "takes_context", "queue_name", "priority", "run_after", "meta", *OF_ONE_JOB)
_OF_BOTH = ("backoff_base", "backoff_max")


class StampededBackend(BaseTaskBackend):
    """Runs Django's tasks as jobs: `TASKS = {"default": {"BACKEND": "django_stampeded.backend.StampededBackend"}}`.

    OPTIONS takes the options of `django_stampeded.task` that Django's own decorator has no word for, such as max_attempts,
    timeout, tenant or result_ttl, for all tasks of the backend. A result is kept as long as a completed job unless
    result_ttl says otherwise. `using` names the database.

    Django's priority grows upwards and a job's downwards: 10 becomes -10.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        try:
            wrong = sorted(set(self.options) & set(_OF_THE_TASKS))
            if wrong:
                raise InvalidOption(f"{wrong[0]} belongs to the tasks")
            given = checked(self.options)
        except InvalidOption as exc:
            raise InvalidTaskBackend(f"OPTIONS of the Tasks backend {alias!r}: {exc} Correct it in TASKS.") from None
        self._of_function: dict[str, Any] = {name: given.pop(name) for name in OF_THE_FUNCTION if name in given}
        self._of_function.setdefault("store_result", True)
        self._of_function |= {name: given[name] for name in _OF_BOTH if name in given}
        self._of_jobs = given

    def validate_task(self, task: Task) -> None:
        """Refuses what Django refuses, and makes the task known to the worker."""
        super().validate_task(task)
        register(task, {"result_ttl": float(settings.COMPLETED_RETENTION), **self._of_function})

    def enqueue(self, task: Task, args: Any, kwargs: Any) -> TaskResult:
        """Writes a job, in the transaction in progress. Raises InvalidArguments, with nothing written, for wrong arguments."""
        self.validate_task(task)
        result = self._fresh(task, list(args), dict(kwargs))
        meta: dict[str, Any] = {"backend": self.alias}
        if result.args:
            meta |= {"args": result.args, "kwargs": result.kwargs}
        job = registry.find(task.module_path).using(
            **self._of_jobs,
            queue_name=task.queue_name,
            priority=-int(task.priority),
            run_after=task.run_after,
            meta={"django": meta},
        )
        enqueued = job.enqueue(**_named(task, result.args, result.kwargs))
        object.__setattr__(result, "id", str(enqueued.id))
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult:
        """The result of a job by its id. Raises TaskResultDoesNotExist for one that is no task of Django's."""
        try:
            id = UUID(str(result_id))
        except ValueError:
            raise TaskResultDoesNotExist(result_id) from None
        rows = apps.get_model("stampeded", "Job").objects.using(database(self._of_jobs.get("using")))
        job = rows.filter(id=id).first()
        task = None if job is None else django_task(job.task)
        if job is None or task is None:
            raise TaskResultDoesNotExist(result_id)
        return result_of(job, task, self.alias)

    def _fresh(self, task: Task, args: list[Any], kwargs: dict[str, Any]) -> JobResult:
        return JobResult(
            task=task,
            id="",
            status=status_of("available"),
            enqueued_at=timezone.now(),
            started_at=None,
            finished_at=None,
            last_attempted_at=None,
            args=args,
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )


def _named(task: Task, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name, so that workers and operators can read them in any language."""
    context = [None] if task.takes_context else []
    signature = inspect.signature(task.func)
    try:
        bound = signature.bind(*context, *args, **kwargs).arguments
    except TypeError as exc:
        raise InvalidArguments(f"Task {task.module_path!r} was given wrong arguments: {exc}.") from None
    named: dict[str, Any] = {}
    for position, (name, value) in enumerate(bound.items()):
        if position == 0 and context:
            continue
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            named |= cast(dict[str, Any], value)
        else:
            named[name] = list(value) if isinstance(value, tuple) else value
    return named
