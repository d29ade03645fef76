"""Cron expressions: what is taken and what it means, and the times at which one occurs in a time zone.

Owns the grammar, the policy that an expression gets by default, and both policies for the days on which clocks change.
Pure; when a schedule is late, missed or paused is for timing.py and the scheduler.

The grammar is Vixie cron's, strictly: exactly five fields or an alias, 0 and 7 for Sunday, names in any case, and where
neither day field starts with `*`, one of the two is enough. A range may wrap round (`FRI-MON`, `22-4`) but in the days of
the month. Whatever other schedulers read into an expression (seconds, years, `?`, `L`, `W`, `#`, `H`) is refused rather
than guessed at.

On clock changes. croniter knows the calendar and is asked about local times alone, without a zone; the zone is ours. Under
`instant` an expression occurs at each instant whose local time matches: never in a gap, twice in a repeated hour. Under
`wall_clock` each local time occurs once: one in a gap at the gap's end, a repeated one in its first pass. So under `instant`
we walk through stretches of one UTC offset each, and under `wall_clock` we resolve each local time by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from croniter import croniter

from django_stampeded.exceptions import InvalidSchedule
from django_stampeded.zones import offset, shown

INSTANT = "instant"
WALL_CLOCK = "wall_clock"

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

LONGEST = 500
"""Characters; every minute of the hour by number takes 169."""

_REMEMBERED = 512  # expressions; parsing one takes a fraction of a millisecond

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    words: dict[str, int]

    @property
    def size(self) -> int:
        return 7 if self.high == 7 else self.high - self.low + 1


_FIELDS = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of the month", 1, 31, {}),
    _Field("month", 1, 12, {word: number for number, word in enumerate(_MONTHS, 1)}),
    _Field("day of the week", 0, 7, {word: number for number, word in enumerate(_DAYS)}),
)

_PIECE = re.compile(r"(?:(?P<all>\*)|(?P<first>[0-9]+|[a-z]{3})(?:-(?P<last>[0-9]+|[a-z]{3}))?)(?:/(?P<step>[0-9]+))?")


@dataclass(frozen=True, slots=True)
class Expression:
    """A cron expression that was understood.

    text: as it is stored. calendar: the same in numbers, for croniter. either_day: one of the two day fields is enough.
    default_policy: `wall_clock` where the hours are fixed, `instant` where the hour has a `*` or a step.
    """

    text: str
    calendar: str
    either_day: bool
    default_policy: str

    def local_times(self, after: datetime) -> Iterator[datetime]:
        """The matching times after one, all without a zone; ends where the calendar does."""
        calendar = croniter(self.calendar, after, ret_type=datetime, day_or=self.either_day)
        while True:
            try:
                yield calendar.get_next()
            except (ValueError, OverflowError):  # nothing within decades, or the year 10000
                return


def parse(text: object) -> Expression:
    """Understand an expression, or raise InvalidSchedule with what is wrong with it.

    Example: `parse("0 3 * * MON-FRI").default_policy == "wall_clock"`
    """
    if not isinstance(text, str):
        raise InvalidSchedule(f"A cron expression is a text, not {type(text).__name__}: write it as '0 3 * * *'.")
    if len(text) > LONGEST:
        raise InvalidSchedule(f"A cron expression has at most {LONGEST} characters, not {len(text)}: use ranges and steps.")
    return _parsed(text)


@lru_cache(maxsize=_REMEMBERED)
def _parsed(text: str) -> Expression:
    words = re.split(r"[ \t]+", text.strip(" \t\r\n"))
    if words[0].startswith("@"):
        words = [word.lower() for word in words]
        stored, words = words[0], _alias(words)
    else:
        stored = " ".join(words)
    _check_number(text, words)
    values = [_values(text, field, word) for field, word in zip(_FIELDS, words, strict=True)]
    either_day = not (words[2].startswith("*") or words[4].startswith("*"))
    every_day = either_day and (len(values[2]) == 31 or len(values[4]) == 7)
    numbers = [
        "*" if len(found) == field.size or (every_day and field in (_FIELDS[2], _FIELDS[4])) else ",".join(map(str, found))
        for field, found in zip(_FIELDS, values, strict=True)
    ]
    policy = INSTANT if "*" in words[1] or "/" in words[1] else WALL_CLOCK
    expression = Expression(stored, " ".join(numbers), either_day and not every_day, policy)
    if next(expression.local_times(datetime(2024, 1, 1)), None) is None:
        raise InvalidSchedule(f"The cron expression {shown(text)} never comes, as no month has such a day: name another day.")
    return expression


def _alias(words: list[str]) -> list[str]:
    name = words[0]
    if name not in ALIASES or len(words) > 1:
        advice = f"take one of {', '.join(ALIASES)}"
        if name == "@every":
            advice = "give an interval instead, every=timedelta(minutes=5)"
        raise InvalidSchedule(f"The cron alias {shown(' '.join(words))} is not known: {advice}.")
    return ALIASES[name].split(" ")


def _check_number(text: str, words: list[str]) -> None:
    if len(words) == 5:
        return
    surplus = ""
    if len(words) == 6:
        if re.fullmatch(r"[0-9]{4}(?:[-,/][0-9]+)*", words[5]):
            surplus = f", of which the last, {shown(words[5])}, is a year"
        elif "?" in words:
            surplus = f", of which the first, {shown(words[0])}, is seconds"
        else:
            surplus = f", of which the first, {shown(words[0])}, or the last, {shown(words[5])}, is seconds"
    elif len(words) == 7:
        surplus = f", of which the first, {shown(words[0])}, is seconds and the last, {shown(words[6])}, a year"
    number = len([word for word in words if word])
    raise InvalidSchedule(
        f"The cron expression {shown(text)} has {number} field{'' if number == 1 else 's'}{surplus}: "
        "give exactly five, minute, hour, day of the month, month and day of the week."
    )


def _values(text: str, field: _Field, word: str) -> list[int]:
    found: set[int] = set()
    for piece in word.split(","):
        match = _PIECE.fullmatch(piece.lower())
        if match is None:
            what = f"{shown(piece)} is not understood: use numbers, *, ranges, steps and lists"
            if re.search(r"[?#]|(?:\b|[0-9])(?:lw|[lwhr])(?:\b|[0-9])", piece.lower()):
                what += ", for the ?, L, W, #, H and R of other schedulers are not taken"
            raise _refusal(text, field, what)
        found.update(_piece(text, field, piece, match))
    return sorted(found)


def _piece(text: str, field: _Field, piece: str, match: re.Match[str]) -> list[int]:
    step = int(match["step"]) if match["step"] else 1
    if not 1 <= step <= field.size:
        raise _refusal(text, field, f"the step of {shown(piece)} must be from 1 to {field.size}")
    if match["all"]:
        return list(range(field.low, field.low + field.size))[::step]
    first = _number(text, field, match["first"])
    if match["last"] is None:
        if match["step"]:
            raise _refusal(text, field, f"{shown(piece)} has a step but no end: write {first}-{field.high}/{step}")
        return [first % 7 if field.high == 7 else first]
    last = _number(text, field, match["last"])
    if field.high == 7:
        # As the end of a range 7 is the Sunday after Saturday, as its start the one before Monday.
        if first == 7:
            first, last = 0, last % 7
        return [day % 7 for day in _range(first, last, 0, 6)[::step]]
    if first > last and field.high == 31:
        raise _refusal(text, field, f"{shown(piece)} would wrap round a month's end: write {first}-31,1-{last}")
    return _range(first, last, field.low, field.high)[::step]


def _range(first: int, last: int, low: int, high: int) -> list[int]:
    if first <= last:
        return list(range(first, last + 1))
    return [*range(first, high + 1), *range(low, last + 1)]


def _number(text: str, field: _Field, word: str) -> int:
    number = field.words.get(word, -1) if word.isalpha() else int(word)
    if not field.low <= number <= field.high:
        names = f" or {', '.join(field.words)}" if field.words else ""
        raise _refusal(text, field, f"{shown(word)} must be from {field.low} to {field.high}{names}")
    return number


def _refusal(text: str, field: _Field, what: str) -> InvalidSchedule:
    return InvalidSchedule(f"In the field {field.name} of the cron expression {shown(text)}, {what}.")


def occurrences(expression: Expression, tz: ZoneInfo, policy: str, after: datetime) -> Iterator[datetime]:
    """The instants, in UTC and strictly increasing, at which an expression occurs in a zone after `after`.

    Example: `next(occurrences(parse("0 3 * * *"), zone("Europe/Paris"), "wall_clock", now))`
    """
    after = after.astimezone(UTC)
    walk = _wall_clock if policy == WALL_CLOCK else _instants
    last = after
    try:
        # Whole seconds, so that a change of the clocks is found at the second it happens.
        for instant in walk(expression, tz, after.replace(microsecond=0)):
            if instant > last:
                yield instant
                last = instant
    except OverflowError:  # the last days of the year 9999
        return


def _wall_clock(expression: Expression, tz: ZoneInfo, after: datetime) -> Iterator[datetime]:
    for local in expression.local_times(after.astimezone(tz).replace(tzinfo=None)):
        yield resolved(local, tz)


def resolved(local: datetime, tz: ZoneInfo) -> datetime:
    """The instant of a local time: of its first pass where it is repeated, the end of the gap where it is skipped."""
    instant = local.replace(tzinfo=tz, fold=0).astimezone(UTC)
    if instant.astimezone(tz).replace(tzinfo=None) == local:
        return instant
    # In a gap, fold=1 counts by the clocks after it and so lies before it, fold=0 the other way round.
    before = local.replace(tzinfo=tz, fold=1).astimezone(UTC)
    return _change(before, instant, tz) or instant


def _instants(expression: Expression, tz: ZoneInfo, after: datetime) -> Iterator[datetime]:
    start, ahead = after, offset(after, tz)
    local = (after + ahead).replace(tzinfo=None)
    while True:
        change = None
        for time in expression.local_times(local):
            instant = time.replace(tzinfo=UTC) - ahead
            change = _change(start, instant, tz)
            if change is not None:
                break
            yield instant
            start = instant
        if change is None:
            return
        start, ahead = change, offset(change, tz)
        local = (change + ahead).replace(tzinfo=None) - timedelta(seconds=1)


_STRIDE = timedelta(days=1)  # no zone changes its clocks and back within a day
_SECOND = timedelta(seconds=1)


def _change(start: datetime, end: datetime, tz: ZoneInfo) -> datetime | None:
    """The first second after `start` and not after `end` with another offset than at `start`, None where there is none."""
    ahead = offset(start, tz)
    while start < end:
        stop = min(start + _STRIDE, end)
        if offset(stop, tz) != ahead:
            while stop - start > _SECOND:
                middle = start + (stop - start) // _SECOND // 2 * _SECOND
                if offset(middle, tz) == ahead:
                    start = middle
                else:
                    stop = middle
            return stop
        start = stop
    return None
