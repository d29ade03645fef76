"""A real browser for tests: Debian's chromium by Playwright, under the strictest policy, where any complaint is a failure."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.test import Client, override_settings

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
CSP = "default-src 'self'; frame-ancestors 'none'; form-action 'self'"


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


def strict_policy() -> Any:
    """While this lasts, every page is sent with the strictest policy."""
    kept = [name for name in settings.MIDDLEWARE if "csp" not in name]
    return override_settings(MIDDLEWARE=[f"{__name__}.StrictPolicy", *kept])


def sign_in(page: Any, live_server: Any, client: Client) -> None:
    """Gives the browser the session of a test client."""
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    page.context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": live_server.url}])


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
