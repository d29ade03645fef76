"""The `@task` decorator: what makes a task of a function, and the options that it takes beyond those of `using()`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Unpack, overload

from django_stampeded import registry
from django_stampeded.exceptions import InvalidOption, InvalidSchedule
from django_stampeded.options import OF_ONE_JOB, Options, checked
from django_stampeded.tasks import P, R, Task
from django_stampeded.timing import TIMETABLE_OPTIONS, timetable

ExceptionClasses = type[BaseException] | Iterable[type[BaseException]]


class TaskOptions(Options, total=False):
    """What `@task(...)` takes beyond what `Task.using()` can change."""

    name: str
    aliases: Iterable[str]
    takes_context: bool
    timeout: float | timedelta | None
    isolation: str
    breaker: Mapping[str, Any] | bool
    transactional: bool
    retry_on: ExceptionClasses | None
    discard_on: ExceptionClasses
    backoff: Callable[[int, Exception], timedelta | float | None] | None
    store_result: bool
    result_ttl: timedelta | float
    cron: str
    every: timedelta | float
    timezone: str
    dst_policy: str
    missed_policy: str
    overlap_policy: str
    jitter: timedelta | float


@overload
def task(func: Callable[P, R], /) -> Task[P, R]: ...
@overload
def task(**options: Unpack[TaskOptions]) -> Callable[[Callable[P, R]], Task[P, R]]: ...
def task(func: Any = None, /, **options: Any) -> Any:
    """Makes a Task of a function or `async def`, with or without options: see `Task` for them and their ranges.

    Its name is the function's path, `shop.tasks.import_csv`, unless `name` gives another; what is stored with each job is
    the name, so keep it, or list the old one in `aliases`. Raises InvalidOption, or DuplicateTask for a name in use.

    Example: `@task(queue_name="imports", max_attempts=3)` above `def import_csv(path: str) -> None: ...`
    """
    if func is None:
        return lambda function: _made(function, _checked_for_task(options))
    return _made(func, {})


def _checked_for_task(options: dict[str, Any]) -> dict[str, Any]:
    for name in OF_ONE_JOB:
        if name in options:
            raise InvalidOption(f"{name} belongs to the jobs: give it with using({name}=...), not to @task.")
    given = {name: options[name] for name in TIMETABLE_OPTIONS & options.keys()}
    found = checked({name: value for name, value in options.items() if name not in given})
    if given:
        try:
            found["timetable"] = timetable(**given)
        except InvalidSchedule as exc:
            raise InvalidOption(str(exc)) from None
    return found


def _made(func: Any, options: dict[str, Any]) -> Task[..., Any]:
    if isinstance(func, Task) or not callable(func):
        raise InvalidOption(f"@task goes above a function, not above {type(func).__name__}.")
    if inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
        raise InvalidOption(f"{func.__qualname__} yields, so calling it runs nothing: make it a plain function.")
    if "name" not in options:
        if not hasattr(func, "__qualname__"):
            raise InvalidOption(f"A {type(func).__name__} has no name of its own: give it one with @task(name=...).")
        options |= checked({"name": f"{func.__module__}.{func.__qualname__}"})
    made: Task[..., Any] = Task(name=options.pop("name"), func=func)._with(options)
    _ = made.signature  # refuses a function that can't be called with named arguments
    made.__dict__.update(__doc__=func.__doc__, __wrapped__=func, __module__=func.__module__)
    registry.register(made)
    return made
