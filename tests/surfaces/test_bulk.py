"""Acting on many jobs at once from the list: each on its own, reported one by one, confirmed where it is grave."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils.html import escape

from django_stampeded.admin import operations
from django_stampeded.models import AuditEntry, Job

pytestmark = pytest.mark.django_db


def act(client: Client, action: str, jobs: list[Job], follow: bool = True, query: str = "", **data: str) -> Any:
    address = reverse("admin:stampeded_job_changelist") + query
    ticked = [str(job.pk) for job in jobs]
    return client.post(address, {"action": action, "_selected_action": ticked, "index": "0", **data}, follow=follow)


def test_bad_rows_are_skipped_with_reasons_and_the_rest_is_done(root: Client, make_job: Any) -> None:
    jobs = [make_job(state="discarded") for _ in range(7)]
    jobs += [make_job(state="executing", attempt=1), make_job(), make_job(state="claimed", attempt=1)]
    page = act(root, "retry_jobs", jobs).content.decode()
    assert "7 jobs will be retried." in page
    assert "3 jobs were skipped:" in page
    assert "it is running" in page and "it waits to run already" in page
    for job in jobs[7:]:
        assert reverse("admin:stampeded_job_change", args=[job.pk]) in page
    assert AuditEntry.objects.count() == 7


@pytest.mark.parametrize(
    ("action", "state", "now"),
    [
        ("retry_jobs", "discarded", "available"),
        ("run_jobs_now", "retryable", "retryable"),
        ("cancel_jobs", "available", "cancelled"),
        ("discard_jobs", "available", "discarded"),
    ],
)
def test_ticked_jobs_are_changed_and_no_other(root: Client, make_job: Any, action: str, state: str, now: str) -> None:
    jobs = [make_job(state=state) for _ in range(3)]
    act(root, action, jobs[:2])
    assert sorted(Job.objects.filter(pk__in=[job.pk for job in jobs[:2]]).values_list("state", flat=True)) == [now, now]
    assert Job.objects.get(pk=jobs[2].pk).state == state
    assert AuditEntry.objects.count() == 2


def test_deleting_asks_first_and_then_deletes(root: Client, make_job: Any) -> None:
    jobs = [make_job() for _ in range(3)]
    asked = act(root, "delete_jobs", jobs[:2]).content.decode()
    assert "Delete selected" not in asked and "2 jobs in database" in asked
    assert Job.objects.count() == 3
    fields = re.findall(r'<input type="hidden" name="(?!csrf)(\w+)" value="([^"]*)"', asked)
    data: dict[str, list[str]] = {}
    for name, value in fields:
        data.setdefault(name, []).append(value)
    root.post(reverse("admin:stampeded_job_changelist"), data)
    assert [job.pk for job in Job.objects.all()] == [jobs[2].pk]


@pytest.mark.parametrize(
    ("action", "field", "value", "column"),
    [("move_jobs", "to", "bulk", "queue"), ("set_priority_of_jobs", "priority", "-7", "priority")],
)
def test_what_an_act_needs_besides_is_asked_for_first(
    root: Client, make_job: Any, action: str, field: str, value: str, column: str
) -> None:
    jobs = [make_job() for _ in range(3)]
    asked = act(root, action, jobs[:2], follow=False).content.decode()
    assert f'name="{field}"' in asked and not AuditEntry.objects.exists()
    act(root, action, jobs[:2], confirmed="yes", **{field: value})
    assert [str(each) for each in Job.objects.order_by("id").values_list(column, flat=True)][:2] == [value, value]
    assert AuditEntry.objects.count() == 2
    refused = act(root, action, jobs[2:], confirmed="yes", **{field: ""}).content.decode()
    assert "1 job was skipped" in refused and AuditEntry.objects.count() == 2


def test_many_skipped_jobs_do_not_flood_the_page(root: Client, make_job: Any) -> None:
    jobs = [make_job(state="cancelled") for _ in range(30)]
    page = act(root, "cancel_jobs", jobs).content.decode()
    assert "30 jobs were skipped:" in page
    assert page.count(escape("it is cancelled already")) == operations.SKIPS_SHOWN


def test_a_forged_id_is_a_bad_request(root: Client, make_job: Any) -> None:
    make_job()
    data = {"action": "cancel_jobs", "_selected_action": ["x' OR 1=1"], "index": "0"}
    assert root.post(reverse("admin:stampeded_job_changelist"), data).status_code == 400
    assert Job.objects.filter(state="available").exists()


def test_a_button_pressed_twice_from_one_page_acts_once(root: Client, make_job: Any) -> None:
    job = make_job(state="discarded", attempt=3, max_attempts=3)
    page = root.get(reverse("admin:stampeded_job_change", args=[job.pk])).content.decode()
    seen = re.search(r'name="seen" value="([^"]+)"', page)
    assert seen is not None
    address = reverse("admin:stampeded_job_operate", args=[job.pk, "retry"])
    root.post(address, {"seen": seen[1]})
    Job.objects.filter(pk=job.pk).update(state="completed", attempt=4, finished_at="2026-01-01T00:00:00Z")
    again = root.post(address, {"seen": seen[1]}, follow=True).content.decode()
    assert "it has changed since it was shown" in again
    assert Job.objects.get(pk=job.pk).state == "completed"


def test_acting_does_not_load_the_jobs(root: Client, make_job: Any) -> None:
    jobs = [make_job(args={"x": "y" * 1000}) for _ in range(3)]
    with CaptureQueriesContext(connection) as caught:
        act(root, "cancel_jobs", jobs, follow=False)
    listing = [e["sql"] for e in caught if "stampeded_jobs" in e["sql"] and "FOR UPDATE" not in e["sql"]]
    assert not any('"args"' in statement for statement in listing)
