"""The settings of the package: the one dict STAMPEDED in Django's settings, its defaults and their ranges.

`settings.NAME` reads one: checked at its first reading, remembered until a setting changes (override_settings
works).
Reporting bad or unknown settings before anything runs is left to checks.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, cast

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from django_stampeded.breaking import checked_rule
from django_stampeded.columns import is_name

DICT_NAME = "STAMPEDED"

Check = Callable[[Any], Any]


def _text(value: Any) -> str:
    if not is_name(value):
        raise ValueError("must be a text of 1 to 255 characters")
    return value


def _optional_text(value: Any) -> str | None:
    return None if value is None else _text(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be True or False")
    return value


def _whole(low: int, high: int) -> Check:
    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return value

    return check


def _seconds(low: float, high: float) -> Check:
    def check(value: Any) -> float:
        if isinstance(value, timedelta):
            value = value.total_seconds()
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not low <= value <= high:
            raise ValueError(f"must be a timedelta or a number of seconds, from {low:g} to {high:g} seconds")
        return float(value)

    return check


def _optional_seconds(low: float, high: float) -> Check:
    seconds = _seconds(low, high)
    return lambda value: None if value is None else seconds(value)


def _patterns(value: Any) -> tuple[re.Pattern[str], ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError("must be a list of regular expressions")
    try:
        return tuple(each if isinstance(each, re.Pattern) else re.compile(each, re.IGNORECASE) for each in value)
    except (re.error, TypeError) as exc:
        raise ValueError(f"must be a list of regular expressions ({exc})") from exc


def _schedules(value: Any) -> tuple[tuple[str, dict[str, Any]], ...]:
    pairs = tuple(value.items()) if isinstance(value, dict) else value
    if not isinstance(pairs, tuple):
        raise ValueError("must be a dict of schedules by their keys")
    for key, schedule in pairs:
        _text(key)
        if not isinstance(schedule, dict):
            raise ValueError(f"must have a dict for the schedule {key!r}, not {type(schedule).__name__}")
    return pairs


def _breaker(value: Any) -> dict[str, Any] | bool:
    return False if value is None else checked_rule(value)


def _setting(default: Any, check: Check, doc: str) -> Any:
    return field(default=check(default), metadata={"check": check, "doc": doc})


_DAY = 86_400
_YEAR = 365 * _DAY


@dataclass(frozen=True)
class Settings:
    """Each setting and its default. Durations are set as seconds or a timedelta and read as float seconds."""

    DATABASE: str = _setting(
        "default",
        _text,
        "Alias of the database that the worker, maintenance, the admin and the command line use. "
        "Enqueueing asks the database routers instead, unless told with using=.",
    )
    DEFAULT_QUEUE: str = _setting("default", _text, "Queue of a task that names none.")
    BULK_QUEUE: str | None = _setting(
        None, _optional_text, "Queue of the jobs that do bulk operations of the admin. None: DEFAULT_QUEUE."
    )
    THREADS: int = _setting(8, _whole(1, 1000), "Jobs that one worker process runs at a time.")
    PROCESSES: int = _setting(
        1, _whole(0, 1000), "Worker processes under one supervisor; 0 for none, everything in the process that is started."
    )
    TIMEOUT: float | None = _setting(
        None, _optional_seconds(0.001, 10 * _YEAR), "Seconds that a run of a task without a timeout of its own may take."
    )
    POLL_INTERVAL: float = _setting(
        1.0, _seconds(0.01, 3600), "Seconds between two looks for due jobs while nothing wakes the worker."
    )
    GRACE_PERIOD: float = _setting(
        30, _seconds(0, _DAY), "Seconds that running jobs get to end after SIGTERM; then they are released."
    )
    HEARTBEAT_INTERVAL: float = _setting(5, _seconds(0.1, 3600), "Seconds between two heartbeats of a worker.")
    DEAD_AFTER: float = _setting(
        300, _seconds(1, _DAY), "Seconds without a heartbeat after which a worker's jobs are taken back."
    )
    COMPLETED_RETENTION: float = _setting(timedelta(days=14), _seconds(0, 100 * _YEAR), "Seconds that completed jobs are kept.")
    DISCARDED_RETENTION: float = _setting(
        timedelta(days=7), _seconds(0, 100 * _YEAR), "Seconds that discarded and cancelled jobs are kept."
    )
    NODE_NAME: str | None = _setting(
        None, _optional_text, "Name of this machine on record with its workers. None: the host's name."
    )
    LISTEN: bool = _setting(True, _flag, "Whether workers LISTEN for new jobs; without it they only poll.")
    LISTEN_DATABASE: str | None = _setting(
        None,
        _optional_text,
        "Alias of a direct connection to the same database for LISTEN alone, where DATABASE goes through a pooler.",
    )
    INLINE_WORKER: bool = _setting(False, _flag, "Whether runserver, with DEBUG on, also runs a worker and maintenance.")
    REDACT: tuple[re.Pattern[str], ...] = _setting(
        ("passw", "secret", "token", "api_?key", "credential", "authorization", "cookie", "private_?key"),
        _patterns,
        "Regular expressions, case ignored; an argument whose name one of them finds is never shown.",
    )
    BREAKER: dict[str, Any] | bool = _setting(
        True,
        _breaker,
        "Circuit breakers of destinations: a dict of what is to differ from the defaults (failures, period, share, wait, "
        "longest_wait, probes, successes), or False for none but where a task asks for one.",
    )
    SCHEDULES: tuple[tuple[str, dict[str, Any]], ...] = _setting(
        {}, _schedules, "Schedules by their keys: a task's name, cron or every, and options. Read as pairs."
    )


FIELDS = {each.name: each for each in fields(Settings)}


class _Lazy:
    """Reads each setting when it is first asked for; afterwards it is a plain attribute of this object."""

    def __getattr__(self, name: str) -> Any:
        if name not in FIELDS:
            raise AttributeError(f"{DICT_NAME} has no setting {name}{_suggestion(name)}.")
        try:
            value = _read(name)
        except ValueError as exc:
            raise ImproperlyConfigured(f"{DICT_NAME}[{name!r}] {exc}: correct it in your settings.") from exc
        self.__dict__[name] = value
        return value


def _given() -> dict[str, Any]:
    given = getattr(django_settings, DICT_NAME, {})
    return given if isinstance(given, dict) else {}


def _read(name: str) -> Any:
    given = _given()
    return FIELDS[name].metadata["check"](given[name]) if name in given else FIELDS[name].default


def _suggestion(name: object) -> str:
    close = get_close_matches(str(name).upper(), FIELDS, n=1)
    return f": did you mean {close[0]}?" if close else ""


def problems() -> list[str]:
    """What is wrong with the STAMPEDED dict, a sentence for each unknown or invalid setting."""
    given = getattr(django_settings, DICT_NAME, {})
    if not isinstance(given, dict):
        return [f"{DICT_NAME} must be a dict, not {type(given).__name__}."]
    found = []
    for name in given:
        if name not in FIELDS:
            found.append(f"{DICT_NAME}[{name!r}] is not a setting{_suggestion(name) or '.'}")
            continue
        try:
            _read(name)
        except ValueError as exc:
            found.append(f"{DICT_NAME}[{name!r}] {exc}.")
    return found


_lazy = _Lazy()
settings = cast(Settings, _lazy)
"""The settings in force. Raises ImproperlyConfigured when the one that is read is invalid.

Example: `settings.THREADS`
"""


def _forget(*, setting: str, **_: object) -> None:
    if setting == DICT_NAME:
        _lazy.__dict__.clear()


setting_changed.connect(_forget, dispatch_uid="django_stampeded.conf")
