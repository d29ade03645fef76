"""What is refused when a schedule is saved by a form, and what the system checks say."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django import forms
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import connection

from django_stampeded import checks, registry, task, zones
from django_stampeded.maintenance.scheduler import Scheduler
from django_stampeded.models import Schedule

pytestmark = pytest.mark.django_db

GIVEN = {"key": "k", "queue": "q", "task": "t", "cron_expr": "0 3 * * *", "timezone": "UTC"}


class ScheduleForm(forms.ModelForm):
    class Meta:
        model = Schedule
        fields = (
            "key", "queue", "task", "args", "meta", "tenant_id", "priority", "interval_secs", "cron_expr", "dst_policy",
            "timezone", "missed_policy", "overlap_policy", "jitter_secs", "paused", "next_run_at", "last_run_at",
        )  # fmt: skip


def form(instance: Schedule | None = None, **changes: Any) -> ScheduleForm:
    """A form as a browser sends it: what it showed first, with some changes."""
    blank = ScheduleForm(instance=instance)
    data = {}
    for bound in blank:
        value = bound.value()
        if value is not None and not callable(value):
            data[bound.html_name] = value if isinstance(value, str) else bound.field.prepare_value(value)
    if instance is None:
        data = {
            **GIVEN,
            "priority": 0,
            "jitter_secs": 0,
            "missed_policy": "once",
            "overlap_policy": "allow",
            "args": "{}",
            "meta": "{}",
        }
        data["next_run_at"] = "2027-01-01 00:00:00"
    return ScheduleForm({**data, **changes}, instance=instance)


@pytest.mark.parametrize(
    ("changes", "field", "reason"),
    [
        ({"cron_expr": "0 0 12 * * ?"}, "cron_expr", "exactly five"),
        ({"cron_expr": "H * * * *"}, "cron_expr", "other schedulers"),
        ({"cron_expr": "*/0 * * * *"}, "cron_expr", "step"),
        ({"cron_expr": "٣ * * * *"}, "cron_expr", "not understood"),
        ({"cron_expr": "0 0 30 2 *"}, "cron_expr", "never comes"),
        ({"cron_expr": "1," * 10_000 + "1 * * * *"}, "cron_expr", "at most 500"),
        ({"interval_secs": 60}, "cron_expr", "exactly one"),
        ({"cron_expr": ""}, "interval_secs", "exactly one"),
        ({"cron_expr": "", "interval_secs": 0}, "interval_secs", "whole"),
        ({"timezone": "UTC+3"}, "timezone", "Etc/GMT-3"),
        ({"timezone": "+05:30"}, "timezone", "Asia/Kolkata"),
        ({"timezone": "NOPE+3"}, "timezone", "name a place"),
        ({"timezone": "europe/paris"}, "timezone", "Europe/Paris"),
        ({"timezone": "Americas/Vancouver"}, "timezone", "America/Vancouver"),
        ({"timezone": "local"}, "timezone", "name a place"),
        ({"queue": "q" * 256}, "queue", "255"),
        ({"key": "k" * 256}, "key", "255"),
        ({"args": "[1]"}, "args", "object"),
        ({"jitter_secs": -1}, "jitter_secs", "0"),
    ],
)
def test_what_is_no_good_is_refused_at_its_field_with_the_reason(changes: dict[str, Any], field: str, reason: str) -> None:
    refused = form(**changes)
    assert not refused.is_valid()
    assert reason in str(refused.errors[field].as_data()[0].messages)
    assert Schedule.objects.count() == 0


def test_a_schedule_made_in_python_is_refused_alike() -> None:
    with pytest.raises(ValidationError, match="America/Vancouver"):
        Schedule(key="k", queue="q", task="t", cron_expr="@daily", timezone="Americas/Vancouver").full_clean()


@pytest.mark.parametrize(
    ("expression", "policy"), [("0 3 * * *", "wall_clock"), ("@DAILY", "wall_clock"), ("*/5 * * * *", "instant")]
)
def test_a_policy_that_is_left_out_is_settled_by_the_expression(expression: str, policy: str) -> None:
    made = form(cron_expr=expression, dst_policy="").save()
    assert (made.dst_policy, made.timezone) == (policy, "UTC")
    bare = Schedule(key="bare", queue="q", task="t", cron_expr=expression)
    bare.full_clean()
    assert bare.dst_policy == policy


@pytest.mark.parametrize(
    ("given", "stored"), [("@DAILY", "@daily"), (" @daily ", "@daily"), ("0  3 * *  mon\n", "0 3 * * mon")]
)
def test_an_expression_is_shown_again_as_it_is_stored(given: str, stored: str) -> None:
    form(cron_expr=given).save()
    again = Schedule.objects.get()
    assert again.cron_expr == stored
    form(instance=again).save()
    assert Schedule.objects.get().cron_expr == stored


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize("planned", ["2026-11-01 05:30", "2026-11-01 06:30", "2027-03-14 07:00"])
def test_a_form_saved_unchanged_leaves_the_next_run_alone(settings: Any, zone: str, planned: str) -> None:
    settings.TIME_ZONE = zone
    moment = datetime.fromisoformat(planned).replace(tzinfo=UTC)
    made = Schedule.objects.create(
        **{**GIVEN, "timezone": "America/New_York"},
        dst_policy="wall_clock",
        next_run_at=moment,
        last_run_at=moment,
        paused=True,
    )
    made.refresh_from_db()
    made.full_clean()
    made.save()
    again = Schedule.objects.get()
    assert (again.next_run_at, again.last_run_at, again.replan) == (moment, moment, False)
    with connection.cursor() as cursor:
        Scheduler().run_once(cursor)


def test_the_next_ten_times_of_a_schedule_can_be_shown() -> None:
    made = form(timezone="Asia/Tokyo").save()
    made.refresh_from_db()
    times = made.timing.upcoming(10, datetime.now(UTC), made.next_run_at)
    assert times[0] == made.next_run_at and len(times) == 10
    assert {t.hour for t in times[1:]} == {18}


SHARED = [
    "UTC",
    "Etc/UTC",
    "Etc/GMT+5",
    "EST",
    "Europe/Paris",
    "America/Argentina/Buenos_Aires",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
]


@pytest.mark.parametrize("zone", SHARED)
def test_python_and_the_server_agree_about_every_zone_that_is_taken(zone: str) -> None:
    form(timezone=zone).save()
    start = datetime.now(UTC)
    with connection.cursor() as cursor:
        for month in range(24):
            instant = start + month * timedelta(days=30)
            cursor.execute("SELECT %s::timestamptz AT TIME ZONE timezone FROM stampeded_schedules", [instant])
            assert cursor.fetchone()[0] == instant.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def test_a_zone_that_only_python_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    known = zones.names()
    monkeypatch.setattr(zones, "names", lambda: known | {"Mars/Olympus"})
    monkeypatch.setattr(zones, "ZoneInfo", lambda name: ZoneInfo("UTC"))
    assert "server has no time zone" in str(form(timezone="Mars/Olympus").errors)


# -- system checks


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_tasks", {})
    monkeypatch.setattr(registry, "_names", {})


@pytest.mark.usefixtures("own_registry")
def test_a_declared_schedule_that_is_no_good_is_an_error_with_what_to_do(settings: Any) -> None:
    settings.STAMPEDED = {
        "SCHEDULES": {"bad": {"task": "t", "cron": "@daily", "timezone": "UTC+3"}, "good": {"task": "t", "every": 5}}
    }

    @task(name="shop.report", cron="@daily")
    def report(region: str) -> None: ...

    found = list(checks.check_schedules())
    assert [each.id for each in found] == ["stampeded.E012"] * 2
    assert "region" in found[0].msg and "Etc/GMT-3" in found[1].msg
    assert all(each.hint for each in found)


@pytest.mark.parametrize("value", [[], "daily", {"": {}}, {"k": "0 3 * * *"}, {5: {}}])
def test_a_setting_of_the_wrong_shape_is_an_error(settings: Any, value: Any) -> None:
    settings.STAMPEDED = {"SCHEDULES": value}
    assert [each.id for each in checks.check_settings()] == ["stampeded.E002"]
    assert list(checks.check_schedules()) == []


@pytest.mark.usefixtures("own_registry")
def test_a_zone_that_the_server_lacks_or_reads_otherwise_is_told_by_the_database_check(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.STAMPEDED = {"SCHEDULES": {"k": {"task": "t", "cron": "@daily", "timezone": "Asia/Tokyo"}}}
    assert list(checks.check_database(["default"])) == []
    monkeypatch.setattr(zones, "offset", lambda instant, tz: timedelta(0))
    assert [each.id for each in checks.check_database(["default"])] == ["stampeded.W004"]
    known = zones.names()
    monkeypatch.setattr(zones, "names", lambda: known | {"Mars/Olympus"})
    monkeypatch.setattr(zones, "ZoneInfo", lambda name: ZoneInfo("UTC"))
    settings.STAMPEDED = {"SCHEDULES": {"k": {"task": "t", "cron": "@daily", "timezone": "Mars/Olympus"}}}
    assert [each.id for each in checks.check_database(["default"])] == ["stampeded.E013"]


def test_a_schedule_dumped_and_loaded_is_the_same(tmp_path: Any) -> None:
    form(args=json.dumps({"a": 1})).save()
    before = Schedule.objects.values().get()
    target = tmp_path / "schedules.json"
    call_command("dumpdata", "stampeded.schedule", output=str(target))
    Schedule.objects.all().delete()
    call_command("loaddata", str(target), verbosity=0)
    after = Schedule.objects.values().get()
    for each in (before, after):
        del each["updated_at"], each["created_at"]  # the fixture has milliseconds
    assert after == before
