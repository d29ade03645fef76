"""Schedules in the admin: made and changed with every mistake said at once, and nothing undone that was not changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from django_stampeded import actions
from django_stampeded.insights import Redactor
from django_stampeded.models import AuditEntry, CronOccurrence, Job, Schedule

pytestmark = pytest.mark.django_db

GOOD = {
    "key": "nightly",
    "task": "shop.report",
    "queue": "mail",
    "cron_expr": "0 3 * * *",
    "interval_secs": "",
    "timezone": "Europe/Paris",
    "dst_policy": "",
    "missed_policy": "once",
    "overlap_policy": "allow",
    "jitter_secs": "0",
    "tenant_id": "",
    "priority": "0",
    "args": '{"order": 7}',
}


def add(client: Client, **fields: str) -> Any:
    return client.post(reverse("admin:stampeded_schedule_add"), {**GOOD, **fields})


def change(client: Client, key: str = "nightly", **fields: str) -> Any:
    return client.post(reverse("admin:stampeded_schedule_change", args=[key]), {**GOOD, **fields})


def test_a_schedule_is_made_and_first_runs_at_its_next_occurrence(root: Client) -> None:
    assert add(root).status_code == 302
    schedule = Schedule.objects.get()
    assert (schedule.cron_expr, schedule.interval_secs, schedule.dst_policy) == ("0 3 * * *", None, "wall_clock")
    assert (schedule.args, schedule.tenant_id, schedule.paused) == ({"order": 7}, None, False)
    assert timezone.now() < schedule.next_run_at <= timezone.now() + timedelta(days=2)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.detail["schedule"]) == ("make_schedule", "nightly")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"cron_expr": "61 * * * *"}, "61"),
        ({"cron_expr": "0 0 30 2 *"}, ""),
        ({"cron_expr": ""}, "exactly one"),
        ({"interval_secs": "60"}, "exactly one"),
        ({"cron_expr": "", "interval_secs": "0"}, "greater than or equal to 1"),
        ({"timezone": "Americas/Vancouver"}, "Americas/Vancouver"),
        ({"timezone": "UTC+3"}, "UTC+3"),
        ({"timezone": ""}, "required"),
        ({"args": "[1]"}, "JSON object"),
        ({"args": "{"}, "valid JSON"),
        ({"key": ""}, "required"),
        ({"queue": "x" * 256}, "at most 255"),
        ({"priority": "40000"}, "less than or equal to 32767"),
        ({"jitter_secs": "-1"}, "greater than or equal to 0"),
        ({"missed_policy": "never"}, "not one of the available choices"),
    ],
)
def test_a_mistake_is_refused_with_its_reason_and_nothing_is_written(root: Client, fields: dict[str, str], said: str) -> None:
    response = add(root, **fields)
    assert response.status_code == 200
    page = response.content.decode()
    assert "errorlist" in page and said in page
    assert not Schedule.objects.exists() and not AuditEntry.objects.exists()


def test_a_second_schedule_of_the_same_key_is_refused(root: Client) -> None:
    assert add(root).status_code == 302
    response = add(root, task="other")
    assert response.status_code == 200 and "of this key already" in response.content.decode()
    assert Schedule.objects.get().task == "shop.report"


def test_saving_unchanged_changes_nothing(root: Client) -> None:
    assert add(root).status_code == 302
    planned = datetime(2027, 3, 14, 7, tzinfo=UTC)
    Schedule.objects.update(next_run_at=planned, last_run_at=datetime(2026, 11, 1, 5, 30, tzinfo=UTC), dst_policy="instant")
    before = Schedule.objects.values().get()
    assert root.get(reverse("admin:stampeded_schedule_change", args=["nightly"])).status_code == 200
    assert change(root, dst_policy="instant").status_code == 302
    assert Schedule.objects.values().get() == before
    assert AuditEntry.objects.count() == 1


def test_a_change_writes_only_what_was_changed(root: Client) -> None:
    assert add(root).status_code == 302
    planned = timezone.now() + timedelta(hours=5)
    Schedule.objects.update(next_run_at=planned, paused=True)
    assert change(root, queue="bulk", dst_policy="wall_clock").status_code == 302
    schedule = Schedule.objects.get()
    assert (schedule.queue, schedule.next_run_at, schedule.paused) == ("bulk", planned, True)
    assert AuditEntry.objects.latest("id").detail["columns"] == ["queue"]


def test_a_new_timing_is_planned_anew(root: Client) -> None:
    assert add(root).status_code == 302
    assert change(root, cron_expr="", interval_secs="3600", dst_policy="instant").status_code == 302
    schedule = Schedule.objects.get()
    assert (schedule.cron_expr, schedule.interval_secs) == (None, 3600)
    assert timedelta(minutes=50) < schedule.next_run_at - timezone.now() <= timedelta(hours=1)


def test_secrets_are_hidden_in_the_form_and_stay_when_left_alone(root: Client, client_of: Any) -> None:
    Schedule.objects.create(
        key="nightly", task="shop.report", queue="mail", cron_expr="0 3 * * *", timezone="Europe/Paris",
        dst_policy="wall_clock", args={"order": 7, "card": {"api_token": "hunter2"}, "url": "https://ann:hunter2@x/"},
    )  # fmt: skip
    address = reverse("admin:stampeded_schedule_change", args=["nightly"])
    for client in (root, client_of("viewer", "view_schedule")):
        page = client.get(address).content.decode()
        assert "hunter2" not in page and "[redacted]" in page
    shown = '{"order": 8, "card": {"api_token": "[redacted]"}, "url": "https://ann:[redacted]@x/"}'
    assert change(root, args=shown, dst_policy="wall_clock").status_code == 302
    stored = {"order": 8, "card": {"api_token": "hunter2"}, "url": "https://ann:hunter2@x/"}
    assert Schedule.objects.get().args == stored
    assert change(root, args='{"card": {"api_token": "new"}}', dst_policy="wall_clock").status_code == 302
    assert Schedule.objects.get().args == {"card": {"api_token": "new"}}
    assert "hunter2" not in str(list(AuditEntry.objects.values()))


@pytest.mark.parametrize(
    ("edited", "stored", "meant"),
    [
        ({"token": "[redacted]"}, {"token": 1}, {"token": 1}),
        ({"token": "[redacted]"}, {}, {"token": "[redacted]"}),
        ({"a": [{"token": "[redacted]"}, 2]}, {"a": [{"token": "x"}, 1]}, {"a": [{"token": "x"}, 2]}),
        ({"a": [1]}, {"a": [1, 2]}, {"a": [1]}),
        ({"a": 1}, {"token": "x"}, {"a": 1}),
        ({"token": ""}, {"token": "x"}, {"token": ""}),
    ],
)
def test_what_was_hidden_comes_back_only_where_it_was(edited: Any, stored: Any, meant: Any) -> None:
    assert Redactor(["token"]).restore(edited, stored) == meant


def test_the_next_times_are_shown_in_the_schedules_own_zone(root: Client) -> None:
    assert add(root, timezone="Asia/Tokyo", cron_expr="@daily").status_code == 302
    page = root.get(reverse("admin:stampeded_schedule_change", args=["nightly"])).content.decode()
    assert page.count("00:00:00+09:00") == 10


def test_a_stored_schedule_that_makes_no_sense_is_shown_with_the_reason(root: Client) -> None:
    Schedule.objects.create(key="odd", task="t", queue="q", cron_expr="nonsense", timezone="NOPE+3", set_aside_reason="why")
    assert root.get(reverse("admin:stampeded_schedule_changelist")).status_code == 200
    page = root.get(reverse("admin:stampeded_schedule_change", args=["odd"])).content.decode()
    assert "nonsense" in page and "why" in page


def test_deleting_takes_the_ledger_along_without_listing_it(root: Client) -> None:
    assert add(root).status_code == 302
    CronOccurrence.objects.bulk_create(CronOccurrence(cron_key_id="nightly", occurrence_token=f"token{n}") for n in range(50))
    address = reverse("admin:stampeded_schedule_delete", args=["nightly"])
    assert "token7" not in root.get(address).content.decode()
    assert root.post(address, {"post": "yes"}).status_code == 302
    assert not Schedule.objects.exists() and not CronOccurrence.objects.exists()
    assert AuditEntry.objects.latest("id").action == "delete_schedule"


@pytest.mark.parametrize("permission", ["view_schedule", "change_schedule", "add_schedule", "delete_schedule", "view_job"])
def test_making_changing_and_deleting_each_need_their_permission(client_of: Any, permission: str) -> None:
    Schedule.objects.create(key="there", queue="mail", task="t", interval_secs=60)
    client = client_of("ann", permission)
    assert (add(client).status_code == 302) == (permission == "add_schedule")
    assert (change(client, "there", dst_policy="instant").status_code == 302) == (permission == "change_schedule")
    deleted = client.post(reverse("admin:stampeded_schedule_delete", args=["there"]), {"post": "yes"})
    assert (deleted.status_code == 302) == (permission == "delete_schedule")


def test_a_schedule_is_run_now_beside_its_planned_times(root: Client, client_of: Any) -> None:
    assert add(root).status_code == 302
    planned = Schedule.objects.get().next_run_at
    address = reverse("admin:stampeded_schedule_changelist")
    data = {"action": "run_schedules", "_selected_action": ["nightly"], "index": "0"}
    assert client_of("changer", "view_schedule", "change_schedule").post(address, data).status_code == 403
    page = client_of("runner", "view_schedule", "run_schedule", "view_job").post(address, data, follow=True).content.decode()
    job = Job.objects.get()
    assert (job.task, job.queue, job.args) == ("shop.report", "mail", {"order": 7})
    assert reverse("admin:stampeded_job_change", args=[job.pk]) in page
    assert Schedule.objects.get().next_run_at == planned
    entry = AuditEntry.objects.latest("id")
    assert (entry.actor, entry.action) == ("runner", "run_schedule")


def test_a_schedule_that_is_gone_is_neither_run_nor_changed_nor_audited() -> None:
    nobody = actions.Actor("ann")
    assert actions.run_schedule("gone", actor=nobody) is None
    assert not actions.save_schedule("gone", {"queue": "x"}, actor=nobody)
    assert not actions.delete_schedule("gone", actor=nobody)
    assert not AuditEntry.objects.exists()
