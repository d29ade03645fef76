"""Time zones: which names are taken, namely those of the IANA list that Python and the database server both have.

Owns the sentence for a name that is not. PostgreSQL also reads `UTC+3`, and to it that is west of Greenwich; a scheduler in
another language may read it as east. So only names are taken that can't mean two things. What is left are time zone data
of different ages: our schedules follow Python's, and a check warns of it. Pure but for the two functions that ask the
server by the cursor that they are given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django_stampeded.exceptions import InvalidSchedule

_NO_PLACE = {"localtime", "Factory"}  # what they mean differs from machine to machine
_OFFSET = re.compile(r"(?:UTC|GMT|Z)?\s*([+-])(\d{1,2})(?::?(\d\d))?", re.ASCII | re.IGNORECASE)
_COMMON = {(1, 330): "Asia/Kolkata", (1, 345): "Asia/Kathmandu", (1, 270): "Asia/Kabul", (1, 570): "Australia/Darwin"}
_MONTHS_COMPARED = 24


@lru_cache(maxsize=1)
def names() -> frozenset[str]:
    """The names that this Python has data for."""
    return frozenset(available_timezones() - _NO_PLACE)


def zone(name: object) -> ZoneInfo:
    """The time zone of that name. Raises InvalidSchedule, with the name to take instead where there is a likely one.

    Example: `zone("Europe/Paris")`
    """
    if not isinstance(name, str) or name not in names():
        if not names():
            raise InvalidSchedule("This Python has no time zone data: install it with `pip install tzdata`.")
        raise InvalidSchedule(f"There is no time zone {shown(name)}: {_advice(str(name).strip())}")
    return ZoneInfo(name)


def shown(text: object) -> str:
    """A value that somebody gave, fit for a message."""
    return ascii(text if len(str(text)) <= 60 else str(text)[:57] + "...")


def unknown_to_server(cur: Any, asked: Iterable[str]) -> dict[str, str]:
    """A sentence for each of these names that the database server lacks. `cur` is a cursor of any driver."""
    wanted = set(asked) - {"UTC"}
    if not wanted:
        return {}
    cur.execute("SELECT name FROM pg_timezone_names WHERE name = ANY(%s::text[])", [sorted(wanted)])
    wanted -= {row[0] for row in cur.fetchall()}
    return {
        name: f"The database server has no time zone {shown(name)}: update its time zone data, or name another."
        for name in sorted(wanted)
    }


def read_otherwise(cur: Any, asked: Iterable[str], now: datetime) -> dict[str, str]:
    """A sentence for each of these names, all known here, whose clocks the database server sets otherwise.

    They are compared at 24 instants, a month apart from `now` on.
    """
    instants = [now + timedelta(days=30.5 * month) for month in range(_MONTHS_COMPARED)]
    cur.execute(
        "SELECT z.name, array_agg(extract(epoch FROM (t AT TIME ZONE z.name) - (t AT TIME ZONE 'UTC'))::integer ORDER BY t) "
        "FROM pg_timezone_names z CROSS JOIN unnest(%s::timestamptz[]) AS t WHERE z.name = ANY(%s::text[]) GROUP BY z.name",
        [instants, sorted(set(asked) - {"UTC"})],
    )
    theirs: dict[str, list[int]] = dict(cur.fetchall())
    return {
        name: f"The database server and this Python disagree about the clocks of {shown(name)} in the next two years."
        for name in sorted(theirs)
        if theirs[name] != [offset(t, zone(name)) // timedelta(seconds=1) for t in instants]
    }


def offset(instant: datetime, tz: ZoneInfo) -> timedelta:
    """How far the clocks of `tz` are ahead of UTC at an instant."""
    return instant.astimezone(tz).utcoffset() or timedelta(0)


def _advice(name: str) -> str:
    for known in names():
        if known.lower() == name.lower():
            return f"it is written {known!r}."
    by_offset = _OFFSET.fullmatch(name)
    if by_offset:
        return _advice_for_offset(by_offset)
    close = get_close_matches(name, names(), n=1, cutoff=0.7) if len(name) > 4 else []
    if close:
        return f"did you mean {close[0]!r}?"
    return "name a place of the IANA list, such as 'Europe/Paris', or 'UTC'."


def _advice_for_offset(found: re.Match[str]) -> str:
    sign = 1 if found[1] == "+" else -1
    minutes = 60 * int(found[2]) + int(found[3] or 0)
    hours = minutes // 60
    if (sign, minutes) in _COMMON:
        return f"name a place with that offset, such as {_COMMON[sign, minutes]!r}."
    if minutes % 60 or not 0 < hours <= (14 if sign > 0 else 12):
        return "name a place with that offset, as in the IANA list, or 'UTC'."
    # These names count the hours west of Greenwich.
    return f"for a fixed offset write 'Etc/GMT{'-' if sign > 0 else '+'}{hours}', or better name a place."
