"""What the overview and its neighbours read of a large table: no scan, few rows, a bounded number of statements.

50,000 jobs everywhere; STAMPEDED_JOBS=5000000 makes it as many as an operator may have.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_stampeded.models import Batch, Job, Worker
from tests.surfaces.test_speed import BATCH, FILL

JOBS = int(os.environ.get("STAMPEDED_JOBS", "50000"))
MOST_ROWS = 5_000
MOST_STATEMENTS = 30

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.timeout(3600)]

# Of this transaction alone, and of what functions did as well.
READ = (
    "SELECT sum(seq_scan)::bigint, sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_xact_user_tables "
    "WHERE schemaname = current_schema() AND starts_with(relname, 'stampeded_jobs')"
)


@pytest.fixture
def large(db: None, make_worker: Any) -> Iterator[Worker]:
    worker = make_worker(id="019aaaaa-0000-7000-8000-000000000001")
    Batch.objects.create(id=BATCH, name="a third of all")
    with connection.cursor() as cursor:
        cursor.execute(FILL, [JOBS])
        cursor.execute("ANALYZE stampeded_jobs")
        cursor.execute("SELECT stampeded_sample()")
        cursor.execute("SET LOCAL max_parallel_workers_per_gather = 0")  # whose reading is counted elsewhere
    yield worker


def read() -> tuple[int, int]:
    with connection.cursor() as cursor:
        cursor.execute(READ)
        return tuple(cursor.fetchone())


def cost(act: Callable[[], object]) -> tuple[int, int, int]:
    """(scans of the jobs, rows read of them, statements)."""
    scans, rows = read()
    with CaptureQueriesContext(connection) as caught:
        act()
    scans_after, rows_after = read()
    return scans_after - scans, rows_after - rows, len(caught)


def opened(client: Client, address: str) -> None:
    assert client.get(address).status_code == 200, address


def test_a_scan_would_be_seen(large: Worker) -> None:
    scans, rows, statements = cost(Job.objects.filter(args={"none": 1}).count)
    assert scans > 0 and rows >= JOBS and statements == 1


def test_no_page_scans_the_jobs_or_asks_without_end(large: Worker, root: Client) -> None:
    addresses = [
        reverse("admin:app_list", args=["stampeded"]),
        reverse("admin:stampeded_live"),
        *(reverse(f"admin:stampeded_{name}_changelist") for name in ("queuepolicy", "worker", "batch", "auditentry")),
        reverse("admin:stampeded_worker_change", args=[large.pk]),
        reverse("admin:stampeded_batch_change", args=[BATCH]),
    ]
    for address in addresses:
        scans, rows, statements = cost(lambda address=address: opened(root, address))  # type: ignore[misc]
        assert scans == 0 and rows < MOST_ROWS, (address, scans, rows)
        assert statements <= MOST_STATEMENTS, (address, statements)


def test_a_sample_reads_the_heads_of_the_queues_alone(large: Worker) -> None:
    def sample() -> None:
        with connection.cursor() as cursor:
            cursor.execute("UPDATE stampeded_samples SET slot = slot - 1")
            cursor.execute("SELECT stampeded_sample()")

    scans, rows, _ = cost(sample)
    assert scans == 0 and rows < 100
