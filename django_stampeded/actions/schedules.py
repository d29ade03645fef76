"""What an operator may do to schedules: make, change, pause, resume, run now, delete. Each leaves one audit row.

Whether a timing makes sense is checked by whoever asks for it (timing.py); arguments never go into the audit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from django.db import connections

from django_stampeded import schedule_functions
from django_stampeded.actions.audit import Actor, recorded
from django_stampeded.conf import settings
from django_stampeded.models import Schedule


def save_schedule(key: str, columns: Mapping[str, Any], *, actor: Actor, new: bool = False, using: str | None = None) -> bool:
    """Make a schedule, or write some columns of one.

    Args:
        key: the schedule's key.
        columns: what to write; columns that are left out stay as they are.
        actor: who does it.
        new: make it; otherwise it has to be there.
        using: database alias; the setting DATABASE when None.

    Returns:
        False if it was to be there and is gone; nothing has changed then.

    Raises:
        django.db.IntegrityError: it was to be new and is there already, or a value is refused.
    """
    alias = using or settings.DATABASE
    schedules = Schedule.objects.using(alias)

    def write() -> bool:
        if new:
            schedules.create(key=key, **columns)
            return True
        return bool(schedules.filter(pk=key).update(**columns))

    return _on_schedule("make_schedule" if new else "change_schedule", key, write, actor, alias, columns=sorted(columns))


def delete_schedule(key: str, *, actor: Actor, using: str | None = None) -> bool:
    """Delete a schedule and its ledger; False if there is none. Jobs that it has enqueued stay."""
    alias = using or settings.DATABASE

    def write() -> bool:
        return bool(Schedule.objects.using(alias).filter(pk=key).delete()[0])

    return _on_schedule("delete_schedule", key, write, actor, alias)


def pause_schedule(key: str, paused: bool, *, actor: Actor, using: str | None = None) -> bool:
    """Pause a schedule, or resume it when `paused` is False; False if there is no such schedule."""
    alias = using or settings.DATABASE

    def write() -> bool:
        return bool(Schedule.objects.using(alias).filter(pk=key).update(paused=paused))

    return _on_schedule("pause_schedule" if paused else "resume_schedule", key, write, actor, alias)


def run_schedule(key: str, *, actor: Actor, using: str | None = None) -> UUID | None:
    """Enqueue a job of a schedule now, beside its occurrences, paused or not.

    Returns:
        The job's id; None if there is no such schedule, or another job holds its dedup scope.
    """
    alias = using or settings.DATABASE
    enqueued: list[UUID] = []

    def write() -> bool:
        with connections[alias].cursor() as cursor:
            job = schedule_functions.run_now(cursor, key)
        enqueued.extend([job] if job else [])
        return bool(enqueued)

    _on_schedule("run_schedule", key, write, actor, alias)
    return enqueued[0] if enqueued else None


class _NoSuchSchedule(Exception):
    """Rolls the audit row back."""


def _on_schedule(action: str, key: str, write: Callable[[], bool], actor: Actor, alias: str, **detail: Any) -> bool:
    try:
        with recorded(action, actor, alias, schedule=key, **detail):
            if not write():
                raise _NoSuchSchedule
    except _NoSuchSchedule:
        return False
    return True
