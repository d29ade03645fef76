"""Declared schedules: those that the code has, and how they get into the table without undoing what an operator did there.

Owns what is declared (`@task(cron=...)`, `@task(every=...)` and the setting SCHEDULES) and `sync`, which brings it into the
table after `migrate` and, as a maintenance service, again and again. Firing is the scheduler's.

A row remembers what the code last declared. Where the code now says something else, the row follows; where the row itself
differs from what was declared, somebody edited it, and it stays. The timing counts as one thing, each other column by
itself; a pause is never touched. What no process has declared for a while is paused, not deleted: its occurrences are on
record, and it goes on when it is declared again. Only a process that has the code's package may judge that, one whose
modules have all been imported, and only after a lease that is longer than a deploy: two projects in one database, or old
and new processes side by side, must not pause each other's schedules.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections
from django.db.models.signals import post_migrate

from django_stampeded import registry, schedule_functions, zones
from django_stampeded.conf import settings
from django_stampeded.exceptions import InvalidSchedule, StampededError
from django_stampeded.schedule_functions import COLUMNS, TIMING, Stored
from django_stampeded.tasks import Task, task_by_name
from django_stampeded.timing import TIMETABLE_OPTIONS, Timetable, Timing, timetable

if TYPE_CHECKING:
    from django.apps import AppConfig

logger = logging.getLogger("django_stampeded.scheduling")

REFRESH = timedelta(minutes=1)
"""How often a declaration that stands is noted anew."""

LEASE = timedelta(minutes=15)
"""How long a schedule that nobody declares any more goes on."""

NOT_DECLARED = "it is no longer declared in the code"

_GROUPS = (TIMING, *((name,) for name in COLUMNS if name not in TIMING))


@dataclass(frozen=True, slots=True)
class Declaration:
    """A schedule that the code has: its key, when it runs, and the columns of its row with the module that declares it."""

    key: str
    timing: Timing
    declared: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a declared schedule can't be used, as a sentence."""

    key: str
    message: str


def declarations() -> tuple[list[Declaration], list[Problem]]:
    """The schedules that the code declares, by key, and what is wrong with the others."""
    good: dict[str, Declaration] = {}
    bad: list[Problem] = []
    for key, make in _declared():
        try:
            if key in good:
                raise InvalidSchedule("It is declared twice, by its task and in STAMPEDED['SCHEDULES']: drop one of the two.")
            good[key] = make()
        except StampededError as exc:
            bad.append(Problem(key, f"Schedule {key!r}: {exc}"))
    return sorted(good.values(), key=lambda each: each.key), bad


def _declared() -> Iterator[tuple[str, Callable[[], Declaration]]]:
    for task in registry.every():
        if task.timetable is not None:
            yield task.name, partial(_of_task, task, task.timetable)
    for key, given in settings.SCHEDULES:
        yield key, partial(_of_setting, key, given)


def _of_task(task: Task[Any, Any], when: Timetable) -> Declaration:
    return _declaration(task.name, task, when, {}, getattr(task.func, "__module__", ""))


def _of_setting(key: str, given: Mapping[str, Any]) -> Declaration:
    rest = dict(given)
    name = rest.pop("task", None)
    if not isinstance(name, str):
        raise InvalidSchedule("It names no task: give it one as 'task', such as 'shop.tasks.tidy_up'.")
    args = rest.pop("args", {})
    when = timetable(**{option: rest.pop(option) for option in TIMETABLE_OPTIONS & rest.keys()})
    return _declaration(key, task_by_name(name).using(**rest), when, args, settings_module())


def _declaration(key: str, task: Task[Any, Any], when: Timetable, args: Any, module: str) -> Declaration:
    _ = when.timing.zone
    if task.run_after is not None:
        raise InvalidSchedule("It has a run_after, and the schedule says when: remove it, or give a jitter.")
    job = task.columns_of_job(args)
    columns = {
        "queue": job.pop("queue"),
        "task": job.pop("task"),
        "args": json.loads(job.pop("args")),
        "meta": json.loads(job.pop("meta")),
        "tenant_id": job.pop("tenant_id", None),
        "priority": job.pop("priority", 0),
        "missed_policy": when.missed_policy,
        "overlap_policy": when.overlap_policy,
        "jitter_secs": when.jitter_secs,
        **{name: getattr(when.timing, name) for name in TIMING},
        "options": job,
    }
    return Declaration(key, when.timing, {**columns, "module": module})


def settings_module() -> str:
    """The module that the settings are from: what declares the schedules in STAMPEDED."""
    return str(getattr(django_settings, "SETTINGS_MODULE", None) or "settings")


def edited(row: Mapping[str, Any], last: Mapping[str, Any] | None, declared: Mapping[str, Any]) -> dict[str, Any]:
    """The columns to change in a row, given what the code last declared and declares now. Pure.

    Example: `edited({..., "priority": 0}, {..., "priority": 0}, {..., "priority": 5}) == {"priority": 5}`
    """
    changes: dict[str, Any] = {}
    if last is None:  # made by an operator under the same key, and theirs
        return changes
    for group in _GROUPS:
        has, had, wanted = ({name: each.get(name) for name in group} for each in (row, last, declared))
        if has == had and has != wanted:
            changes |= wanted
    return changes


@dataclass(slots=True)
class Synced:
    """What a sync did, by key, and which declared schedules it could not use."""

    created: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    resumed: list[str] = field(default_factory=list)
    paused: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def done(self) -> int:
        """How many rows it changed."""
        return len({*self.created, *self.changed, *self.resumed, *self.paused})


def sync(cur: Any) -> Synced:
    """Bring the declared schedules into the table. Any number of processes may do so at once.

    `cur` is a cursor of any driver, in autocommit or not. Raises the driver's errors.

    Example: `sync(connection.cursor()).created`
    """
    found, problems = declarations()
    report, now = Synced(problems=problems), schedule_functions.now(cur)
    rows = schedule_functions.stored(cur, [each.key for each in found], REFRESH)
    news = [each for each in found if each.key not in rows or rows[each.key].declared != each.declared]
    refused = unknown_zones(cur, news)
    report.problems += refused
    for each in found:
        old = each not in news and rows[each.key].declared_lately
        if not old and each.key not in {problem.key for problem in refused}:
            with cur.connection.transaction():
                _sync_one(cur, each, report, now)
    if not registry.broken:
        kept = [each.key for each in found] + [each.key for each in report.problems]
        report.paused = schedule_functions.undeclare(cur, kept, _packages(), LEASE, NOT_DECLARED)
    _tell(report)
    return report


def unknown_zones(cur: Any, found: Iterable[Declaration]) -> list[Problem]:
    """Those of these whose time zone the database server lacks."""
    zoned = [each for each in found if each.timing.cron_expr]
    problems = zones.unknown_to_server(cur, {each.timing.timezone for each in zoned})
    return [
        Problem(each.key, f"Schedule {each.key!r}: {problems[each.timing.timezone]}")
        for each in zoned
        if each.timing.timezone in problems
    ]


def _sync_one(cur: Any, each: Declaration, report: Synced, now: datetime) -> None:
    row = schedule_functions.stored(cur, [each.key], REFRESH, lock=True).get(each.key)
    if row is None:
        first = each.timing.next_after(now, now)
        if first is None or not schedule_functions.insert(cur, each.key, each.declared, first):
            return  # another process was faster; the next round looks again
        report.created.append(each.key)
        return
    changes = edited(row.columns, row.declared, each.declared)
    resume = _resumes(row, changes)
    schedule_functions.redeclare(cur, each.key, each.declared, changes, resume=resume)
    if changes:
        report.changed.append(each.key)
    if resume:
        report.resumed.append(each.key)


def _resumes(row: Stored, changes: Mapping[str, Any]) -> bool:
    """Whether what a schedule was paused for is over: it is declared again, or mended. An operator's pause has no reason."""
    return row.set_aside_reason == NOT_DECLARED or (row.set_aside_reason is not None and bool(changes))


def _packages() -> set[str]:
    """The packages whose code this process has, so that it knows what they declare."""
    modules = [config.name for config in apps.get_app_configs()] + [settings_module()]
    return {module.partition(".")[0] for module in modules}


def _tell(report: Synced) -> None:
    for what in ("created", "changed", "resumed"):
        if keys := getattr(report, what):
            logger.info("Declared schedules %s: %s.", what, ", ".join(keys))
    for key in report.paused:
        logger.warning("Schedule %s is paused, as %s: delete it, or declare it again.", key, NOT_DECLARED)


def _after_migrate(sender: AppConfig, using: str, **_: object) -> None:
    try:
        if using != settings.DATABASE or connections[using].vendor != "postgresql":
            return
    except ImproperlyConfigured:  # the checks say so
        return
    try:
        with connections[using].cursor() as cursor:
            cursor.execute("SELECT to_regprocedure('stampeded_fire_schedule(text, timestamptz)') IS NOT NULL")
            if cursor.fetchone()[0]:
                for problem in sync(cursor).problems:
                    logger.error("%s It was left out.", problem.message)
    except DatabaseError as exc:
        logger.error("The declared schedules were not written (%s): the next maintenance process does it.", str(exc).strip())


def connect(config: AppConfig) -> None:
    """Has `migrate` bring the declared schedules into the table. Called once, by the app's ready()."""
    post_migrate.connect(_after_migrate, sender=config, dispatch_uid="stampeded.schedules")
