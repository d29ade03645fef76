"""A schedule's page: its next times with the changes of the clocks, its last runs, and its timing while it is typed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from django_stampeded import insights
from django_stampeded.models import AuditEntry, CronOccurrence, Job, Schedule
from django_stampeded.timing import timing

pytestmark = pytest.mark.django_db

PREVIEW = "admin:stampeded_schedule_preview"


def test_times_around_a_change_of_the_clocks_are_marked() -> None:
    hourly = timing("30 * * * *", timezone="Europe/Paris")
    autumn = insights.upcoming(hourly, datetime(2026, 10, 24, 23, 45, tzinfo=UTC))
    assert [(time.text[11:], time.mark) for time in autumn[:3]] == [
        ("02:30:00+02:00", "this hour comes twice: the first time"),
        ("02:30:00+01:00", "the clocks have changed from +02:00 to +01:00; this hour comes twice: the second time"),
        ("03:30:00+01:00", ""),
    ]
    spring = insights.upcoming(timing("0 12 * * *", timezone="Europe/Paris"), datetime(2026, 3, 28, 12, tzinfo=UTC))
    assert spring[0].mark == "the clocks have changed from +01:00 to +02:00" and spring[1].mark == ""
    quiet = insights.upcoming(timing("@hourly", timezone="Asia/Kolkata"), datetime(2026, 10, 24, tzinfo=UTC))
    assert len(quiet) == 10 and not any(time.mark for time in quiet)


def test_a_timing_is_previewed_or_its_fault_told(root: Client) -> None:
    good = root.get(reverse(PREVIEW), {"cron_expr": "30 2 * * *", "timezone": "Europe/Paris", "interval_secs": ""}).json()
    assert len(good["times"]) == 10 and good["times"][0]["at"].endswith((":00+01:00", ":00+02:00"))
    assert len(root.get(reverse(PREVIEW), {"interval_secs": "60", "timezone": "UTC"}).json()["times"]) == 10
    for query in (
        {"cron_expr": "61 * * * *", "timezone": "UTC"},
        {"cron_expr": "* * * * *", "timezone": "Europe/Pariss"},
        {"cron_expr": "* * * * *", "interval_secs": "5", "timezone": "UTC"},
        {"interval_secs": "soon", "timezone": "UTC"},
        {"interval_secs": "9" * 30, "timezone": "UTC"},
        {"cron_expr": "<script>", "timezone": "UTC"},
        {"cron_expr": "* * * * *", "timezone": "\x00"},
        {"cron_expr": "* * * * *", "timezone": "UTC", "dst_policy": "x"},
        {},
    ):
        answer = root.get(reverse(PREVIEW), query)
        assert answer.status_code == 200 and answer.json().get("error"), query
        assert answer["Content-Type"] == "application/json"


def test_the_preview_is_for_who_may_write_schedules(client_of: Any) -> None:
    query = {"interval_secs": "60", "timezone": "UTC"}
    assert client_of("viewer", "view_schedule").get(reverse(PREVIEW), query).status_code == 403
    for permission in ("add_schedule", "change_schedule"):
        client = client_of(permission, permission)
        assert client.get(reverse(PREVIEW), query).status_code == 200
        assert client.post(reverse(PREVIEW), query).status_code == 405


def test_the_page_shows_the_last_runs_and_runs_and_pauses(root: Client, make_job: Any, client_of: Any) -> None:
    Schedule.objects.create(key="a/b", queue="mail", task="shop.report", cron_expr="30 2 * * *", timezone="Europe/Paris")
    job = make_job(state="completed")
    for number in range(12):
        CronOccurrence.objects.create(cron_key_id="a/b", occurrence_token=str(number), job_id=job.pk if number else None)
    CronOccurrence.objects.create(cron_key_id="a/b", occurrence_token="x", skipped="missed: it was late")
    address = reverse("admin:stampeded_schedule_change", args=["a_2Fb"])
    page = root.get(address).content.decode()
    assert page.count(reverse("admin:stampeded_job_change", args=[job.pk])) == 9 and "missed: it was late" in page
    post = {"index": "0", "_selected_action": "a/b", "from_page": "1"}
    changelist = reverse("admin:stampeded_schedule_changelist")
    ran = root.post(changelist, {**post, "action": "run_schedules"})
    assert ran["Location"] == address and Job.objects.filter(task="shop.report").exists()
    root.post(changelist, {**post, "action": "pause_schedules"})
    assert Schedule.objects.get().paused and "resume_schedules" in root.get(address).content.decode()
    assert AuditEntry.objects.count() == 2
    viewer = client_of("viewer", "view_schedule")
    shown = viewer.get(address).content.decode()
    assert "run_schedules" not in shown and "stampeded-preview" not in shown
    assert viewer.post(changelist, {**post, "action": "run_schedules"}).status_code == 403


def test_a_page_of_one_schedule_reads_no_more_with_more_runs(
    root: Client, make_job: Any, django_assert_max_num_queries: Any
) -> None:
    Schedule.objects.create(key="k", queue="mail", task="t", interval_secs=60)
    for number in range(30):
        CronOccurrence.objects.create(
            cron_key_id="k", occurrence_token=str(number), job_id=make_job().pk, enqueued_at=timezone.now()
        )
    with django_assert_max_num_queries(9):
        root.get(reverse("admin:stampeded_schedule_change", args=["k"]))
