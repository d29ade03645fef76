"""When a schedule runs next, and what is done with one that is due."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from django_stampeded.cron import INSTANT, WALL_CLOCK
from django_stampeded.exceptions import InvalidSchedule
from django_stampeded.timing import LATE_AFTER, LONGEST_INTERVAL, Deed, Timing, decide, timing

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def refusal(*args: Any, **kwargs: Any) -> str:
    with pytest.raises(InvalidSchedule) as caught:
        timing(*args, **kwargs)
    return str(caught.value)


def test_a_timing_has_either_an_expression_or_an_interval() -> None:
    assert "exactly one" in refusal()
    assert "exactly one" in refusal("0 3 * * *", 60)


@pytest.mark.parametrize(
    "every", [0, -5, 0.5, 1.5, float("nan"), float("inf"), True, "60", LONGEST_INTERVAL + 1, timedelta(milliseconds=1)]
)
def test_an_interval_is_whole_seconds_up_to_a_hundred_years(every: object) -> None:
    assert "whole" in refusal(every=every)


@pytest.mark.parametrize("every", [90, 90.0, timedelta(seconds=90), timedelta(minutes=1.5)])
def test_an_interval_is_given_in_seconds_or_as_a_timedelta(every: object) -> None:
    assert timing(every=every).interval_secs == 90


@pytest.mark.parametrize(
    ("given", "policy"), [(None, WALL_CLOCK), ("", WALL_CLOCK), (INSTANT, INSTANT), (WALL_CLOCK, WALL_CLOCK)]
)
def test_a_policy_that_is_left_out_is_the_expressions_own(given: str | None, policy: str) -> None:
    assert timing("@DAILY", dst_policy=given) == Timing("@daily", None, "UTC", policy)


def test_an_unknown_policy_is_refused() -> None:
    assert "dst_policy" in refusal("0 3 * * *", dst_policy="summer")


def test_an_unknown_zone_is_refused_when_it_is_used() -> None:
    when = timing("0 3 * * *", timezone="Americas/Vancouver")
    with pytest.raises(InvalidSchedule, match="America/Vancouver"):
        next(when.occurrences(NOON))
    assert "by its name" in refusal("0 3 * * *", timezone=UTC)


def test_an_interval_stays_on_its_grid_however_late_it_is_fired() -> None:
    when, planned, seed = timing(every=30), NOON, random.Random(1)
    for _ in range(100):
        following = when.next_after(planned, planned + seed.uniform(1, 5) * SECOND)
        assert following == planned + 30 * SECOND
        planned = following
    assert when.next_after(NOON, NOON + 30 * SECOND) == NOON + 60 * SECOND
    assert when.next_after(NOON, NOON + 29.999 * SECOND) == NOON + 30 * SECOND
    assert when.next_after(NOON, NOON + 1000 * SECOND) == NOON + 1020 * SECOND
    assert when.next_after(NOON, NOON - 1000 * SECOND) == NOON + 30 * SECOND


def test_an_interval_counts_real_seconds_whatever_the_clocks_do() -> None:
    when = timing(every=timedelta(days=7), timezone="Europe/Brussels")
    start = datetime(2027, 3, 26, 15, tzinfo=ZoneInfo("UTC"))
    assert [t.hour for t in islice(when.occurrences(start), 10)] == [15] * 10


def test_the_next_times_are_told_from_the_planned_one_on() -> None:
    when = timing("0 3 * * *")
    assert [t.day for t in when.upcoming(3, NOON)] == [2, 3, 4]
    assert [t.day for t in when.upcoming(3, NOON, planned=NOON + timedelta(days=2))] == [3, 4, 5]
    assert when.upcoming(0, NOON) == []
    assert timing(every=60).upcoming(2, NOON, planned=NOON - SECOND) == [NOON - SECOND, NOON + 60 * SECOND]


def test_the_end_of_time_ends_an_interval() -> None:
    assert timing(every=LONGEST_INTERVAL).next_after(datetime(9999, 1, 1, tzinfo=UTC), NOON) is None


# -- what is done with one that is due


def test_what_is_due_is_fired_and_planned_anew() -> None:
    decision = decide(timing("0 12 * * *"), NOON, NOON + SECOND, missed_policy="once")
    assert (decision.deed, decision.next_run_at) == (Deed.FIRE, NOON + timedelta(days=1))


@pytest.mark.parametrize("when", [timing("* * * * *"), timing(every=60)])
def test_many_missed_occurrences_are_one_run(when: Timing) -> None:
    decision = decide(when, NOON, NOON + timedelta(minutes=10, seconds=5), missed_policy="once")
    assert (decision.deed, decision.next_run_at) == (Deed.FIRE, NOON + timedelta(minutes=11))


@pytest.mark.parametrize("when", [timing("* * * * *"), timing(every=60)])
def test_missed_occurrences_are_skipped_where_that_is_the_policy(when: Timing) -> None:
    decision = decide(when, NOON, NOON + timedelta(minutes=10, seconds=5), missed_policy="skip")
    assert (decision.deed, decision.next_run_at) == (Deed.SKIP, NOON + timedelta(minutes=11))
    assert decision.reason == "missed: it was 605 s late"


def test_a_little_late_is_not_missed() -> None:
    assert decide(timing(every=3600), NOON, NOON + LATE_AFTER, missed_policy="skip").deed is Deed.FIRE


@pytest.mark.parametrize(("when", "first"), [(timing("0 15 * * *"), 3 * 3600), (timing(every=90), 90)])
def test_a_new_schedule_first_fires_at_its_next_occurrence(when: Timing, first: int) -> None:
    decision = decide(when, NOON, NOON + SECOND, missed_policy="once", unplanned=True)
    assert (decision.deed, decision.next_run_at) == (Deed.PLAN, NOON + first * SECOND)


def test_what_was_made_while_no_scheduler_ran_keeps_its_first_occurrence() -> None:
    decision = decide(timing("0 15 * * *"), NOON, NOON + timedelta(days=2), missed_policy="once", unplanned=True)
    assert decision.next_run_at == NOON.replace(hour=15)
