"""What a schedule's times are to people: its next ones in its own zone, marked where the clocks change, and its last runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

from django.utils.translation import gettext

from django_stampeded.insights.alias import chosen
from django_stampeded.models import CronOccurrence, Job
from django_stampeded.timing import Timing

SHOWN = 10
NO_JOB = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Upcoming:
    """One time that a schedule will run at.

    Args:
        at: in the schedule's zone.
        mark: what is to be known about the clocks then; empty where nothing is.
    """

    at: datetime
    mark: str = ""

    @property
    def text(self) -> str:
        """The time with its offset, such as 2026-10-25 02:30:00+02:00."""
        return self.at.isoformat(sep=" ", timespec="seconds")


@dataclass(frozen=True, slots=True)
class LastRun:
    """One occurrence that has fired or was skipped.

    Args:
        at: when it was dealt with.
        planned_at: when it was due, where that is known.
        job_id: its job; None where it was skipped.
        state: that job's state; empty where it is gone or was none.
        skipped: why there is no job.
    """

    at: datetime
    planned_at: datetime | None
    job_id: UUID | None
    state: str
    skipped: str


def upcoming(when: Timing, now: datetime, planned: datetime | None = None) -> list[Upcoming]:
    """The next SHOWN times, in the schedule's zone. Raises InvalidSchedule where the timing isn't a good one.

    Args:
        when: the timing.
        now: the time of asking.
        planned: a stored schedule's own next run.

    Example:
        >>> [time.mark for time in upcoming(timing("30 2 * * *", timezone="Europe/Paris"), now)][:1]
        ['']
    """
    zone = when.zone
    marked: list[Upcoming] = []
    before = now.astimezone(zone)
    for moment in when.upcoming(SHOWN, now, planned):
        local = moment.astimezone(zone)
        marked.append(Upcoming(local, _mark(before, local, zone)))
        before = local
    return marked


def _mark(before: datetime, local: datetime, zone: ZoneInfo) -> str:
    """Says that the clocks change between two times, or that the second one's hour comes twice."""
    notes = []
    was, now = before.utcoffset() or timedelta(0), local.utcoffset() or timedelta(0)
    if was != now:
        notes.append(gettext("the clocks have changed from %(was)s to %(now)s") % {"was": _offset(was), "now": _offset(now)})
    naive = local.replace(tzinfo=None)
    if naive.replace(tzinfo=zone, fold=0).utcoffset() != naive.replace(tzinfo=zone, fold=1).utcoffset():
        which = gettext("the second time") if local.fold else gettext("the first time")
        notes.append(gettext("this hour comes twice: %(which)s") % {"which": which})
    return "; ".join(notes)


def _offset(offset: timedelta) -> str:
    minutes = round(offset.total_seconds() / 60)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def last_runs(key: str, using: str | None = None) -> list[LastRun]:
    """The latest SHOWN occurrences of a schedule, the newest first, in two statements."""
    alias = chosen(using)
    rows: Sequence[CronOccurrence] = list(
        # By the time and not by the key alone: the ledger has an index on it, and of one schedule none in this order.
        CronOccurrence.objects.using(alias).filter(cron_key=key).order_by("-enqueued_at", "-id")[:SHOWN]
    )
    ids = [row.job_id for row in rows if row.job_id]
    states = dict(Job.objects.using(alias).filter(pk__in=ids).values_list("id", "state")) if ids else {}
    return [
        LastRun(row.enqueued_at, row.planned_at, row.job_id, states.get(row.job_id or NO_JOB, ""), row.skipped or "")
        for row in rows
    ]
