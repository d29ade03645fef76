"""The dashboard in a real browser: an operator finds a failed job and retries it; nothing violates a strict CSP."""

from __future__ import annotations

import os
from typing import Any

import pytest
from django.urls import reverse

from django_stampeded.models import AuditEntry, Job
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
