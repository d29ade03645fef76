"""The dashboard's statements on a large table: each is served by an index, and reads no more when the table grows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_stampeded import insights
from django_stampeded.models import Job

JOBS = 120_000
MOST_PAGES_READ = 4_500  # the table has some 6,000

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

FILL = """
INSERT INTO stampeded_jobs (queue, task, state, priority, attempt, args, scheduled_at, finished_at, claimed_by, failure_kind,
                            last_error, error_fingerprint)
SELECT CASE WHEN n %% 7 = 0 THEN 'bulk' WHEN n %% 1000 = 1 THEN 'rare' ELSE 'mail' END,
       'shop.task' || n %% 20, s, n %% 5, 1, jsonb_build_object('order', n),
       now() - n * interval '1 second',
       CASE WHEN s IN ('completed', 'discarded', 'cancelled') THEN now() - n * interval '1 second' END,
       CASE WHEN s = 'executing' THEN '019aaaaa-0000-7000-8000-000000000001'::uuid END,
       CASE WHEN s IN ('discarded', 'retryable') THEN 'raised' END,
       CASE WHEN s IN ('discarded', 'retryable') THEN 'ValueError: order ' || n END,
       CASE WHEN s IN ('discarded', 'retryable') THEN sha256(('e' || n %% 9)::bytea) END
  FROM (SELECT n, CASE WHEN n %% 10 < 6 THEN 'completed' WHEN n %% 10 < 9 THEN 'available' WHEN n %% 500 = 9 THEN 'executing'
                       WHEN n %% 40 = 19 THEN 'discarded' WHEN n %% 100 = 29 THEN 'retryable' ELSE 'completed' END AS s
          FROM generate_series(1, %s) n) x
"""


@pytest.fixture
def large(db: None, make_worker: Any) -> Iterator[None]:
    make_worker(id="019aaaaa-0000-7000-8000-000000000001")
    with connection.cursor() as cursor:
        cursor.execute(FILL, [JOBS])
        cursor.execute("ANALYZE stampeded_jobs")
        cursor.execute("SET LOCAL max_parallel_workers_per_gather = 0")
    yield


def plans_of(run: Callable[[], object]) -> list[tuple[str, dict[str, Any]]]:
    """The plan, as really run, of each statement that reads the job table."""
    with CaptureQueriesContext(connection) as caught:
        run()
    found = []
    with connection.cursor() as cursor:
        for statement in (entry["sql"] for entry in caught):
            if statement.startswith("SELECT") and "stampeded_jobs" in statement:
                cursor.execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement.replace("%", "%%"), [])
                plan = cursor.fetchone()[0]
                found.append((statement, (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]))
    return found


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


QUERIES = [
    {},
    {"p": "800"},
    *({"state": state} for state in ("available", "executing", "retryable", "completed", "discarded", "cancelled")),
    {"queue": "mail"},
    {"queue": "rare"},
    {"queue": "rare", "state": "discarded"},
    {"queue": "mail", "state": "completed"},
    {"task": "shop.task3"},
    {"task": "shop.none"},
    {"failure_kind": "raised"},
    {"failure_kind": "throttled", "state": "discarded"},
    {"fingerprint": "ab" * 32},
    {"q": "no such text"},
    {"q": "order=77"},
    {"q": "019aaaaa-0000-7000-8000-000000000001"},
]


def check(plans: list[tuple[str, dict[str, Any]]]) -> None:
    assert plans
    for statement, plan in plans:
        scanned = [node for node in nodes(plan) if node["Node Type"] == "Seq Scan" and "_jobs" in node["Relation Name"]]
        assert not scanned, statement
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < MOST_PAGES_READ, statement


@pytest.mark.timeout(600)
def test_no_list_search_or_overview_scans_the_table(large: None, root: Client) -> None:
    for query in QUERIES:
        check(plans_of(lambda query=query: root.get(reverse("admin:stampeded_job_changelist"), query)))  # type: ignore[misc]
    waiting = Job.objects.filter(state="available", queue="mail").order_by("-id").first()
    assert waiting is not None
    check(plans_of(lambda: root.get(reverse("admin:stampeded_job_change", args=[waiting.pk]))))
    check(plans_of(lambda: root.get(reverse("admin:stampeded_job_errors"))))
    check(plans_of(lambda: root.get(reverse("admin:stampeded_worker_changelist"))))


def test_the_oldest_due_job_is_found_by_hopping_over_the_index(large: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT stampeded_next_due('mail')")
        plan = cursor.fetchone()[0]
    plan = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 500
    with CaptureQueriesContext(connection) as caught:
        queues = {queue.queue: queue for queue in insights.queues()}
    assert not any("stampeded_jobs" in entry["sql"] for entry in caught)
    assert queues["mail"].oldest_age is not None
