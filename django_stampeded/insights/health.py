"""Is the queue healthy? `gather` reads a few bounded figures, `assess` turns them into findings and is pure.

A finding of level ``trouble`` makes a probe fail; ``note`` is for people. What to do stands in each sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import F, Max
from django.db.models.functions import Now
from django.utils.translation import gettext

from django_stampeded.insights.alias import chosen
from django_stampeded.insights.durations import in_words
from django_stampeded.insights.queues import QueueStatus, queues
from django_stampeded.insights.workers import WorkerStatus, workers
from django_stampeded.models import Schedule

TROUBLE = "trouble"
NOTE = "note"
LONGEST_WAIT = timedelta(minutes=5)
SCHEDULE_LATE = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing worth saying.

    Args:
        level: ``trouble`` or ``note``.
        code: a stable word for programs.
        text: one sentence for people, in the active language.
    """

    level: str
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Figures:
    """What `assess` judges.

    Args:
        queues: every queue.
        workers: every registered worker.
        latest_schedule: how late the latest unpaused schedule is; None when none is late.
    """

    queues: Sequence[QueueStatus]
    workers: Sequence[WorkerStatus]
    latest_schedule: timedelta | None = None


def health(longest_wait: timedelta = LONGEST_WAIT, using: str | None = None) -> list[Finding]:
    """What is wrong, and what is worth knowing; an empty list when all is well.

    Args:
        longest_wait: a due job older than this is trouble.
        using: database alias; the setting DATABASE when None.

    Raises:
        django.db.Error: the database can't be reached.

    Example:
        >>> any(finding.level == "trouble" for finding in health())
        False
    """
    return assess(gather(using), longest_wait)


def gather(using: str | None = None) -> Figures:
    """The figures, in a fixed number of statements."""
    alias = chosen(using)
    late = Schedule.objects.using(alias).filter(paused=False, next_run_at__lt=Now())
    latest = late.aggregate(latest=Max(Now() - F("next_run_at")))["latest"]
    return Figures(queues(alias), workers(alias), latest)


def assess(figures: Figures, longest_wait: timedelta = LONGEST_WAIT) -> list[Finding]:
    """The findings for these figures, trouble first."""
    found = [finding for queue in figures.queues for finding in _queue(queue, longest_wait)]
    found += [finding for worker in figures.workers for finding in _worker(worker)]
    late = figures.latest_schedule
    if late is not None and late > SCHEDULE_LATE:
        text = gettext("Schedules are late by %(age)s; check that a maintenance process runs.")
        found.append(Finding(TROUBLE, "schedules_late", text % {"age": in_words(late)}))
    return sorted(found, key=lambda finding: finding.level != TROUBLE)


def _queue(queue: QueueStatus, longest_wait: timedelta) -> list[Finding]:
    if queue.paused:
        text = gettext("Queue “%(queue)s” is paused; %(count)d of its jobs wait.")
        return [Finding(NOTE, "paused", text % {"queue": queue.queue, "count": queue.waiting})]
    if queue.oldest_age is None:
        return []
    words = {"queue": queue.queue, "age": in_words(queue.oldest_age)}
    if not queue.live_workers:
        text = gettext("Queue “%(queue)s” has due jobs and no live worker; start one with “manage.py runstampeded”.")
        return [Finding(TROUBLE, "no_worker", text % words)]
    if queue.oldest_age > longest_wait:
        text = gettext("Queue “%(queue)s” is behind: its oldest due job has waited %(age)s; add workers or threads.")
        return [Finding(TROUBLE, "behind", text % words)]
    return []


def _worker(worker: WorkerStatus) -> list[Finding]:
    words = {"worker": f"{worker.hostname}:{worker.pid}", "count": len(worker.running)}
    if worker.alive and worker.trouble:
        text = gettext("The processes of supervisor %(worker)s keep dying; look at its log and at the latest failures.")
        return [Finding(TROUBLE, "children_keep_dying", text % words)]
    if worker.alive:
        text = gettext("Worker %(worker)s is polling only: notifications do not reach it, so jobs start a little later.")
        return [Finding(NOTE, "polling_only", text % words)] if worker.notifications == "polling only" else []
    if worker.running:
        text = gettext("Worker %(worker)s is silent and holds %(count)d jobs; maintenance takes them back if it runs.")
        return [Finding(TROUBLE, "silent_worker", text % words)]
    text = gettext("Worker %(worker)s has stopped without signing off.")
    return [Finding(NOTE, "stopped_worker", text % words)]
