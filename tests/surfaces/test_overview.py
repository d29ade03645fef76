"""The overview on the app's index: what it shows to whom, what it polls, and that names are nothing but text in it."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin import AdminSite
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext, override_settings
from django.urls import path, reverse
from django.utils import timezone, translation

from django_stampeded import actions, insights
from django_stampeded.admin import register
from django_stampeded.admin.overview import SECTIONS
from django_stampeded.insights.health import MANY_DEAD, Figures, assess
from django_stampeded.models import Batch, Breaker, Job, QueuePolicy, Sample, Schedule, Tally, Worker
from django_stampeded.watch_functions import LongTransaction, Vacuum
from tests.surfaces.test_pages import HOSTILE, RAW

pytestmark = pytest.mark.django_db

own_site = AdminSite(name="own")
register(own_site)
bare_site = AdminSite(name="bare")
for model in (QueuePolicy, Worker):
    from django_stampeded.admin.site import PAGES

    bare_site.register(model, PAGES[model])
urlpatterns = [path("own/", own_site.urls), path("bare/", bare_site.urls)]


@pytest.fixture(autouse=True)
def no_sample(db: None) -> None:
    """Maintenance in some other test may have left some."""
    Sample.objects.all().delete()
    Tally.objects.all().delete()


def sampled(*queues: str, number: int = 5, failures: dict[str, int] | None = None, ended: int = 10) -> None:
    """Samples of the last seconds, as maintenance would have written them."""
    now = timezone.now()
    slot = int(now.timestamp() // 5)
    for place in range(number):
        for queue in ("", *queues):
            Sample.objects.create(
                queue=queue,
                slot=slot - place,
                at=now - timedelta(seconds=5 * place),
                seconds=5,
                available=7,
                retryable=1,
                executing=2,
                oldest_waiting_secs=12.5,
                completed=ended,
                discarded=0,
                cancelled=0,
                failures=failures or {},
                final_counts=[0, 0, 0],
            )


def index(client: Client) -> str:
    response = client.get(reverse("admin:app_list", args=["stampeded"]))
    assert response.status_code == 200
    return str(response.content.decode())


def live(client: Client) -> dict[str, Any]:
    response = client.get(reverse("admin:stampeded_live"))
    assert response.status_code == 200
    return dict(json.loads(response.content))


def test_an_install_without_anything_says_how_to_begin(root: Client) -> None:
    page = index(root)
    assert "Nothing has happened here yet." in page
    assert "send_receipt.enqueue(order_id=42)" in page and "manage.py runstampeded" in page
    assert "There are no samples yet" in page


def test_without_a_script_all_numbers_are_there(root: Client, make_job: Any, make_worker: Any) -> None:
    worker = make_worker()
    make_job(tenant_id="acme", scheduled_at=timezone.now() - timedelta(minutes=20))
    make_job(tenant_id="acme", state="executing", claimed_by=worker.pk, claimed_at=timezone.now(), task="shop.pay")
    Schedule.objects.create(
        key="nightly", queue="mail", task="t", interval_secs=60, next_run_at=timezone.now() - timedelta(hours=1)
    )
    QueuePolicy.objects.create(queue="mail", verdict="hold", reason="the mail server is slow", decided_at=timezone.now())
    sampled("mail", failures={"raised": 3})
    page = index(root)
    assert 'data-code="behind"' in page and 'data-code="schedules_late"' in page
    assert '<dd data-figure="waiting">1</dd>' in page and '<dd data-figure="running">1</dd>' in page
    assert "node1:7" in page and "shop.pay" in page and "acme" in page and "nightly" in page
    assert "the mail server is slow" in page
    assert "The charts as tables" in page and "Failures a minute" in page


def test_the_address_that_is_polled_sends_the_same_sections_and_the_charts(root: Client, make_job: Any) -> None:
    make_job()
    sampled("mail", failures={"raised": 3})
    found = live(root)
    assert list(found["sections"]) == list(SECTIONS)
    charts = found["drawing"]["charts"]
    assert charts["depth"] == {"lines": ["all queues", "mail"], "values": [[8] * 5, [8] * 5]}
    assert charts["throughput"]["values"][1] == [2.0] * 5
    assert charts["failures"] == {"lines": ["raised"], "values": [[3, 6, 9, 12, 15]]}
    assert root.post(reverse("admin:stampeded_live")).status_code == 405


def test_a_queue_that_was_idle_has_zeroes_and_a_time_without_samples_has_no_point() -> None:
    sampled("mail", number=2)
    Sample.objects.filter(queue="mail").order_by("slot").first().delete()  # type: ignore[union-attr]
    drawn = insights.charts()
    assert drawn.depth == [[8, 8], [0, 8]] and len(drawn.times) == 2


def test_the_charts_show_the_busiest_queues_and_all_of_them_together() -> None:
    sampled(*(f"q{number:02}" for number in range(20)), number=2)
    Sample.objects.filter(queue="q15").update(available=900)
    drawn = insights.charts()
    assert drawn.queues[0] == "" and len(drawn.queues) == 8 and "q15" in drawn.queues


def test_tenants_at_their_limit_and_open_breakers_are_told(client_of: Any, make_job: Any, make_worker: Any) -> None:
    worker = make_worker()
    ann = actions.Actor("ann")
    actions.change_limit("mail", "tenant", None, {"max_running": 1}, actor=ann)
    actions.change_limit("mail", "tenant", "big", {"rate_limit": 9, "rate_period_secs": 60}, actor=ann)
    for tenant in ("acme", "big"):
        make_job(tenant_id=tenant, state="executing", claimed_by=worker.pk, claimed_at=timezone.now())
    for number in range(6):
        make_job(tenant_id=("acme", "big", "idle")[number % 3])
    make_job(tenant_id="acme", queue="unlimited")
    found = {load.tenant: (load.running, load.next, load.held_back) for load in insights.overview().tenants}
    assert found == {"acme": (1, 3, 2), "big": (1, 2, 0), "idle": (0, 2, 0)}
    actions.trip_breaker("destination", "api.example.org", actor=ann, reason="it is moving house")
    Breaker.objects.create(kind="task", key="shop.fine")
    section = live(client_of("ann", "view_breaker"))["sections"]["breakers"]
    assert "api.example.org" in section and "it is moving house" in section and "shop.fine" not in section
    assert reverse("admin:stampeded_breaker_changelist") in section


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_are_text_in_every_section_and_in_the_charts(
    root: Client, make_job: Any, make_worker: Any, text: str
) -> None:
    worker = make_worker(hostname=text, queues=[text], metadata={"notifications": text})
    make_job(queue=text, task=text, tenant_id=text)
    make_job(queue=text, task=text, tenant_id=text, state="executing", claimed_by=worker.pk, claimed_at=timezone.now())
    QueuePolicy.objects.create(
        queue=text, verdict="hold", decided_at=timezone.now(), reason=text, paused_at=timezone.now(), paused_reason=text
    )
    Schedule.objects.create(key=text, queue=text, task=text, interval_secs=60, set_aside_reason=text)
    Breaker.objects.create(kind="task", key=text, state="open", opened_at=timezone.now(), reason=text)
    batch = Batch.objects.create(
        name=text, meta={text: text}, on_complete={"queue": text, "task": text, "args": {text: text}}, callback_error=text
    )
    sampled(text, failures={text: 2})
    page = index(root)
    assert not RAW.search(page)
    assert page.count("</script>") == page.count("<script")
    assert not any(RAW.search(markup) for markup in live(root)["sections"].values())
    for address in (reverse("admin:stampeded_batch_changelist"), reverse("admin:stampeded_batch_change", args=[batch.pk])):
        assert not RAW.search(root.get(address).content.decode())


def test_each_section_needs_its_own_permission(client_of: Any, make_job: Any, make_worker: Any) -> None:
    make_job()
    make_worker()
    for number, permission in enumerate(sorted(set(SECTIONS.values()))):
        client = client_of(f"user{number}", permission)
        wanted = [name for name, needed in SECTIONS.items() if needed == permission]
        assert list(live(client)["sections"]) == wanted
        page = index(client)
        for name in SECTIONS:
            assert (f'data-section="{name}"' in page) == (name in wanted)
    assert client_of("auditor", "view_auditentry").get(reverse("admin:stampeded_live")).status_code == 403
    assert "stampeded-overview" not in index(client_of("auditor2", "view_auditentry"))
    assert client_of("nobody").get(reverse("admin:stampeded_live")).status_code == 403
    assert Client().get(reverse("admin:stampeded_live")).status_code == 302


def test_who_may_not_see_the_queues_gets_no_numbers_of_theirs(client_of: Any) -> None:
    sampled("mail", failures={"raised": 3})
    charts = live(client_of("clerk", "view_worker"))["drawing"]["charts"]
    assert all(chart["values"] == [] for chart in charts.values())
    assert "failures" not in live(client_of("ann", "view_queuepolicy"))["drawing"]["charts"]


@override_settings(ROOT_URLCONF=__name__)
def test_it_works_on_an_admin_site_of_ones_own_and_where_pages_are_missing(
    root: Client, make_job: Any, make_worker: Any
) -> None:
    make_worker()
    job = make_job()
    own = root.get("/own/stampeded/").content.decode()
    assert 'data-live="/own/stampeded/queuepolicy/live/"' in own
    assert f'href="/own/stampeded/job/?queue={job.queue}"' in own
    bare = root.get("/bare/stampeded/").content.decode()
    assert "/job/" not in bare and job.queue in bare


def test_it_speaks_the_users_language_and_shows_times_in_their_zone(root: Client) -> None:
    Schedule.objects.create(key="k", queue="mail", task="t", interval_secs=60, next_run_at="2026-01-02T03:04:05Z")
    with translation.override("de"), override_settings(LANGUAGE_CODE="de", TIME_ZONE="Asia/Kolkata"):
        page = index(root)
    assert "2. Januar 2026 08:34" in page
    assert live(root)["drawing"]["zone"] == "UTC"


def test_the_number_of_statements_is_the_same_for_one_row_and_for_many(root: Client, make_job: Any, make_worker: Any) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as caught:
            live(root)
        return len(caught)

    def fill(number: int) -> None:
        worker = make_worker(pid=number, queues=[f"q{number}"])
        make_job(queue=f"q{number}", tenant_id=f"t{number}")
        make_job(queue=f"q{number}", state="executing", claimed_by=worker.pk, claimed_at=timezone.now())
        Schedule.objects.create(key=f"k{number}", queue="q", task="t", interval_secs=60)

    fill(0)
    sampled("q0")
    before = statements()
    for number in range(1, 30):
        fill(number)
    assert statements() == before


def test_an_old_schema_is_told_with_its_cure_instead_of_an_error(root: Client) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE OR REPLACE FUNCTION stampeded_schema_version() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 0'"
        )
    page = index(root)
    assert 'data-code="schema"' in page and "manage.py migrate stampeded" in page


NOW = timezone.now()


@pytest.mark.parametrize(
    ("figures", "codes"),
    [
        ({"schema_problem": "Run it."}, ["schema"]),
        ({"transactions": [LongTransaction(7, "psql", "idle in transaction", timedelta(hours=1))]}, ["long_transaction"]),
        ({"vacuums": [Vacuum("jobs", MANY_DEAD, 1000, True, None)]}, ["autovacuum_behind"]),
        ({"vacuums": [Vacuum("jobs", MANY_DEAD, 1000, True, NOW)], "now": NOW}, []),
        ({"vacuums": [Vacuum("jobs", 1001, 1000, True, None)]}, []),
        ({"sampled_ago": timedelta(minutes=9)}, []),
    ],
)
def test_health_tells_of_what_slows_the_tables_down(figures: dict[str, Any], codes: list[str]) -> None:
    assert [finding.code for finding in assess(Figures([], [], **figures))] == codes


def test_health_tells_that_no_maintenance_runs_where_workers_do(make_worker: Any) -> None:
    make_worker()
    assert insights.health() == []
    sampled()
    assert insights.health() == []
    Sample.objects.update(at=timezone.now() - timedelta(minutes=5))
    assert [finding.code for finding in insights.health()] == ["no_maintenance"]


def test_a_worker_is_asked_to_stop_only_with_the_permission(client_of: Any, make_worker: Any) -> None:
    from django_stampeded.models import AuditEntry

    worker = make_worker()
    address = reverse("admin:stampeded_worker_stop", args=[worker.pk])
    listed = reverse("admin:stampeded_worker_changelist")
    action = {"action": "stop_workers", "_selected_action": [str(worker.pk)], "index": "0"}
    for name, *permissions in (("a", "view_worker", "change_worker"), ("b", "stop_worker")):
        client = client_of(name, *permissions)
        assert client.post(address).status_code == 403 and client.post(listed, action).status_code == 403
    assert (
        "Ask to stop"
        not in client_of("c", "view_worker").get(reverse("admin:stampeded_worker_change", args=[worker.pk])).content.decode()
    )
    able = client_of("able", "view_worker", "stop_worker")
    assert "Ask to stop" in able.get(reverse("admin:stampeded_worker_change", args=[worker.pk])).content.decode()
    assert able.get(address).status_code == 405
    assert able.post(address).status_code == 302
    assert Worker.objects.get().stop_requested_at is not None
    assert able.post(listed, action).status_code == 302
    assert [entry.action for entry in AuditEntry.objects.all()] == ["stop_worker", "stop_worker"]
    gone = reverse("admin:stampeded_worker_stop", args=["019aaaaa-0000-7000-8000-000000000001"])
    assert able.post(gone).status_code == 302 and AuditEntry.objects.count() == 2


def test_batches_are_listed_with_their_progress_and_in_constant_statements(root: Client, make_job: Any) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as caught:
            assert root.get(reverse("admin:stampeded_batch_changelist")).status_code == 200
        return len(caught)

    batch = Batch.objects.create(name="import 42", on_complete={"queue": "q", "task": "t", "args": {"token": "hunter2"}})
    for state in ("completed", "discarded", "available", "executing"):
        make_job(batch_id=batch.pk, state=state)
    before = statements()
    page = root.get(reverse("admin:stampeded_batch_changelist")).content.decode()
    assert "import 42" in page and "2/4" in page and "50%" in page
    own = root.get(reverse("admin:stampeded_batch_change", args=[batch.pk])).content.decode()
    assert re.findall(r">(\w+: 1)</a>", own) == ["available: 1", "executing: 1", "completed: 1", "discarded: 1"]
    assert "hunter2" not in own
    for number in range(20):
        Batch.objects.create(name=f"b{number}")
    assert statements() == before
    done = Batch.objects.create(name="done", finished_at=timezone.now(), succeeded=True, counts={"completed": 3})
    assert insights.batch_statuses([done])[0].percent == 100
    assert Job.objects.count() == 4
