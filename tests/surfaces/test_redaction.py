"""What may be shown of arguments and errors."""

from __future__ import annotations

import pytest

from django_stampeded.insights import Limits, Redactor, in_words, summary_of

redactor = Redactor(["passw", "secret", "token", "api_?key"])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"password": "x"}, {"password": "[redacted]"}),
        ({"DB_PASSWORD": ["x"]}, {"DB_PASSWORD": "[redacted]"}),
        ({"a": {"b": [{"api_key": {"deep": 1}}]}}, {"a": {"b": [{"api_key": "[redacted]"}]}}),
        ({"apiKey": 1, "user": "ann"}, {"apiKey": "[redacted]", "user": "ann"}),
        ([1, None, True, 1.5], [1, None, True, 1.5]),
        ({}, {}),
    ],
)
def test_secret_looking_names_are_hidden_at_any_depth(value: object, shown: object) -> None:
    assert redactor.value(value) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot reach postgres://ann:hunter2@db/shop", "cannot reach postgres://ann:[redacted]@db/shop"),
        ("called with token=hunter2, user=ann", "called with token=[redacted], user=ann"),
        ("body: {'password': 'hunter2', 'user': 'ann'}", "body: {'password': [redacted], 'user': 'ann'}"),
        ('body: {"api_key": "hunter2"}', 'body: {"api_key": [redacted]}'),
        ("SyntaxError: unexpected token: foo", "SyntaxError: unexpected token: foo"),
        ("KeyError: 'customer'", "KeyError: 'customer'"),
        ("https://shop.example/a?b=1", "https://shop.example/a?b=1"),
    ],
)
def test_secrets_inside_text_are_hidden_and_the_rest_stays_readable(text: str, shown: str) -> None:
    assert redactor.text(text) == shown


def test_long_strings_lists_and_deep_nesting_are_cut() -> None:
    small = Redactor([], Limits(text=5, items=2, depth=2))
    assert small.value("abcdefgh") == "abcde… (8 characters)"
    assert small.value([1, 2, 3, 4]) == [1, 2, "… (2 more)"]
    assert small.value({"a": 1, "b": 2, "c": 3}) == {"a": 1, "b": 2, "…": "(1 more)"}
    assert small.value({"a": {"b": {"c": 1}}}) == {"a": {"b": "…"}}


def test_a_secret_is_hidden_where_its_text_is_cut_off() -> None:
    assert "hunter" not in Redactor(["token"]).text("x" * 50 + " token=hunter2hunter2", limit=62)


@pytest.mark.timeout(20)
def test_hostile_text_costs_no_more_than_its_length() -> None:
    for text in ("a" * 1_000_000, "a=" * 500_000, "'" * 100_000, "x://" * 250_000, ("b" * 80 + " ") * 10_000):
        redactor.text(text, limit=4_000)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (-5, "0 s"), (59.9, "59 s"), (60, "1 min"), (7_384, "2 h 3 min"), (86_400, "1 d"), (90_061, "1 d 1 h")],
)
def test_a_length_of_time_is_worded_in_two_units_at_most(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("Traceback (most recent call last):\n  File x\nValueError: boom\n", "ValueError: boom"),
        ("boom: first\nsecond", "boom: first"),
        ("\n \n", ""),
        ("", ""),
        ("x" * 300, "x" * 200 + "…"),
    ],
)
def test_the_summary_of_an_error_is_the_line_that_tells(text: str, summary: str) -> None:
    assert summary_of(text) == summary
