"""When a schedule runs: its timing as declared or stored, its next occurrences, and what is to be done with one that is due.

Pure: every function is told the time. What an expression means is in cron.py, writing a decision down is the scheduler's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from django_stampeded import cron, zones
from django_stampeded.exceptions import InvalidSchedule

LONGEST_INTERVAL = 100 * 365 * 86_400
"""Seconds."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

LATE_AFTER = timedelta(seconds=60)
"""What is fired later than this counts as missed."""


@dataclass(frozen=True, slots=True)
class Timing:
    """When something runs: by a cron expression in a time zone, or every so many seconds.

    Make one with `timing`, which checks the values, or `stored` for a row's.
    """

    cron_expr: str | None
    interval_secs: int | None
    timezone: str
    dst_policy: str

    def occurrences(self, after: datetime) -> Iterator[datetime]:
        """The instants, in UTC, at which it runs after one. An interval counts from `after`.

        Raises InvalidSchedule where the expression or the time zone isn't a good one.
        """
        if self.cron_expr is not None:
            yield from cron.occurrences(cron.parse(self.cron_expr), self.zone, self.dst_policy, after)
            return
        step = self._step()
        moment = _plus(after.astimezone(UTC), step)
        while moment is not None:
            yield moment
            moment = _plus(moment, step)

    def next_after(self, planned: datetime, now: datetime) -> datetime | None:
        """The first occurrence later than both, None where there is none. An interval stays on the grid of `planned`."""
        if self.cron_expr is not None:
            return next(self.occurrences(max(planned, now)), None)
        step = self._step()
        return _plus(planned.astimezone(UTC), step * (max(now - planned, timedelta(0)) // step + 1))

    def upcoming(self, number: int, after: datetime, planned: datetime | None = None) -> list[datetime]:
        """The next occurrences, in UTC, at most `number`: what a screen shows. `planned` is a row's own next run.

        Example: `timing("0 3 * * *", timezone="Asia/Tokyo").upcoming(10, now)`
        """
        first = [planned.astimezone(UTC)] if planned is not None else []
        return [*first, *islice(self.occurrences(max([after, *first])), max(0, number - len(first)))][:number]

    def token(self, planned: datetime) -> str:
        """What the occurrence planned for then is known by: a wall-clock expression's local minute, or the epoch's seconds."""
        if self.cron_expr is not None and self.dst_policy == cron.WALL_CLOCK:
            return planned.astimezone(self.zone).strftime("%Y-%m-%d %H:%M")
        return str((planned - _EPOCH) // timedelta(seconds=1))

    @property
    def zone(self) -> ZoneInfo:
        """Its time zone. Raises InvalidSchedule where there is none of that name."""
        return zones.zone(self.timezone)

    def _step(self) -> timedelta:
        if self.interval_secs is None or not 1 <= self.interval_secs <= LONGEST_INTERVAL:
            raise InvalidSchedule(
                f"An interval of {self.interval_secs} s is no usable one: give whole seconds, 1 to {LONGEST_INTERVAL}."
            )
        return timedelta(seconds=self.interval_secs)


def timing(cron_expr: object = None, every: object = None, timezone: object = "UTC", dst_policy: object = None) -> Timing:
    """The timing that these values mean, brought into its stored form.

    cron_expr: an expression. every: an interval as a timedelta or seconds, whole, 1 second to 100 years; exactly one of the
    two. timezone: an IANA name; whether there is one of that name is only seen when it is used (`zone`), so that a module
    imports where the time zone data are older. dst_policy: `instant` or `wall_clock`; None or "": the expression decides.
    Raises InvalidSchedule.

    Example: `timing("0 3 * * *", timezone="Africa/Casablanca")`
    """
    if (cron_expr is None) == (every is None):
        raise InvalidSchedule("A schedule has either a cron expression or an interval: give exactly one of them.")
    if dst_policy and dst_policy not in (cron.INSTANT, cron.WALL_CLOCK):
        raise InvalidSchedule(f"dst_policy must be {cron.INSTANT!r} or {cron.WALL_CLOCK!r}, not {zones.shown(dst_policy)}.")
    if not isinstance(timezone, str):
        raise InvalidSchedule(f"A time zone is given by its name, such as 'Europe/Paris', not as {type(timezone).__name__}.")
    if cron_expr is None:
        return Timing(None, _whole_seconds(every), timezone, str(dst_policy or cron.INSTANT))
    expression = cron.parse(cron_expr)
    return Timing(expression.text, None, timezone, str(dst_policy or expression.default_policy))


def _whole_seconds(every: Any) -> int:
    seconds = every.total_seconds() if isinstance(every, timedelta) else every
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or seconds != seconds // 1 or not 1 <= seconds <= LONGEST_INTERVAL:
        raise InvalidSchedule(
            f"An interval is a timedelta or a number of seconds, whole, from 1 second to 100 years, not {zones.shown(every)}."
        )
    return int(seconds)


def _plus(moment: datetime, step: timedelta) -> datetime | None:
    try:
        return moment + step
    except OverflowError:  # the year 10000
        return None


MISSED = ("once", "skip")
OVERLAP = ("allow", "skip")
LONGEST_JITTER = 30 * 86_400
"""Seconds."""

TIMETABLE_OPTIONS = frozenset(("cron", "every", "timezone", "dst_policy", "missed_policy", "overlap_policy", "jitter"))
"""The names under which a schedule is declared in the code; see `timetable`."""


@dataclass(frozen=True, slots=True)
class Timetable:
    """A declared timing and what goes with it."""

    timing: Timing
    missed_policy: str = "once"
    overlap_policy: str = "allow"
    jitter_secs: int = 0


def timetable(
    *,
    cron: object = None,
    every: object = None,
    timezone: object = "UTC",
    dst_policy: object = None,
    missed_policy: object = "once",
    overlap_policy: object = "allow",
    jitter: Any = 0,
) -> Timetable:
    """The timetable that these options mean: the first four as for `timing`.

    missed_policy: `once` or `skip`. overlap_policy: `allow`, or `skip` to fire nothing while the last job is not final.
    jitter: seconds or a timedelta, whole, up to 30 days, by which each job is delayed at random. Raises InvalidSchedule.

    Example: `timetable(cron="@daily", timezone="Asia/Tokyo", overlap_policy="skip")`
    """
    for name, value, known in (("missed_policy", missed_policy, MISSED), ("overlap_policy", overlap_policy, OVERLAP)):
        if value not in known:
            raise InvalidSchedule(f"{name} must be {' or '.join(map(repr, known))}, not {zones.shown(value)}.")
    seconds = jitter.total_seconds() if isinstance(jitter, timedelta) else jitter
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or seconds != seconds // 1 or not 0 <= seconds <= LONGEST_JITTER:
        raise InvalidSchedule(f"jitter must be whole seconds or a timedelta, from 0 to 30 days, not {zones.shown(jitter)}.")
    when = timing(cron, every, timezone, dst_policy)
    return Timetable(when, str(missed_policy), str(overlap_policy), int(seconds))


class Deed(Enum):
    """What is to be done with a schedule that is due."""

    FIRE = "fire"
    SKIP = "skip"
    PLAN = "plan"
    """Only plan its next run: it is new, or was edited, so that what it has is no occurrence."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, and when the schedule is due next (None: never again)."""

    deed: Deed
    next_run_at: datetime | None
    reason: str = ""


def decide(when: Timing, planned: datetime, now: datetime, *, missed_policy: str, unplanned: bool = False) -> Decision:
    """What to do with a schedule that was planned for `planned` and is looked at `now`.

    missed_policy: `once` fires what is late, but one occurrence for all that were missed; `skip` fires nothing that is
    later than LATE_AFTER. unplanned: `planned` is when it was made or edited. Raises InvalidSchedule where the timing isn't
    a good one.
    """
    if unplanned:
        return Decision(Deed.PLAN, when.next_after(planned, planned))
    following = when.next_after(planned, now)
    late = now - planned
    if missed_policy == "skip" and late > LATE_AFTER:
        return Decision(Deed.SKIP, following, f"missed: it was {late // timedelta(seconds=1)} s late")
    return Decision(Deed.FIRE, following)
