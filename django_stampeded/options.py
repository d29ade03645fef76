"""The options of a task: which there are, their ranges, and the sentence for one that is out of range.

Pure. What an option does to a job is in the columns that tasks.py fills and in the worker; defaults that a column has
are the column's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from difflib import get_close_matches
from inspect import iscoroutinefunction
from typing import Any, TypedDict
from uuid import UUID

from django.conf import settings as django_settings

from django_stampeded.breaking import checked_rule
from django_stampeded.encoding import safe_text
from django_stampeded.exceptions import InvalidOption

PERIODS = ("minute", "hour", "day", "week", "month")

LONGEST_BASE_MS = 32_767
"""The largest base that the column backoff_base_ms holds. A task with a longer one has its delays computed by its worker."""

_LONGEST_WAIT = timedelta(days=36_525)


class Options(TypedDict, total=False):
    """What `Task.using()` can change and `@task(...)` can set. See `Task` for what each means."""

    queue_name: str | None
    priority: int
    run_after: datetime | timedelta | None
    tenant: str | None
    destination: str | None
    limit_key: str | None
    dedup: str | None
    unique: str | Iterable[str] | None
    unique_for: str | None
    on_conflict: str
    max_attempts: int
    max_interruptions: int
    max_deferrals: int
    expire_seconds: int
    backoff_base: float | timedelta
    backoff_max: float | timedelta
    dead_letter_queue: str | None
    meta: dict[str, Any]
    using: str | None
    batch: Any
    depends_on: Iterable[Any]
    on_discard: str


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` with each value checked and brought into its stored form, such as timedeltas as seconds.

    Raises InvalidOption, which names the option, for an unknown one and for a value out of range.

    Example: `checked({"timeout": timedelta(minutes=1)}) == {"timeout": 60.0}`
    """
    out = {}
    for name, value in given.items():
        check = _CHECKS.get(name)
        if check is None:
            close = get_close_matches(name, _CHECKS, n=1)
            raise InvalidOption(f"A task has no option {name!r}: " + (f"did you mean {close[0]!r}?" if close else "remove it."))
        try:
            out[name] = check(value)
        except ValueError as exc:
            raise InvalidOption(f"{name} {exc}.") from None
    return out


Check = Callable[[Any], Any]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be text, not {type(value).__name__}")
    if not 1 <= len(value) <= 255:
        raise ValueError(f"must have 1 to 255 characters, not {len(value)}")
    if safe_text(value, 255) != value:
        raise ValueError("must not contain NUL characters or lone surrogates")
    return value


def _scope(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be text, not {type(value).__name__}")
    if not value or len(value) > 10_000 or safe_text(value, 10_000) != value:
        raise ValueError("must have 1 to 10000 characters, none of them NUL or a lone surrogate")
    return value


def _whole(low: int, high: int) -> Check:
    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"must be a whole number from {low} to {high}, not {type(value).__name__}")
        if not low <= value <= high:
            raise ValueError(f"must be from {low} to {high}, not {value}")
        return int(value)

    return check


def _seconds(low: float, high: float) -> Check:
    def check(value: Any) -> float:
        if isinstance(value, timedelta):
            value = value.total_seconds()
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ValueError(f"must be a timedelta or a number of seconds, not {type(value).__name__}")
        if not low <= value <= high:
            raise ValueError(f"must be from {low:g} to {high:.10g} seconds, not {value}")
        return float(value)

    return check


def _whole_seconds(value: Any) -> int:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, float) and seconds.is_integer():
        seconds = int(seconds)
    return _whole(1, 2_147_483_647)(seconds)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be True or False")
    return value


def _optional(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _run_after(value: Any) -> datetime | timedelta:
    if isinstance(value, timedelta):
        if not timedelta(0) <= value <= _LONGEST_WAIT:
            raise ValueError("must be from now to 100 years from now")
        return value
    if not isinstance(value, datetime):
        raise ValueError(f"must be a datetime or a timedelta, not {type(value).__name__}")
    if django_settings.USE_TZ and value.utcoffset() is None:
        raise ValueError("must have a time zone while USE_TZ is True: use django.utils.timezone.now() and the like")
    return value


def _one_of(*words: str) -> Check:
    choice = f"one of {', '.join(words)}" if len(words) > 2 else " or ".join(map(repr, words))

    def check(value: Any) -> str:
        if value not in words:
            raise ValueError(f"must be {choice}")
        return str(value)

    return check


def _unique(value: Any) -> str | tuple[str, ...]:
    if isinstance(value, str):
        if value not in ("args", "task"):
            raise ValueError("must be 'args', 'task' or a list of argument names")
        return value
    names = tuple(value) if isinstance(value, Iterable) else ()
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError("must be 'args', 'task' or a list of argument names")
    return tuple(sorted(set(names)))


def _meta(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"must be a dict, not {type(value).__name__}")
    return dict(value)


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError("must be a list of names")
    return tuple(_text(each) for each in value)


def _batch(value: Any) -> UUID:
    value = getattr(value, "id", value)
    if not isinstance(value, UUID):
        raise ValueError(f"must be an open Batch or the id of one, not {type(value).__name__}")
    return value


def _depends_on(value: Any) -> tuple[tuple[str, UUID], ...]:
    jobs = value if isinstance(value, list | tuple) and not hasattr(value, "queue") else (value,)
    for each in jobs:
        if not isinstance(getattr(each, "queue", None), str) or not isinstance(getattr(each, "id", None), UUID):
            raise ValueError(f"must be a list of enqueued jobs, not of {type(each).__name__}")
    return tuple(dict.fromkeys((each.queue, each.id) for each in jobs))


def _exceptions(value: Any) -> tuple[type[BaseException], ...]:
    classes = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not all(isinstance(each, type) and issubclass(each, BaseException) for each in classes):
        raise ValueError("must be an exception class or a tuple of them")
    return classes


def _callable(value: Any) -> Any:
    if not callable(value) or iscoroutinefunction(value):
        raise ValueError("must be a plain function of (attempt, exception)")
    return value


_CHECKS: dict[str, Check] = {
    "name": _text,
    "aliases": _names,
    "takes_context": _flag,
    "queue_name": _optional(_text),
    "priority": _whole(-32_768, 32_767),
    "run_after": _optional(_run_after),
    "tenant": _optional(_text),
    "destination": _optional(_text),
    "limit_key": _optional(_text),
    "dedup": _optional(_scope),
    "unique": _optional(_unique),
    "unique_for": _optional(_one_of(*PERIODS)),
    "on_conflict": _one_of("keep", "replace"),
    "max_attempts": _whole(1, 32_767),
    "max_interruptions": _whole(0, 32_767),
    "max_deferrals": _whole(0, 32_767),
    "expire_seconds": _whole_seconds,
    "timeout": _optional(_seconds(0.001, 10 * 365 * 86_400)),
    "isolation": _one_of("thread", "process"),
    "transactional": _flag,
    "retry_on": _optional(_exceptions),
    "discard_on": _exceptions,
    "backoff": _optional(_callable),
    "breaker": checked_rule,
    "backoff_base": _seconds(0.001, 2_147_483),
    "backoff_max": _seconds(0.001, 2_147_483),
    "dead_letter_queue": _optional(_text),
    "meta": _meta,
    "using": _optional(_text),
    "batch": _optional(_batch),
    "depends_on": _depends_on,
    "on_discard": _one_of("fail", "run"),
    "store_result": _flag,
    "result_ttl": _seconds(1, 10 * 365 * 86_400),
}

OF_ONE_JOB = ("batch", "depends_on", "on_discard")
"""Options that only using() takes, as they belong to jobs and not to a function."""

OF_THE_FUNCTION = (
    *("name", "aliases", "takes_context", "timeout", "isolation", "transactional", "breaker"),
    *("retry_on", "discard_on", "backoff", "store_result", "result_ttl"),
)
"""Options that only @task takes, as they belong to the function and not to jobs."""
