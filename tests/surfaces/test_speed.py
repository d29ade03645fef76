"""The dashboard's statements on a large table: each is served by an index, and reads no more when the table grows."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_stampeded import actions, insights
from django_stampeded.insights import Selection, paging
from django_stampeded.models import Batch, Job

JOBS = int(os.environ.get("SPEED_JOBS", "120000"))  # SPEED_JOBS=5000000 takes some minutes and 3 GB
BIG = JOBS > 1_000_000
# The smaller table has some 6,000 pages, so that the steps in which it is looked at are made smaller too.
WINDOW, MOST_PAGES_READ = (10_000, 25_000) if BIG else (2_000, 4_500)
MOST_STATEMENTS = 20

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

FILL = """
INSERT INTO stampeded_jobs (id, queue, task, state, priority, attempt, args, scheduled_at, finished_at, claimed_by,
                            failure_kind, last_error, error_fingerprint, batch_id)
SELECT ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
       CASE WHEN n %% 7 = 0 THEN 'bulk' WHEN n %% 1000 = 1 THEN 'rare' ELSE 'mail' END,
       'shop.task' || n %% 20, s, n %% 5, 1, jsonb_build_object('order', n),
       now() - (most - n) * interval '1 second',
       CASE WHEN s IN ('completed', 'discarded', 'cancelled') THEN now() - (most - n) * interval '1 second' END,
       CASE WHEN s = 'executing' THEN '019aaaaa-0000-7000-8000-000000000001'::uuid END,
       CASE WHEN s IN ('discarded', 'retryable') THEN 'raised' END,
       CASE WHEN s IN ('discarded', 'retryable') THEN 'ValueError: order ' || n END,
       CASE WHEN s IN ('discarded', 'retryable') THEN sha256(('e' || n %% 9)::bytea) END,
       CASE WHEN n %% 3 = 0 THEN '019aaaaa-0000-7000-8000-00000000ba7c'::uuid END
  FROM (SELECT n, most,
               CASE WHEN n %% 10 < 6 THEN 'completed' WHEN n %% 10 < 9 THEN 'available' WHEN n %% 500 = 9 THEN 'executing'
                       WHEN n %% 40 = 19 THEN 'discarded' WHEN n %% 100 = 29 THEN 'retryable' ELSE 'completed' END AS s
          FROM (SELECT %s::integer AS most) m, generate_series(1, most) n) x
"""


@pytest.fixture
def large(db: None, make_worker: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(paging, "WINDOW", WINDOW)
    make_worker(id="019aaaaa-0000-7000-8000-000000000001")
    Batch.objects.create(id=BATCH, name="a third of all")
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
            if "set_config('enable_" in statement:  # as they were planned, so they are explained
                cursor.execute(statement, None)
            elif statement.startswith("SELECT") and "stampeded_jobs" in statement:
                cursor.execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement.replace("%", "%%"), [])
                plan = cursor.fetchone()[0]
                found.append((statement, (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]))
    return found


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


DEEP = "01900000-0000-7000-8000-00000000c350"
LONG_AGO = (datetime.now(tz=UTC) - timedelta(seconds=JOBS * 0.6)).isoformat()
BATCH = "019aaaaa-0000-7000-8000-00000000ba7c"
FINGERPRINT = sha256(b"e1").hexdigest()
QUERIES = [
    {},
    {"p": f'after:[0,"{DEEP}"]'},
    {"p": f'before:[0,"{DEEP}"]', "queue": "mail"},
    {"p": f'after:[0,"{LONG_AGO}","{DEEP}"]', "state": "completed"},
    {"p": f'after:[0,3,"{LONG_AGO}","{DEEP}"]', "state": "available", "queue": "mail"},
    {"p": f'after:[0,"mail",3,"{LONG_AGO}","{DEEP}"]', "state": "available", "task": "shop.none"},
    *({"state": state} for state in ("available", "executing", "retryable", "completed", "discarded", "cancelled")),
    {"queue": "mail"},
    {"queue": "rare"},
    {"queue": "rare", "state": "discarded"},
    {"queue": "mail", "state": "completed"},
    {"task": "shop.task3"},
    {"task": "shop.none"},
    {"task": "shop.none", "queue": "mail", "state": "completed"},
    {"task": "shop.none", "queue": "rare", "state": "completed"},
    {"tenant": "acme"},
    {"tenant": "acme", "state": "available", "queue": "bulk"},
    {"since": "1h"},
    {"since": "1h", "queue": "rare"},
    {"since": "1h", "state": "completed"},
    {"since": "1h", "state": "available"},
    {"since": "7d", "state": "discarded", "failure_kind": "timed_out"},
    {"state": "available", "queue": "none"},
    {"state": "retryable", "queue": "none"},
    {"state": "completed", "queue": "none"},
    {"queue": "none"},
    {"failure_kind": "raised"},
    {"failure_kind": "throttled", "state": "discarded"},
    {"fingerprint": "ab" * 32},
    {"fingerprint": FINGERPRINT},
    {"fingerprint": FINGERPRINT, "task": "shop.none"},
    {"batch": BATCH},
    {"batch": BATCH, "p": f'after:[0,"{DEEP}"]'},
    {"batch": BATCH, "state": "discarded"},
    {"batch": BATCH, "task": "shop.none"},
    {"batch": DEEP},
    {"q": "no such text"},
    {"q": "no such text", "state": "discarded", "queue": "mail"},
    {"q": "order=77"},
    {"q": "order:77", "state": "available"},
    {"q": "019aaaaa-0000-7000-8000-000000000001"},
]


def check(plans: list[tuple[str, dict[str, Any]]], most: int = 0) -> None:
    for statement, plan in plans:
        scanned = [node for node in nodes(plan) if node["Node Type"] == "Seq Scan" and "_jobs" in node["Relation Name"]]
        assert not scanned, statement
        shape = [(node["Node Type"], node.get("Index Name"), node["Actual Rows"]) for node in nodes(plan)]
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < max(most, MOST_PAGES_READ), (shape, statement)


def seen(client: Client, address: str, query: dict[str, str] | None = None) -> None:
    """The page is one of few statements, none of which scans the table."""
    started = time.perf_counter()
    with CaptureQueriesContext(connection) as caught:
        assert client.get(address, query or {}).status_code == 200
    took = time.perf_counter() - started
    # Before the yes for all that a list means, up to 10,000 jobs are counted, a thousand at a time.
    assert len(caught) <= MOST_STATEMENTS * (4 if "bulk" in address else 1)
    if BIG:
        print(f"{took * 1000:7.0f} ms {len(caught):3} statements  {address} {query or ''}")
    check(plans_of(lambda: client.get(address, query or {})))


@pytest.mark.timeout(1200)
def test_no_page_and_no_portion_of_a_bulk_operation_scans_the_table(large: None, root: Client) -> None:
    for query in QUERIES:
        seen(root, reverse("admin:stampeded_job_changelist"), query)
    waiting = Job.objects.filter(state="available", queue="mail").order_by("-id").first()
    assert waiting is not None
    seen(root, reverse("admin:stampeded_job_change", args=[waiting.pk]))
    seen(root, reverse("admin:stampeded_job_errors"))
    seen(root, reverse("admin:stampeded_batch_change", args=[BATCH]))
    seen(root, reverse("admin:stampeded_worker_changelist"))
    for act in ("retry", "delete"):
        seen(root, reverse("admin:stampeded_job_bulk"), {"act": act, "queue": "mail"})
    seen(root, reverse("admin:stampeded_job_bulk"), {"act": "cancel", "fingerprint": FINGERPRINT})
    portions()


@pytest.mark.timeout(1200)
def test_a_search_by_an_argument_reads_no_more_than_what_its_index_finds(large: None, root: Client) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE INDEX stampeded_jobs_arguments ON stampeded_jobs USING gin (args jsonb_path_ops)")
    jobs = reverse("admin:stampeded_job_changelist")
    for query in (
        {"q": "order:77"},
        {"q": "order:77", "state": "completed"},
        {"q": "order:77", "queue": "mail"},
        {"q": "order:0"},
    ):
        plans = plans_of(lambda query=query: root.get(jobs, query))  # type: ignore[misc]
        read = [plan for statement, plan in plans if "@>" in statement]
        assert read and all(any(node["Node Type"] == "Bitmap Index Scan" for node in nodes(plan)) for plan in read)
        check(plans, most=200)
    found = actions.group("delete", Selection(text="order:77"), {})
    check(plans_of(lambda: insights.portion(found)), most=200)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE stampeded_jobs SET args = '{\"all\": 1}' WHERE queue = 'mail'")
        cursor.execute("ANALYZE stampeded_jobs")
    for query in ({"q": "all:1"}, {"q": "all:1", "state": "discarded"}):
        seen(root, jobs, query)


def portions() -> None:
    """A bulk operation's portions; of a state of few jobs all may be read."""
    for act, selection in (
        ("cancel", Selection(queue="mail", task="shop.none")),
        ("retry", Selection(task="shop.task3", tenant="acme")),
        ("delete", Selection(queue="rare")),
        ("delete", Selection(state="completed", text="no such")),
    ):
        meant = actions.group(act, selection, {})
        for position in ("", f'after:[{len(meant.states) - 1},"{LONG_AGO}","{DEEP}"]'):
            check(plans_of(lambda meant=meant, position=position: insights.portion(meant, position=position)), most=7_000)  # type: ignore[misc]


def test_the_oldest_due_job_is_found_by_hopping_over_the_index(large: None) -> None:
    read = []
    for _ in range(4):  # the least counts: others empty the session's caches of the catalog at any time
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT stampeded_next_due('mail')")
            plan = cursor.fetchone()[0]
        plan = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]
        read.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
    assert min(read) < 500
    with CaptureQueriesContext(connection) as caught:
        queues = {queue.queue: queue for queue in insights.queues()}
    assert not any("stampeded_jobs" in entry["sql"] for entry in caught)
    assert queues["mail"].oldest_age is not None
