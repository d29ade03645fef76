"""The dashboard in a real browser: an operator finds a failed job and retries it; nothing violates a strict CSP."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings
from django.urls import reverse

from django_stampeded.models import AuditEntry, Job

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
CSP = "default-src 'self'; frame-ancestors 'none'; form-action 'self'"

pytestmark = pytest.mark.browser


class StrictPolicy:
    """Sends the strictest policy under every version of Django."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: Any) -> Any:
        response = self.get_response(request)
        response["Content-Security-Policy"] = CSP
        return response


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not os.path.exists(CHROMIUM):
        if os.environ.get("CI"):
            pytest.fail("Chromium is missing: install Debian's package “chromium”.")
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    # Playwright keeps an event loop in this thread, which Django takes for an async caller: also while it flushes tables.
    with sync_playwright() as playwright, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield started
        started.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1300, "height": 1000})
    opened = context.new_page()
    complaints: list[str] = []

    def hear(message: Any) -> None:
        if message.type == "error" and not message.location["url"].endswith("/favicon.ico"):
            complaints.append(message.text)

    opened.on("console", hear)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.set_default_timeout(20_000)
    yield opened
    context.close()
    assert not complaints


@pytest.mark.django_db(transaction=True)
def test_an_operator_finds_a_failed_job_and_retries_it(
    page: Any, live_server: Any, make_user: Any, make_job: Any, settings: Any
) -> None:
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
    middleware = [f"{__name__}.StrictPolicy", *[name for name in settings.MIDDLEWARE if "csp" not in name]]
    with override_settings(MIDDLEWARE=middleware):
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
