"""An oracle for cron expressions on the days when clocks change: it looks at every minute, and shares no code with cron.py.

Slow and plain on purpose. A `Day` is every minute around one change of the clocks in one zone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo, available_timezones

UTC = UTC
MINUTE = timedelta(minutes=1)
AROUND = timedelta(hours=25)

Matches = Callable[[datetime], bool]


@dataclass(frozen=True)
class Day:
    zone: str
    change: datetime

    @property
    def start(self) -> datetime:
        return self.change - AROUND

    @property
    def end(self) -> datetime:
        return self.change + AROUND

    @cached_property
    def minutes(self) -> list[tuple[datetime, datetime]]:
        """Every minute after `start`, up to `end`: the instant, and what the clocks show."""
        tz, instant, found = ZoneInfo(self.zone), self.start, []
        while instant < self.end:
            instant += MINUTE
            found.append((instant, instant.astimezone(tz).replace(tzinfo=None)))
        return found

    def by_instant(self, matches: Matches) -> list[datetime]:
        """Each instant at which the clocks match."""
        return [instant for instant, local in self.minutes if matches(local)]

    def by_wall_clock(self, matches: Matches) -> list[datetime]:
        """For each local minute that matches, whether shown or not: the first instant that shows it or a later one."""
        first: dict[datetime, datetime] = {}
        for instant, local in self.minutes:
            first.setdefault(local, instant)
        shown = sorted(first)
        local, found = shown[0], set()
        while local <= shown[-1]:
            if matches(local):
                found.add(first[shown[bisect_left(shown, local)]])
            local += MINUTE
        return sorted(found)


def changes(zone: str, years: range) -> Iterator[datetime]:
    """Each minute at which the zone's clocks change, by looking at every day and then at the minutes of those that differ."""
    tz = ZoneInfo(zone)
    day, end = datetime(years.start, 1, 1, tzinfo=UTC), datetime(years.stop, 1, 1, tzinfo=UTC)
    before = day.astimezone(tz).utcoffset()
    while day < end:
        following = day + timedelta(days=1)
        after = following.astimezone(tz).utcoffset()
        if after != before:
            minute = day + MINUTE
            while minute.astimezone(tz).utcoffset() == before:
                minute += MINUTE
            yield minute
        day, before = following, after


def days(years: range) -> list[Day]:
    """The changes of every zone there is, one zone for all those that do the same."""
    alike: dict[tuple[tuple[datetime, ...], tuple[object, ...]], str] = {}
    for zone in sorted(available_timezones() - {"localtime", "Factory"}):
        tz = ZoneInfo(zone)
        moments = tuple(changes(zone, years))
        offsets = tuple((each - ago).astimezone(tz).utcoffset() for each in moments for ago in (MINUTE, timedelta(0)))
        if moments:
            alike.setdefault((moments, offsets), zone)
    return [Day(zone, moment) for (moments, _), zone in alike.items() for moment in moments]


def numbers(field: str, low: int, high: int) -> set[int]:
    """What a field of the tests' expressions matches: numbers, ranges that may wrap, steps and lists."""
    found: set[int] = set()
    for piece in field.split(","):
        span, _, step = piece.partition("/")
        first, _, last = span.partition("-")
        a, b = (low, high) if span == "*" else (int(first), int(last or first))
        turn = list(range(a, b + 1)) if a <= b else [*range(a, high + 1), *range(low, b + 1)]
        found.update(turn[:: int(step or 1)])
    return found


def matcher(expression: str) -> Matches:
    """Vixie cron's reading of an expression."""
    fields = expression.split()
    spans = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
    minute, hour, day, month, weekday = (numbers(field, *span) for field, span in zip(fields, spans, strict=True))
    both = fields[2].startswith("*") or fields[4].startswith("*")

    def matches(local: datetime) -> bool:
        if local.minute not in minute or local.hour not in hour or local.month not in month:
            return False
        in_month, in_week = local.day in day, local.isoweekday() % 7 in weekday
        return (in_month and in_week) if both else (in_month or in_week)

    return matches
