"""The dashboard in a real browser: an operator finds a failed job and retries it; nothing violates a strict CSP."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import reverse

from django_stampeded import actions
from django_stampeded.actions import bulk_operations
from django_stampeded.models import AuditEntry, BulkOperation, Job, Schedule
from tests.surfaces.browsing import strict_policy

pytestmark = pytest.mark.browser


@pytest.mark.django_db(transaction=True)
def test_an_operator_finds_a_failed_job_and_retries_it(page: Any, live_server: Any, make_user: Any, make_job: Any) -> None:
    make_user("root", superuser=True, password="x")
    job = make_job(
        state="discarded",
        attempt=3,
        max_attempts=3,
        task="shop.<b>send</b>",
        args={"order": 7, "api_token": "hunter2"},
        last_error="ValueError: no such order",
        errors=[{"at": "2026-01-02T03:04:05Z", "attempt": 3, "kind": "raised", "message": "ValueError: no such order"}],
    )
    with strict_policy():
        page.goto(live_server.url + reverse("admin:stampeded_job_changelist"))
        page.fill("#id_username", "root")
        page.fill("#id_password", "x")
        page.click("input[type=submit]")
        page.wait_for_selector("#result_list")
        assert "shop.<b>send</b>" in page.inner_text("#result_list")
        page.click(f"a[href*='{job.pk}']")
        page.wait_for_selector(".stampeded-why")
        assert "hunter2" not in page.content()
        assert "ValueError: no such order" in page.inner_text("#content")
        if shots := os.environ.get("SCREENSHOTS"):
            page.screenshot(path=f"{shots}/job.png", full_page=True)
        page.click("input[value=Retry]")
        page.wait_for_selector(".messagelist")
        assert "1 job will be retried" in page.inner_text(".messagelist")
        assert "available" in page.inner_text(".stampeded-state")
        for name in ("job_changelist", "job_errors", "queuepolicy_changelist", "worker_changelist"):
            page.goto(live_server.url + reverse(f"admin:stampeded_{name}"))
            if shots:
                page.screenshot(path=f"{shots}/{name}.png", full_page=True)
    assert Job.objects.get(pk=job.pk).state == "available"
    assert AuditEntry.objects.get(job_id=job.pk).actor == "root"


@pytest.fixture
def strict() -> Iterator[None]:
    with strict_policy():
        yield


def log_in(page: Any, live_server: Any, view: str) -> None:
    page.goto(live_server.url + reverse(view))
    page.fill("#id_username", "root")
    page.fill("#id_password", "x")
    page.click("input[type=submit]")


@pytest.mark.django_db(transaction=True)
def test_an_operator_retries_an_error_cluster_and_sees_it_done(
    page: Any, live_server: Any, make_user: Any, make_job: Any, strict: None
) -> None:
    make_user("root", superuser=True, password="x")
    for number in range(3):
        make_job(state="discarded", error_fingerprint=b"e" * 32, last_error=f"<img src=x onerror=alert(1)> {number}")
    log_in(page, live_server, "admin:stampeded_job_errors")
    page.wait_for_selector("svg.stampeded-spark")
    page.click("input[value='Retry all']")
    page.wait_for_selector("progress")
    assert "0 done, 0 skipped" in page.inner_text("[data-stampeded-live]")
    operation = BulkOperation.objects.get()
    actions.carry_on(operation.pk)  # what a worker does
    page.wait_for_selector("[data-stampeded-ended]", state="attached")
    assert "3 done, 0 skipped" in page.inner_text("[data-stampeded-live]")
    assert page.query_selector("input[value=Stop]") is None
    assert set(Job.objects.filter(task="shop.send").values_list("state", flat=True)) == {"available"}


@pytest.mark.django_db(transaction=True)
def test_an_operator_acts_on_all_that_a_list_means_and_stops_it(
    page: Any, live_server: Any, make_user: Any, make_job: Any, strict: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_user("root", superuser=True, password="x")
    for _ in range(60):
        make_job()
    log_in(page, live_server, "admin:stampeded_job_changelist")
    page.click("#action-toggle")
    page.click(".actions .question a")
    page.select_option("select[name=action]", "cancel_jobs")
    page.click("button[name=index]")
    page.wait_for_selector("input[name=reason]")
    assert "60 jobs" in page.inner_text("#content")
    page.fill("input[name=reason]", "<b>no longer wanted</b>")
    page.click("input[value='Yes, do it']")
    page.wait_for_selector("progress")
    monkeypatch.setattr(bulk_operations, "PORTION", 20)
    operation = BulkOperation.objects.get()
    bulk_operations._next_portion(operation.pk, "default")
    page.wait_for_function("document.querySelector('[data-stampeded-live]').innerText.includes('20 done')")
    page.click("input[value=Stop]")
    page.wait_for_selector("[data-stampeded-ended]", state="attached")
    assert Job.objects.filter(state="cancelled", task="shop.send").count() == 20


@pytest.mark.django_db(transaction=True)
def test_an_operator_edits_a_schedule_and_sees_its_times_while_typing(
    page: Any, live_server: Any, make_user: Any, strict: None
) -> None:
    make_user("root", superuser=True, password="x")
    Schedule.objects.create(key="nightly", queue="mail", task="shop.report", cron_expr="0 3 * * *", timezone="UTC")
    log_in(page, live_server, "admin:index")
    page.goto(live_server.url + reverse("admin:stampeded_schedule_change", args=["nightly"]))
    page.fill("#id_timezone", "Europe/Pariss")
    page.wait_for_selector("#stampeded-preview .errornote")
    assert "no time zone" in page.inner_text("#stampeded-preview")
    page.fill("#id_timezone", "Europe/Paris")
    page.fill("#id_cron_expr", "30 2 * * *")
    page.wait_for_selector("#stampeded-preview li")
    assert page.locator("#stampeded-preview li").count() == 10
    page.click("input[name=_save]")
    page.wait_for_selector(".messagelist")
    assert Schedule.objects.values_list("cron_expr", "timezone").get() == ("30 2 * * *", "Europe/Paris")
