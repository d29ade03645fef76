"""What an expression means on the days when clocks change, against an oracle that looks at every minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest

from django_stampeded.cron import INSTANT, WALL_CLOCK, occurrences, parse
from tests.unit.clock_oracle import Day, changes, days, matcher

EXPRESSIONS = (
    "*/5 * * * *", "*/15 * * * *", "*/20 * * * *", "0 * * * *", "30 * * * *", "7,37,59 * * * *", "0 */2 * * *",
    "45 */6 * * *", "30 1 * * *", "0 2 * * *", "30 2 * * *", "0,30 2 * * *", "15 1-3/2 * * *", "5 0-4 * * *",
    "0 0 * * *", "30 23 * * *", "59 23,0 * * *", "*/17 22-3 * * 6-1", "0 0,2,3 * * 0", "0 1,3 1,15,25-29 * 0",
)  # fmt: skip
POLICIES = (INSTANT, WALL_CLOCK)

# Each shape of change that there is: an hour by night, half an hour, at midnight, two hours, at the day's end.
SHAPES = ("Europe/Paris", "Australia/Lord_Howe", "America/Santiago", "Antarctica/Troll", "America/Nuuk")


def differences(day: Day) -> list[str]:
    tz, found = ZoneInfo(day.zone), []
    for text in EXPRESSIONS:
        matches, expression = matcher(text), parse(text)
        for policy in POLICIES:
            wanted = day.by_instant(matches) if policy == INSTANT else day.by_wall_clock(matches)
            got = list(takewhile(lambda t: t <= day.end, occurrences(expression, tz, policy, day.start)))
            if got != wanted:
                found.append(f"{text} {policy} in {day.zone}: {sorted(set(got) ^ set(wanted))}")
            # A scheduler starts afresh after each occurrence, and a little late.
            for late in (timedelta(0), timedelta(seconds=1.5)):
                for before, after in islice(zip(wanted, wanted[1:], strict=False), 0, None, 1 + len(wanted) // 12):
                    if next(occurrences(expression, tz, policy, before + late)) != after:
                        found.append(f"{text} {policy} in {day.zone}: after {before}")
    return found


@pytest.mark.parametrize("zone", SHAPES)
def test_every_shape_of_clock_change_is_as_the_oracle_has_it(zone: str) -> None:
    moments = list(changes(zone, range(2026, 2027)))
    assert len(moments) >= 2
    assert [difference for moment in moments for difference in differences(Day(zone, moment))] == []


PARTS = 6
every_change = lru_cache(days)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_clock_change_of_2026_and_2027_is_as_the_oracle_has_it(part: int) -> None:
    found = every_change(range(2026, 2028))
    assert len(found) > 50
    assert [difference for day in found[part::PARTS] for difference in differences(day)] == []


def test_a_day_that_a_zone_left_out_is_made_up_for_at_its_end() -> None:
    # Samoa went from the 29th to the 31st of December 2011.
    apia = ZoneInfo("Pacific/Apia")
    start = datetime(2011, 12, 28, 12, tzinfo=apia)
    daily = list(islice(occurrences(parse("0 6 * * *"), apia, WALL_CLOCK, start), 4))
    assert [t.astimezone(apia).strftime("%d %H:%M") for t in daily] == ["29 06:00", "31 00:00", "31 06:00", "01 06:00"]


HOURLY = ("0 * * * *", "*/30 * * * *", "0 */1 * * *")


@pytest.mark.parametrize(
    "zone",
    [
        "America/Los_Angeles",
        "America/New_York",
        "Europe/Berlin",
        "Australia/Lord_Howe",
        "Africa/Casablanca",
        "America/Santiago",
    ],
)
def test_the_next_occurrence_is_always_later_whatever_the_clocks_do(zone: str) -> None:
    tz = ZoneInfo(zone)
    for moment in changes(zone, range(2024, 2028)):
        for text in HOURLY:
            for policy in POLICIES:
                instant = moment - timedelta(hours=12)
                for _ in range(60):
                    following = next(occurrences(parse(text), tz, policy, instant))
                    assert following > instant
                    if policy == INSTANT and zone != "Australia/Lord_Howe":
                        assert following - instant <= timedelta(minutes=30 if text.startswith("*/30") else 60)
                    instant = following


# Clocks that change at midnight, so that some day has no 00:00 or no 23:30.
MIDNIGHT = [
    ("America/Santiago", "2026-09-06"), ("Africa/Cairo", "2026-04-24"), ("Asia/Beirut", "2026-03-29"),
    ("America/Havana", "2026-03-08"), ("America/Nuuk", "2026-03-28"), ("America/Asuncion", "2023-10-01"),
]  # fmt: skip


@pytest.mark.parametrize(("zone", "date"), MIDNIGHT)
@pytest.mark.parametrize("text", ["0 0 * * *", "30 23 * * *"])
def test_a_gap_at_midnight_loses_no_day_and_shifts_none(zone: str, date: str, text: str) -> None:
    tz = ZoneInfo(zone)
    day = datetime.fromisoformat(date)
    start = (day - timedelta(days=5)).replace(hour=12, tzinfo=tz)
    found = [t.astimezone(tz).replace(tzinfo=None) for t in islice(occurrences(parse(text), tz, WALL_CLOCK, start), 10)]
    hour, minute = int(text.split()[1]), int(text.split()[0])
    planned = [start.replace(tzinfo=None, hour=hour, minute=minute) + timedelta(days=n) for n in range(11)]
    planned = [t for t in planned if t > start.replace(tzinfo=None)][:10]
    late = [got - due for got, due in zip(found, planned, strict=True)]
    assert all(timedelta(0) <= each <= timedelta(hours=1) for each in late)
    assert sum(each > timedelta(0) for each in late) <= 1, "only the day of the change may differ"


def test_an_occurrence_in_a_gap_has_one_instant_and_one_local_time() -> None:
    eastern = ZoneInfo("US/Eastern")
    expression = parse("0 2 * * *")
    starts = [datetime(2027, 3, 13, 12, tzinfo=UTC) + timedelta(minutes=97 * n) for n in range(10)]
    assert {next(occurrences(expression, eastern, WALL_CLOCK, start)) for start in starts} == {
        datetime(2027, 3, 14, 7, tzinfo=UTC)
    }
    following = next(occurrences(expression, eastern, WALL_CLOCK, datetime(2027, 3, 14, 7, tzinfo=UTC)))
    assert following.astimezone(eastern).isoformat() == "2027-03-15T02:00:00-04:00"


def test_a_reference_in_a_gap_or_a_repeated_hour_is_one_like_any_other() -> None:
    new_york = ZoneInfo("America/New_York")
    for reference in ("2026-11-01T05:30", "2026-11-01T06:30", "2027-03-14T07:00"):
        moment = datetime.fromisoformat(reference).replace(tzinfo=UTC)
        for text in ("30 1 * * *", "*/15 * * * *", "@daily"):
            for policy in POLICIES:
                for given in (moment, moment.astimezone(new_york), moment.astimezone(ZoneInfo("Asia/Tokyo"))):
                    got = next(occurrences(parse(text), new_york, policy, given))
                    assert got.tzinfo is UTC and got > moment
