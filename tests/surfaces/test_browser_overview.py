"""The overview in a real browser: charts draw and jobs move while a worker runs, in light and dark, by keyboard too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from django_stampeded import watch_functions
from django_stampeded.maintenance.service import Maintenance, Report
from django_stampeded.models import AuditEntry, Job, QueuePolicy
from django_stampeded.process.outage import Outage
from tests.surfaces.browsing import sign_in, strict_policy
from tests.testapp import tasks
from tests.worker.support import eventually, working

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PAINTED = """() => [...document.querySelectorAll('.stampeded-chart:not([hidden]) canvas')].map(canvas => {
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200) seen.add(data[i] + ',' + data[i + 1] + ',' + data[i + 2]);
  return [...seen].sort().join(' ');
})"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page asks more often than it does, so that no test waits for it long."""
    monkeypatch.setattr("django_stampeded.admin.overview.EVERY_MS", 300)


class QuickSampler:
    """The sampler with slots of a second, so that a test sees charts move."""

    name = "sampler"
    interval = 0.5

    def run_once(self, cur: Any) -> Report:
        return Report(watch_functions.sample(cur, timedelta(seconds=1), timedelta(hours=1)))


@contextmanager
def sampling() -> Iterator[None]:
    maintenance = Maintenance("default", [QuickSampler()], Outage())
    maintenance.start()
    try:
        yield
    finally:
        maintenance.stop()
        maintenance.join(30)


def open_overview(page: Any, live_server: Any, root: Client) -> None:
    sign_in(page, live_server, root)
    page.goto(live_server.url + reverse("admin:app_list", args=["stampeded"]))


def test_jobs_move_and_charts_draw_while_a_worker_runs(page: Any, live_server: Any, root: Client) -> None:
    with strict_policy(), sampling():
        for _ in range(30):
            tasks.sleep.using(queue_name="<script>alert(1)</script>").enqueue(seconds=0.05)
        for _ in range(2):
            tasks.fail.using(max_attempts=1).enqueue()
        open_overview(page, live_server, root)
        page.wait_for_selector("[data-state=live]", state="attached")
        assert page.inner_text("[data-figure=waiting]") == "32"
        assert page.locator("[data-code=no_worker]").count() == 2
        with working():
            page.wait_for_function("() => document.querySelector('[data-figure=waiting]').textContent === '0'")
            page.wait_for_function("() => document.querySelector('[data-figure=workers]').textContent === '1'")
            page.wait_for_function("() => document.querySelectorAll('.stampeded-chart:not([hidden]) canvas').length === 4")
            page.wait_for_function("() => !document.querySelector('[data-code=no_worker]')")
            points = int(page.get_attribute("#stampeded-chart-depth", "data-points"))
            page.wait_for_function(f"() => Number(document.querySelector('#stampeded-chart-depth').dataset.points) > {points}")
            assert "raised" in page.inner_text("[data-section=failures]")
            assert "<script>alert(1)</script>" in page.inner_text("#stampeded-chart-depth .u-legend")
        page.wait_for_function("() => document.querySelector('[data-figure=workers]').textContent === '0'")
    assert Job.objects.filter(state="completed").count() == 30


def test_a_stream_moves_the_page_and_polling_goes_on_where_it_fails(
    page: Any, live_server: Any, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test's server has no streams, so the browser gets one piece of news by hand, and then failures."""
    monkeypatch.setattr("django_stampeded.admin.overview.streams", lambda request: True)
    drawing = {"times": [], "charts": {}, "zone": "UTC", "language": "en", "words": {"live": "Live", "lost": "", "ended": ""}}
    news = {"sections": {"figures": "<dl><dd data-figure='waiting'>4711</dd></dl>"}, "drawing": drawing}
    asked: list[str] = []

    def answer(route: Any) -> None:
        asked.append(route.request.url)
        if len(asked) == 1:
            route.fulfill(content_type="text/event-stream", body=f"data: {json.dumps(news)}\n\n")
        else:
            route.fulfill(status=204)

    page.route("**/stream/", answer)
    with strict_policy():
        open_overview(page, live_server, root)
        page.wait_for_selector("[data-streamed='1']", state="attached")
        tasks.sleep.using(queue_name="mail").enqueue(seconds=0)
        page.wait_for_function("() => document.querySelector('[data-figure=waiting]').textContent === '1'")
        tasks.sleep.using(queue_name="mail").enqueue(seconds=0)
        page.wait_for_function("() => document.querySelector('[data-figure=waiting]').textContent === '2'")
        tasks.sleep.using(queue_name="mail").enqueue(seconds=0)
        page.wait_for_function("() => document.querySelector('[data-figure=waiting]').textContent === '3'")
    assert len(asked) <= 3  # the one that brought something, and two in vain


def test_charts_are_painted_in_the_colours_of_the_theme(page: Any, live_server: Any, root: Client) -> None:
    with strict_policy(), sampling():
        tasks.sleep.using(queue_name="mail").enqueue(seconds=0)
        page.emulate_media(color_scheme="light")
        open_overview(page, live_server, root)
        page.wait_for_function("() => Number(document.querySelector('#stampeded-chart-depth').dataset.points) > 2")
        light = page.evaluate(PAINTED)
        assert len(light) >= 3 and all(light)
        background = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        page.emulate_media(color_scheme="dark")
        page.wait_for_function(f"() => getComputedStyle(document.body).backgroundColor !== {background!r}")
        assert page.evaluate(PAINTED)[0] != light[0]


def test_the_charts_can_be_read_as_tables_by_keyboard_and_stay_while_they_are_read(
    page: Any, live_server: Any, root: Client
) -> None:
    with strict_policy(), sampling():
        tasks.sleep.using(queue_name="mail").enqueue(seconds=0)
        open_overview(page, live_server, root)
        page.wait_for_selector("[data-section=charts] summary")
        page.focus("[data-section=charts] summary")
        page.keyboard.press("Enter")
        page.wait_for_selector("[data-section=charts] caption")
        assert "Jobs that wait" in page.inner_text("[data-section=charts] details")
        points = int(page.get_attribute("#stampeded-chart-depth", "data-points") or 0)
        page.wait_for_function(f"() => Number(document.querySelector('#stampeded-chart-depth').dataset.points) > {points}")
        assert page.locator("[data-section=charts] details[open]").count() == 1


def test_a_queue_is_paused_and_the_overview_says_so(page: Any, live_server: Any, root: Client) -> None:
    with strict_policy():
        tasks.sleep.using(queue_name="mail").enqueue(seconds=0)
        overview = page.context.new_page()
        open_overview(overview, live_server, root)
        overview.wait_for_selector("[data-state=live]", state="attached")
        page.goto(live_server.url + reverse("admin:stampeded_queuepolicy_changelist"))
        page.click("summary:has-text('Pause')")
        page.fill("input[name=reason]", "the mail server is down")
        page.click("details[open] input[type=submit]")
        page.wait_for_selector(".messagelist")
        overview.wait_for_selector("[data-code=paused]")
        assert "the mail server is down" in overview.inner_text("[data-section=queues]")
    assert QueuePolicy.objects.get().paused_at is not None
    assert AuditEntry.objects.get().actor == "root"


def test_a_server_that_is_away_is_told_and_the_page_goes_on_when_it_is_back(page: Any, live_server: Any, root: Client) -> None:
    with strict_policy():
        page = page.context.new_page()  # which may complain: the browser itself does about each 503
        open_overview(page, live_server, root)
        page.wait_for_selector("[data-state=live]", state="attached")
        page.route("**/live/", lambda route: route.fulfill(status=503, body=""))
        page.wait_for_selector("[data-state=lost]", state="attached")
        assert "trying again" in page.inner_text("#stampeded-live")
        page.unroute("**/live/")
        page.wait_for_selector("[data-state=live]", state="attached")
        eventually(lambda: page.inner_text("#stampeded-live") == "Live")


def test_charts_keep_to_their_place_in_a_narrow_window_too(page: Any, live_server: Any, root: Client) -> None:
    outside = """() => [...document.querySelectorAll('.stampeded-chart:not([hidden])')].filter(
        figure => figure.querySelector('canvas').getBoundingClientRect().right > figure.getBoundingClientRect().right).length"""
    with strict_policy(), sampling():
        tasks.sleep.using(queue_name="mail").enqueue(seconds=0)
        open_overview(page, live_server, root)
        page.wait_for_function("() => document.querySelectorAll('.stampeded-chart:not([hidden]) canvas').length === 3")
        for width in (1300, 380):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_function(f"() => ({outside})() === 0")
