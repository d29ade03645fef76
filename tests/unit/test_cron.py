"""The grammar of cron expressions: what is taken, what it means, and how the rest is refused."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from django_stampeded import cron
from django_stampeded.cron import INSTANT, WALL_CLOCK, occurrences, parse
from django_stampeded.exceptions import InvalidSchedule
from django_stampeded.zones import zone

SUNDAY = datetime(2026, 3, 1, tzinfo=UTC)
DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]


def weekdays(field: str) -> list[str]:
    """The weekdays on which an expression with this last field fires in a week that starts on a Sunday."""
    found = islice(occurrences(parse(f"0 12 * * {field}"), zone("UTC"), INSTANT, SUNDAY), 7)
    return [t.strftime("%a") for t in found if t < SUNDAY + timedelta(days=7)]


def minutes(field: str) -> list[int]:
    found = islice(occurrences(parse(f"{field} * * * *"), zone("UTC"), INSTANT, SUNDAY - timedelta(minutes=1)), 60)
    return sorted({t.minute for t in found})


def refusal(text: object) -> str:
    with pytest.raises(InvalidSchedule) as caught:
        parse(text)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("field", "days"),
    [(str(number), [DAYS[number % 7]]) for number in range(8)]
    + [(day.upper(), [day]) for day in DAYS]
    + [
        ("sun", ["Sun"]), ("Wed", ["Wed"]), ("MON-FRI", DAYS[1:6]), ("mon-Fri", DAYS[1:6]), ("5-7", ["Sun", "Fri", "Sat"]),
        ("6-7", ["Sun", "Sat"]), ("6-0", ["Sun", "Sat"]), ("FRI-MON", ["Sun", "Mon", "Fri", "Sat"]),
        ("FRI-SUN", ["Sun", "Fri", "Sat"]), ("1,7", ["Sun", "Mon"]), ("7-1", ["Sun", "Mon"]), ("7-7", ["Sun"]),
        ("1-1", ["Mon"]), ("*/2", ["Sun", "Tue", "Thu", "Sat"]), ("1-5/2", ["Mon", "Wed", "Fri"]), ("0-7", DAYS),
        ("1-7", DAYS), ("*", DAYS), ("*/7", ["Sun"]), ("5-1/2", ["Sun", "Fri"]),
    ],
)  # fmt: skip
def test_weekdays_are_the_ones_that_were_meant(field: str, days: list[str]) -> None:
    assert weekdays(field) == days


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("*", list(range(60))), ("*/15", [0, 15, 30, 45]), ("5-20/5", [5, 10, 15, 20]), ("50-10/10", [0, 10, 50]),
        ("5,1,5", [1, 5]), ("05", [5]), ("59-59/15", [59]), ("*/60", [0]), ("*/59", [0, 59]),
        ("10-12,30,40-50/5", [10, 11, 12, 30, 40, 45, 50]),
    ],
)  # fmt: skip
def test_numbers_ranges_steps_and_lists_mean_what_they_do_in_vixie_cron(field: str, expected: list[int]) -> None:
    assert minutes(field) == expected


def test_names_of_months_are_read_in_any_case() -> None:
    found = islice(occurrences(parse("0 0 1 JAN,mar-May *"), zone("UTC"), INSTANT, datetime(2026, 1, 15, tzinfo=UTC)), 4)
    assert [t.strftime("%b") for t in found] == ["Mar", "Apr", "May", "Jan"]


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        # Both day fields given: one of them is enough.
        ("0 0 13 * FRI", ["03-06", "03-13", "03-20", "03-27", "04-03"]),
        ("0 0 13 * 0-6", ["03-02", "03-03", "03-04", "03-05", "03-06"]),
        ("0 0 1-31 * FRI", ["03-02", "03-03", "03-04", "03-05", "03-06"]),
        # One of them starts with a star: both must match.
        ("0 0 */2 * FRI", ["03-13", "03-27", "04-03", "04-17", "05-01"]),
        ("0 0 13 * */2", ["06-13", "08-13", "09-13", "10-13", "12-13"]),
    ],
)
def test_the_two_day_fields_go_together_as_in_vixie_cron(text: str, dates: list[str]) -> None:
    found = islice(occurrences(parse(text), zone("UTC"), INSTANT, SUNDAY), 5)
    assert [t.strftime("%m-%d") for t in found] == dates


@pytest.mark.parametrize(
    ("text", "surplus"),
    [
        ("0 0 12 * * ?", "'0', is seconds"), ("* * * * * *", "seconds"), ("* * * * * */15", "'*/15', is seconds"),
        ("0 0 * * * 2027", "'2027', is a year"), ("0 0 * * * 2027-2030", "a year"), ("0 0 12 * * ? 2027", "'2027', a year"),
    ],
)  # fmt: skip
def test_more_than_five_fields_are_refused_with_what_the_surplus_one_looks_like(text: str, surplus: str) -> None:
    message = refusal(text)
    assert surplus in message and "exactly five" in message


@pytest.mark.parametrize("text", ["", " ", "*", "0 3 * *", "0\u00a03 * * *", "0\n3 * * *", "0,5 3,\t4 * * *, 1"])
def test_fewer_than_five_fields_are_refused(text: str) -> None:
    assert "field" in refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "H * * * *",
        "R * * * *",
        "0 0 ? * MON",
        "0 0 L * *",
        "0 0 15W * *",
        "0 0 LW * *",
        "0 0 * * 5#2",
        "0 0 * * 5L",
        "0 0 * * L5",
    ],
)
def test_what_other_schedulers_know_is_refused_by_name(text: str) -> None:
    assert "other schedulers" in refusal(text)


@pytest.mark.parametrize(
    ("text", "advice"), [("@reboot", "@hourly"), ("@every 5m", "timedelta"), ("@daily 5", "@hourly"), ("@", "@hourly")]
)
def test_an_unknown_alias_is_refused_with_what_to_take_instead(text: str, advice: str) -> None:
    assert advice in refusal(text)


@pytest.mark.parametrize(
    "field",
    [
        "*/0", "5-5/0", "*/00", "59/15", "23/1", "60", "1-60", "-1", "1-", "-", "/5", "*/", "*/-5", "*/61", "5/",
        "1--2", "1-2-3", "1//2", "1_0", "+5", "\u0663", "\uff15", "\u00b2", "1-999999999", "*/999999999", "0x10",
        "1.5", "1e1", "1,", ",1", "1,,2", "**", "*5", "5*", "*-5", "5-*", "jan", "mon", "\x00", "'", "1;2",
    ],
)  # fmt: skip
def test_odd_pieces_are_refused(field: str) -> None:
    assert "field minute" in refusal(f"{field} * * * *")


@pytest.mark.parametrize(
    "text", ["0 24 * * *", "0 0 0 * *", "0 0 32 * *", "0 0 1 0 *", "0 0 1 13 *", "0 0 * * 8", "0 0 1 mon *", "0 0 * * monday"]
)
def test_what_is_out_of_its_fields_range_is_refused(text: str) -> None:
    assert "In the field" in refusal(text)


def test_a_range_of_days_that_would_wrap_round_a_month_is_refused_with_the_right_way_to_write_it() -> None:
    assert "28-31,1-3" in refusal("0 0 28-3 * *")


@pytest.mark.parametrize("text", ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 31 4 */2"])
def test_an_expression_that_never_comes_is_refused(text: str) -> None:
    assert "never comes" in refusal(text)


@pytest.mark.parametrize("text", ["0 0 29 2 *", "0 0 29 2 */7"])
def test_an_expression_that_comes_rarely_is_taken(text: str) -> None:
    assert next(occurrences(parse(text), zone("UTC"), WALL_CLOCK, SUNDAY)).strftime("%m-%d") == "02-29"


@pytest.mark.parametrize("value", [None, 5, b"0 3 * * *", ["0 3 * * *"]])
def test_only_text_is_an_expression(value: object) -> None:
    assert "is a text" in refusal(value)


def test_long_and_huge_expressions_are_refused_in_little_memory() -> None:
    odd = [",".join(["1"] * 10_000) + " * * * *", "*" * 1_000_000, "1-999999999 * * * *", "9" * 400 + " * * * *", " " * 100_000]
    tracemalloc.start()
    try:
        for text in odd:
            refusal(text)
        assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
    finally:
        tracemalloc.stop()


def test_the_longest_sensible_expression_is_taken() -> None:
    everything = ",".join(map(str, range(60)))
    assert len(minutes(everything)) == 60


@pytest.mark.slow
def test_many_different_expressions_are_not_all_remembered() -> None:
    def many(start: int, number: int) -> None:
        for n in range(start, start + number):
            parse(f"{n % 60} {n // 60 % 24} {1 + n // 1440 % 28} * *")

    many(0, 600)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        many(600, 1200)
        assert tracemalloc.get_traced_memory()[0] - before < 2**19
    finally:
        tracemalloc.stop()
    assert cron._parsed.cache_info().currsize <= 512


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("0 3 * * *", "0 3 * * *"), (" 0  3\t* * * \n", "0 3 * * *"), ("0 3 * * Mon", "0 3 * * Mon"), ("@daily", "@daily"),
        ("@DAILY", "@daily"), (" @daily ", "@daily"), ("@Midnight\n", "@midnight"),
    ],
)  # fmt: skip
def test_an_expression_is_stored_as_it_was_written_but_for_its_blanks(text: str, stored: str) -> None:
    assert parse(text).text == stored
    assert parse(stored).text == stored


@pytest.mark.parametrize(
    ("alias", "expanded"),
    [
        ("@hourly", "0 * * * *"), ("@daily", "0 0 * * *"), ("@midnight", "0 0 * * *"), ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"), ("@yearly", "0 0 1 1 *"), ("@annually", "0 0 1 1 *"),
    ],
)  # fmt: skip
def test_an_alias_is_one_expression_in_the_schedules_own_zone(alias: str, expanded: str) -> None:
    tokyo = zone("Asia/Tokyo")
    policy = parse(alias).default_policy
    found, same = (list(islice(occurrences(parse(e), tokyo, policy, SUNDAY), 5)) for e in (alias, expanded))
    assert found == same and policy == parse(expanded).default_policy


def test_daily_in_tokyo_comes_at_15_hours_utc() -> None:
    assert parse("@daily").default_policy == WALL_CLOCK
    assert next(occurrences(parse("@daily"), zone("Asia/Tokyo"), WALL_CLOCK, SUNDAY)) == SUNDAY.replace(hour=15)


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("0 3 * * *", WALL_CLOCK), ("* 3 * * *", WALL_CLOCK), ("*/5 1-5 * * *", WALL_CLOCK), ("0 1,2,3 * * *", WALL_CLOCK),
        ("@monthly", WALL_CLOCK), ("0 * * * *", INSTANT), ("0 */2 * * *", INSTANT), ("0 8-18/2 * * *", INSTANT),
        ("@hourly", INSTANT), ("30 1,* * * *", INSTANT),
    ],
)  # fmt: skip
def test_fixed_hours_get_the_wall_clock_and_a_star_or_step_in_the_hour_the_instant(text: str, policy: str) -> None:
    assert parse(text).default_policy == policy


def test_the_end_of_time_ends_the_occurrences() -> None:
    for policy in (INSTANT, WALL_CLOCK):
        late = datetime(9999, 12, 30, tzinfo=UTC)
        assert len(list(occurrences(parse("@daily"), zone("Asia/Tokyo"), policy, late))) <= 3
