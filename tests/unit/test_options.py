"""The options of a task and their ranges."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import override_settings

from django_stampeded.exceptions import InvalidOption
from django_stampeded.options import checked


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("queue_name", "q" * 255, "q" * 255),
        ("queue_name", 'a-b."c" 😀', 'a-b."c" 😀'),
        ("queue_name", None, None),
        ("priority", -32_768, -32_768),
        ("priority", 32_767, 32_767),
        ("max_attempts", 1, 1),
        ("max_attempts", 32_767, 32_767),
        ("max_interruptions", 0, 0),
        ("max_deferrals", 32_767, 32_767),
        ("expire_seconds", 1, 1),
        ("expire_seconds", 2_147_483_647, 2_147_483_647),
        ("expire_seconds", timedelta(hours=2), 7200),
        ("timeout", None, None),
        ("timeout", timedelta(minutes=1), 60.0),
        ("timeout", 0.001, 0.001),
        ("backoff_base", 60, 60.0),
        ("backoff_base", timedelta(minutes=10), 600.0),
        ("backoff_max", 2_147_483, 2_147_483.0),
        ("run_after", timedelta(0), timedelta(0)),
        ("run_after", datetime(2030, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)),
        ("run_after", None, None),
        ("tenant", "acme", "acme"),
        ("destination", "api.example.org", "api.example.org"),
        ("dead_letter_queue", "dead", "dead"),
        ("dedup", "CORP\\user", "CORP\\user"),
        ("unique_for", "week", "week"),
        ("on_conflict", "replace", "replace"),
        ("retry_on", OSError, (OSError,)),
        ("retry_on", None, None),
        ("discard_on", [KeyError, ValueError], (KeyError, ValueError)),
        ("discard_on", (), ()),
        ("backoff", max, max),
        ("unique", "args", "args"),
        ("unique", ["b", "a", "b"], ("a", "b")),
        ("meta", {"django": {"a": 1}}, {"django": {"a": 1}}),
        ("aliases", ["old.name"], ("old.name",)),
        ("takes_context", True, True),
        ("using", "replica", "replica"),
    ],
)
def test_a_value_in_range_is_kept_in_its_stored_form(name, value, kept):
    assert checked({name: value}) == {name: kept}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("queue_name", "", "queue_name must have 1 to 255 characters, not 0."),
        ("queue_name", "q" * 256, "queue_name must have 1 to 255 characters, not 256."),
        ("queue_name", "a\x00b", "queue_name must not contain NUL characters or lone surrogates."),
        ("queue_name", "\ud800", "queue_name must not contain NUL characters or lone surrogates."),
        ("queue_name", 1, "queue_name must be text, not int."),
        ("name", None, "name must be text, not NoneType."),
        ("priority", -32_769, "priority must be from -32768 to 32767, not -32769."),
        ("priority", 40_000, "priority must be from -32768 to 32767, not 40000."),
        ("priority", "1", "priority must be a whole number from -32768 to 32767, not str."),
        ("priority", True, "priority must be a whole number from -32768 to 32767, not bool."),
        ("max_attempts", 0, "max_attempts must be from 1 to 32767, not 0."),
        ("max_attempts", 32_768, "max_attempts must be from 1 to 32767, not 32768."),
        ("max_interruptions", -1, "max_interruptions must be from 0 to 32767, not -1."),
        ("max_deferrals", 32_768, "max_deferrals must be from 0 to 32767, not 32768."),
        ("expire_seconds", 0, "expire_seconds must be from 1 to 2147483647, not 0."),
        ("expire_seconds", 1.5, "expire_seconds must be a whole number from 1 to 2147483647, not float."),
        ("timeout", 0, "timeout must be from 0.001 to 315360000 seconds, not 0."),
        ("timeout", float("nan"), "timeout must be from 0.001 to 315360000 seconds, not nan."),
        ("timeout", "1", "timeout must be a timedelta or a number of seconds, not str."),
        ("backoff_base", 0, "backoff_base must be from 0.001 to 2147483 seconds, not 0."),
        ("backoff_max", float("inf"), "backoff_max must be from 0.001 to 2147483 seconds, not inf."),
        ("run_after", 60, "run_after must be a datetime or a timedelta, not int."),
        ("run_after", timedelta(seconds=-1), "run_after must be from now to 100 years from now."),
        ("run_after", timedelta.max, "run_after must be from now to 100 years from now."),
        ("tenant", 5, "tenant must be text, not int."),
        ("dedup", "", "dedup must have 1 to 10000 characters, none of them NUL or a lone surrogate."),
        ("dedup", "\x00", "dedup must have 1 to 10000 characters, none of them NUL or a lone surrogate."),
        ("unique_for", "year", "unique_for must be one of minute, hour, day, week, month."),
        ("unique_for", ["day"], "unique_for must be one of minute, hour, day, week, month."),
        ("on_conflict", "raise", "on_conflict must be 'keep' or 'replace'."),
        ("retry_on", OSError(), "retry_on must be an exception class or a tuple of them."),
        ("retry_on", "OSError", "retry_on must be an exception class or a tuple of them."),
        ("discard_on", [OSError, int], "discard_on must be an exception class or a tuple of them."),
        ("discard_on", None, "discard_on must be an exception class or a tuple of them."),
        ("backoff", 60, "backoff must be a plain function of (attempt, exception)."),
        ("unique", "argument", "unique must be 'args', 'task' or a list of argument names."),
        ("unique", [], "unique must be 'args', 'task' or a list of argument names."),
        ("unique", True, "unique must be 'args', 'task' or a list of argument names."),
        ("meta", "x", "meta must be a dict, not str."),
        ("aliases", "old.name", "aliases must be a list of names."),
        ("takes_context", 1, "takes_context must be True or False."),
        ("prioritty", 1, "A task has no option 'prioritty': did you mean 'priority'?"),
        ("zzz", 1, "A task has no option 'zzz': remove it."),
    ],
)
def test_a_value_out_of_range_is_refused_by_the_name_of_the_option(name, value, message):
    with pytest.raises(InvalidOption) as caught:
        checked({name: value})
    assert str(caught.value) == message


def test_a_naive_time_is_refused_while_time_zones_are_in_use():
    with override_settings(USE_TZ=True), pytest.raises(InvalidOption, match="run_after must have a time zone"):
        checked({"run_after": datetime(2030, 1, 1)})
    with override_settings(USE_TZ=False):
        assert checked({"run_after": datetime(2030, 1, 1)}) == {"run_after": datetime(2030, 1, 1)}
