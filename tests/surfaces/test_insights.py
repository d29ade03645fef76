"""The read service against real tables."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_stampeded import insights
from django_stampeded.insights import Selection
from django_stampeded.models import AuditEntry, Job, QueuePolicy, Schedule, Start

pytestmark = pytest.mark.django_db


def test_queues_tell_depth_age_workers_and_policy(make_job: Any, make_worker: Any) -> None:
    make_job(scheduled_at=timezone.now() - timedelta(minutes=10))
    make_job(scheduled_at=timezone.now() - timedelta(minutes=20), state="retryable", priority=5)
    make_job(scheduled_at=timezone.now() + timedelta(minutes=20))
    make_job(state="completed")
    make_job(queue="later", scheduled_at=timezone.now() + timedelta(days=1))
    make_worker(queues=["mail"])
    make_worker(queues=["*"])
    make_worker(queues=["mail"], last_heartbeat=timezone.now() - timedelta(days=1))
    QueuePolicy.objects.create(queue="idle", paused_at=timezone.now(), paused_reason="why not")
    idle, later, mail = insights.queues()
    assert (idle.queue, idle.paused, idle.paused_reason, idle.counts, idle.live_workers) == ("idle", True, "why not", {}, 1)
    assert (later.queue, later.waiting, later.oldest_age, later.live_workers) == ("later", 1, None, 1)
    assert mail.counts == {"available": 2, "retryable": 1, "completed": 1}
    assert (mail.waiting, mail.running, mail.live_workers) == (3, 0, 2)
    assert mail.oldest_age is not None and timedelta(minutes=20) <= mail.oldest_age < timedelta(minutes=30)


def test_a_pause_that_has_ended_by_itself_is_none() -> None:
    past, to_come = timezone.now() - timedelta(minutes=1), timezone.now() + timedelta(hours=1)
    for queue, until in (("ended", past), ("goes on", to_come), ("*", past)):
        QueuePolicy.objects.create(queue=queue, paused_at=past, paused_until=until)
    assert [(queue.queue, queue.paused, queue.paused_until) for queue in insights.queues()] == [
        ("ended", False, None),
        ("goes on", True, to_come),
    ]


def test_a_job_that_limits_hold_back_says_which(make_job: Any) -> None:
    policy = QueuePolicy.objects.create(queue="mail", rate_limit=1, rate_period_secs=3600)
    policy.limits.create(scope="tenant", max_running=1)
    policy.limits.create(scope="key", value="free", max_running=9)
    make_job(tenant_id="acme", state="executing", attempt=1)
    Start.objects.create(
        queue="mail", scope="queue", value="", started_at=timezone.now(), n=1, total=1,
        expires_at=timezone.now() + timedelta(hours=2),
    )  # fmt: skip
    held, free = make_job(tenant_id="acme", limit_key="free"), make_job(tenant_id="other", limit_key="busy")
    codes = [[reason.code for reason in insights.facts(insights.find(job.pk)).why] for job in (held, free)]
    assert codes == [["no_worker", "rate_spent", "tenant_limit_reached"], ["no_worker", "rate_spent"]]


def test_workers_tell_what_they_run_and_whether_they_live(make_job: Any, make_worker: Any, settings: Any) -> None:
    settings.STAMPEDED = {"DEAD_AFTER": 60}
    alive = make_worker()
    silent = make_worker(pid=8, last_heartbeat=timezone.now() - timedelta(seconds=90))
    job = make_job(state="executing", claimed_by=alive.pk, attempt=1)
    make_job(state="completed", claimed_by=silent.pk)
    first, second = insights.workers()
    assert (first.id, first.alive, [running.id for running in first.running]) == (alive.pk, True, [job.pk])
    assert (second.id, second.alive, list(second.running)) == (silent.pk, False, [])


def test_a_worker_of_every_queue_but_some_does_not_count_for_those(make_job: Any, make_worker: Any) -> None:
    make_worker(queues=["*"], metadata={"except_queues": ["mail"], "notifications": "polling only"})
    make_worker(pid=8, queues=["*"], metadata={"except_queues": 5, "notifications": [1]}, last_heartbeat="2026-01-01T00:00Z")
    mail, bulk = make_job(), make_job(queue="bulk")
    assert {queue.queue: queue.live_workers for queue in insights.queues()} == {"mail": 0, "bulk": 1}
    assert [worker.notifications for worker in insights.workers()] == ["polling only", ""]
    for job, code in ((mail, "no_worker"), (bulk, "next")):
        found = insights.find(job.pk)
        assert found is not None
        assert insights.facts(found).why[0].code == code


def test_a_jobs_facts_hide_its_secrets(make_job: Any) -> None:
    job = make_job(
        state="discarded",
        args={"order": 1, "customer": {"card_token": "hunter2"}},
        meta={"django": {"authorization": "hunter2"}},
        last_error="Traceback (most recent call last):\n…\nValueError: password=hunter2 refused",
        errors=[{"at": "2026-01-02T03:04:05.5Z", "attempt": 2, "kind": "raised", "message": "token='hunter2'"}],
        checkpoint={"api_key": "hunter2"},
        dedup_scope="secret=hunter2",
    )
    found = insights.find(job.pk)
    assert found is not None
    facts = insights.facts(found)
    assert "hunter2" not in repr(facts)
    assert facts.error_summary == "ValueError: password=[redacted] refused"
    assert facts.errors[0].at is not None and facts.errors[0].attempt == 2
    assert [reason.code for reason in facts.why] == ["final"]


@pytest.mark.parametrize(
    "ring",
    [
        [{"at": "yesterday", "attempt": "x", "kind": None}, "text", 5, None, {}],
        [{"at": 5, "message": {"a": 1}}],
        [],
    ],
)
def test_an_odd_errors_ring_is_shown_rather_than_refused(make_job: Any, ring: Any) -> None:
    found = insights.find(make_job(errors=ring).pk)
    assert found is not None
    assert len(insights.facts(found).errors) == len(ring)


def test_a_waiting_job_tells_how_many_come_first(make_job: Any, make_worker: Any) -> None:
    make_worker()
    for _ in range(3):
        make_job()
    make_job(priority=-1)
    make_job(scheduled_at=timezone.now() + timedelta(hours=1), priority=-9)
    make_job(queue="other", priority=-9)
    last = insights.find(make_job(priority=1).pk)
    assert last is not None
    assert insights.facts(last).why[0].text == "It is due and waits behind 4 jobs."


def test_a_job_is_found_by_its_id_and_only_in_its_queue(make_job: Any) -> None:
    job = make_job()
    assert insights.find(job.pk) is not None
    assert insights.find(job.pk, "mail") is not None
    assert insights.find(job.pk, "other") is None
    assert insights.find(uuid4()) is None


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Selection(), "abcd"),
        (Selection(queue="mail"), "abc"),
        (Selection(state="discarded"), "b"),
        (Selection(state="discarded", queue="bulk"), ""),
        (Selection(task="shop.pay"), "c"),
        (Selection(failure_kind="raised"), "b"),
        (Selection(fingerprint="ab01"), "b"),
        (Selection(fingerprint="ab"), "b"),
        (Selection(fingerprint="aa"), ""),
        (Selection(fingerprint="ff"), ""),
        (Selection(fingerprint="not hexadecimal"), ""),
        (Selection(text="PAY"), "c"),
        (Selection(text="no such"), "b"),
        (Selection(text="order=7"), "a"),
        (Selection(text="order = 7"), "a"),
        (Selection(text="order:7"), "a"),
        (Selection(text="order:70"), ""),
        (Selection(tenant="acme"), "c"),
        (Selection(tenant="acme", queue="bulk"), ""),
        (Selection(since="1h"), "acd"),
        (Selection(since="1h", queue="mail"), "ac"),
        (Selection(state="discarded", since="1h"), ""),
        (Selection(state="discarded", until="1h"), "b"),
        (Selection(since="tomorrow"), ""),
        (Selection(since="2026-01-01T00:00:00Z", until="2026-01-03T00:00:00+00:00", state="discarded"), "b"),
        (Selection(text="code=007"), "d"),
        (Selection(text="flag=true"), "d"),
        (Selection(text="order={}"), ""),
        (Selection(text="order=NaN"), ""),
        (Selection(text="order=1e999"), ""),
        (Selection(text="card_token=hunter2"), ""),
        (Selection(text="100%"), ""),
        (Selection(text="\x00"), ""),
        (Selection(queue="\x00"), ""),
        (Selection(text="\ud800"), ""),
        (Selection(task="x" * 10_000), ""),
        (Selection(state="'; DROP TABLE stampeded_jobs; --"), ""),
    ],
)
def test_jobs_are_selected_by_any_part(make_job: Any, wanted: Selection, found: str) -> None:
    names = {
        make_job(args={"order": 7, "card_token": "hunter2"}).pk: "a",
        make_job(
            id="01900000-0000-7000-8000-000000000001",
            state="discarded",
            failure_kind="raised",
            error_fingerprint=b"\xab\x01",
            last_error="No such order",
        ).pk: "b",
        make_job(task="shop.pay", tenant_id="acme").pk: "c",
        make_job(queue="bulk", args={"code": "007", "flag": True}).pk: "d",
    }
    page = insights.page(wanted)
    assert "".join(sorted(names[job.pk] for job in page.jobs)) == found
    assert page.total in {None, len(found)}


def test_a_search_for_an_id_finds_that_job_alone(make_job: Any) -> None:
    make_job()
    job = make_job()
    assert [found.pk for found in insights.page(Selection(text=f"  {job.pk} ")).jobs] == [job.pk]
    assert insights.page(Selection(text=str(job.pk), queue="other")).jobs == []


def test_final_jobs_are_listed_by_when_they_finished_and_ties_keep_an_order(make_job: Any) -> None:
    first = make_job(state="completed", finished_at="2026-01-03T00:00:00Z")
    second = make_job(state="completed", finished_at="2026-01-02T00:00:00Z")
    third = make_job(state="completed", finished_at="2026-01-03T00:00:00Z")
    assert [job.pk for job in insights.page(Selection(state="completed")).jobs] == [third.pk, first.pk, second.pk]


def test_errors_are_grouped_by_fingerprint_the_most_frequent_first(make_job: Any) -> None:
    for number in range(3):
        make_job(state="discarded", error_fingerprint=b"a", last_error=f"ValueError: {number}", failure_kind="raised")
    make_job(state="retryable", error_fingerprint=b"b", last_error="KeyError: 1", queue="bulk", task="shop.pay")
    make_job(state="completed", error_fingerprint=b"b", last_error="KeyError: 1")
    make_job(state="discarded")
    found = insights.error_clusters()
    assert [(c.fingerprint, c.jobs, c.summary) for c in found.clusters] == [
        (b"a".hex(), 3, "ValueError: 2"),
        (b"b".hex(), 1, "KeyError: 1"),
    ]
    assert found.clusters[1].tasks == ["shop.pay"] and found.clusters[1].states == {"retryable": 1}
    assert found.complete
    assert [c.jobs for c in insights.error_clusters(queue="bulk").clusters] == [1]


def test_health_reads_queues_workers_and_schedules(make_job: Any) -> None:
    assert insights.health() == []
    make_job(scheduled_at=timezone.now() - timedelta(seconds=1))
    Schedule.objects.create(
        key="nightly", queue="mail", task="t", interval_secs=60, next_run_at=timezone.now() - timedelta(hours=1)
    )
    assert {finding.code for finding in insights.health()} == {"no_worker", "schedules_late"}


def test_the_number_of_statements_does_not_grow_with_the_rows(make_job: Any, make_worker: Any) -> None:
    def statements() -> list[int]:
        numbers = []
        for read in (insights.queues, insights.workers, insights.error_clusters, insights.health):
            with CaptureQueriesContext(
                connection,
            ) as caught:
                read()
            numbers.append(len(caught))
        return numbers

    def fill(number: int) -> None:
        worker = make_worker(pid=number)
        make_job(queue=f"q{number}")
        make_job(queue=f"q{number}", state="executing", claimed_by=worker.pk)
        make_job(queue=f"q{number}", state="discarded", error_fingerprint=str(number).encode(), last_error="x")

    fill(0)
    before = statements()
    for number in range(1, 30):
        fill(number)
    assert statements() == before


def test_everything_read_can_be_written_as_json(make_job: Any) -> None:
    from dataclasses import asdict

    from django.core.serializers.json import DjangoJSONEncoder

    found = insights.find(make_job(state="discarded", error_fingerprint=b"\xff").pk)
    assert found is not None
    assert json.loads(json.dumps(asdict(insights.facts(found)), cls=DjangoJSONEncoder))["fingerprint"] == "ff"
    assert AuditEntry.objects.count() == 0
    assert Job.objects.count() == 1


def test_a_job_that_no_live_worker_has_a_function_for_says_so(make_job: Any, make_worker: Any) -> None:
    make_worker(queues=["*"], metadata={"tasks": ["shop.tasks.receipt"]})
    job = make_job(task="shop.tasks.renamed")

    def decisive() -> str:
        found = insights.find(job.pk)
        assert found is not None
        return insights.facts(found).why[0].code

    assert decisive() == "unknown_task"
    make_worker(pid=8, queues=["*"])  # in another language, say: it lists no tasks
    assert decisive() != "unknown_task"
