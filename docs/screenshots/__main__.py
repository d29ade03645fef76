"""Takes a picture of each page of the admin, light and dark, for docs/images.

Owns the list of pages and the browser; what they show is scene.py's. A server, a database and a browser are started for
this and stopped again. A new page is one more line in PAGES.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

IMAGES = Path(__file__).parents[1] / "images"
MOST_BYTES = 150_000
SIZE = {"width": 1280, "height": 900}
SCHEMES = ("light", "dark")

# The picture's name, the name of the address, with a query where it needs one, and what the address needs, told by the scene
# once it stands.
PAGES: list[tuple[str, str, Callable[[Any], list[Any]]]] = [
    ("overview", "app_list", lambda scene: ["stampeded"]),
    ("jobs", "stampeded_job_changelist", lambda scene: []),
    ("job", "stampeded_job_change", lambda scene: [scene.failed_job]),
    ("errors", "stampeded_job_errors", lambda scene: []),
    ("queues", "stampeded_queuepolicy_changelist", lambda scene: []),
    ("limits", "stampeded_queuelimit_changelist", lambda scene: []),
    ("breakers", "stampeded_breaker_changelist", lambda scene: []),
    ("bulk", "stampeded_bulkoperation_change", lambda scene: [scene.operation]),
    ("enqueue", "stampeded_job_enqueue?task=example_project.imports.tasks.import_file", lambda scene: []),
    ("schedules", "stampeded_schedule_changelist", lambda scene: []),
    ("schedule", "stampeded_schedule_change", lambda scene: ["nightly-report"]),
    ("workers", "stampeded_worker_changelist", lambda scene: []),
    ("batches", "stampeded_batch_changelist", lambda scene: []),
    ("batch", "stampeded_batch_change", lambda scene: [scene.batch]),
    ("audit", "stampeded_auditentry_changelist", lambda scene: []),
]

HEIGHTS = {"overview": 1600, "job": 1400, "jobs": 840}
"""Pages of which more is to be seen, or less."""


def main() -> None:
    """Take them all; ends with a message where one is too large to be kept."""
    from django_stampeded.testing.postgres import LocalPostgres

    with LocalPostgres() as server:
        os.environ["DATABASE_URL"] = server.url
        os.environ["DJANGO_SETTINGS_MODULE"] = "example_project.settings"
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        from docs.screenshots.scene import Scene

        scene = Scene()
        with serving() as address, browsing() as browser:
            for scheme in SCHEMES:
                take(browser, scheme, address, scene)
    large = [path.name for path in IMAGES.glob("*.png") if path.stat().st_size > MOST_BYTES]
    if large:
        sys.exit(f"error: {', '.join(large)} are over {MOST_BYTES:,} bytes: show less on them")


@contextmanager
def serving() -> Iterator[str]:
    """The example project's web server; gives its address."""
    from django_stampeded.testing.postgres import free_port
    from example_project.imports.demo.processes import Child

    address = f"127.0.0.1:{free_port()}"
    with TemporaryDirectory() as folder:
        server = Child("web server", ["runserver", "--noreload", "--skip-checks", address], Path(folder) / "server.log")
        with server:
            yield f"http://{address}"


@contextmanager
def browsing() -> Iterator[Any]:
    """Debian's chromium."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or "/usr/bin/chromium"
    # Playwright keeps an event loop in this thread, which Django takes for an async caller.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


def take(browser: Any, scheme: str, address: str, scene: Any) -> None:
    """All pages in one colour scheme."""
    from django.urls import reverse

    context = browser.new_context(viewport=SIZE, color_scheme=scheme)
    context.add_cookies([{"name": "sessionid", "value": scene.session, "url": address}])
    page = context.new_page()
    for name, view, arguments in PAGES:
        page.set_viewport_size({**SIZE, "height": HEIGHTS.get(name, SIZE["height"])})
        named, sign, query = view.partition("?")
        go(page, address + reverse(f"admin:{named}", args=arguments(scene)) + sign + query)
        page.screenshot(path=str(IMAGES / f"{name}-{scheme}.png"))
        print(f"{name}-{scheme}.png")
    context.close()


def go(page: Any, url: str) -> None:
    """Open a page; the server may still be about to start."""
    from playwright.sync_api import Error

    for left in reversed(range(100)):
        try:
            page.goto(url, wait_until="load")
            return
        except Error:
            if not left:
                raise
            page.wait_for_timeout(200)


if __name__ == "__main__":
    main()
