"""The settings dict: defaults, ranges, laziness and what is said of mistakes."""

import re
from datetime import timedelta

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from django_stampeded import conf
from django_stampeded.conf import FIELDS, problems, settings


def test_every_setting_has_a_default_that_is_valid_and_a_sentence_about_it():
    for name, field in FIELDS.items():
        assert field.metadata["doc"].endswith("."), name
        value = field.default
        assert field.metadata["check"](value) == value, name


def test_a_setting_that_is_left_out_has_its_default():
    assert settings.DATABASE == "default"
    assert settings.THREADS == 8
    assert settings.COMPLETED_RETENTION == 14 * 86_400


def test_a_changed_setting_is_seen_at_once_and_forgotten_afterwards():
    assert settings.THREADS == 8
    with override_settings(STAMPEDED={"THREADS": 3}):
        assert settings.THREADS == 3
    assert settings.THREADS == 8


def test_another_setting_of_django_leaves_ours_alone():
    with override_settings(STAMPEDED={"THREADS": 3}):
        assert settings.THREADS == 3
        with override_settings(DEBUG=True):
            assert settings.THREADS == 3


@pytest.mark.parametrize("value", [30, 30.0, timedelta(seconds=30)])
def test_durations_are_given_as_seconds_or_timedelta_and_read_as_seconds(value):
    with override_settings(STAMPEDED={"GRACE_PERIOD": value}):
        assert settings.GRACE_PERIOD == 30.0
        assert isinstance(settings.GRACE_PERIOD, float)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE", ""),
        ("DATABASE", 1),
        ("DEFAULT_QUEUE", "q" * 256),
        ("DEFAULT_QUEUE", "a\x00b"),
        ("THREADS", 0),
        ("THREADS", 1001),
        ("THREADS", True),
        ("THREADS", 1.5),
        ("POLL_INTERVAL", 0),
        ("POLL_INTERVAL", "1"),
        ("POLL_INTERVAL", float("nan")),
        ("HEARTBEAT_INTERVAL", timedelta(0)),
        ("DEAD_AFTER", -1),
        ("COMPLETED_RETENTION", float("inf")),
        ("LISTEN", 1),
        ("REDACT", "token"),
        ("REDACT", ["("]),
        ("REDACT", [1]),
        ("NODE_NAME", ""),
    ],
)
def test_a_value_out_of_range_is_refused_by_name_and_reported(name, value):
    with override_settings(STAMPEDED={name: value}):
        with pytest.raises(ImproperlyConfigured, match=f"STAMPEDED\\['{name}'\\] must be .*: correct it"):
            getattr(settings, name)
        assert len(problems()) == 1
        assert problems()[0].startswith(f"STAMPEDED['{name}'] must be ")


def test_one_invalid_setting_does_not_take_the_others_down():
    with override_settings(STAMPEDED={"THREADS": 0, "DEFAULT_QUEUE": "mail"}):
        assert settings.DEFAULT_QUEUE == "mail"


def test_an_unknown_setting_is_reported_with_the_nearest_name():
    with override_settings(STAMPEDED={"TREADS": 4}):
        assert problems() == ["STAMPEDED['TREADS'] is not a setting: did you mean THREADS?"]
        assert settings.THREADS == 8


def test_a_settings_dict_that_is_no_dict_is_reported():
    with override_settings(STAMPEDED=["THREADS"]):
        assert problems() == ["STAMPEDED must be a dict, not list."]


def test_asking_for_a_setting_that_does_not_exist_says_so():
    with pytest.raises(AttributeError, match="did you mean THREADS"):
        _ = settings.TREADS


def test_redaction_patterns_ignore_case():
    assert any(pattern.search("My_PASSWORD") for pattern in settings.REDACT)
    assert all(isinstance(pattern, re.Pattern) for pattern in settings.REDACT)


def test_nothing_is_read_before_it_is_asked_for():
    with override_settings(STAMPEDED={"THREADS": 0}):
        conf._forget(setting="STAMPEDED")
        assert "THREADS" not in conf._lazy.__dict__
