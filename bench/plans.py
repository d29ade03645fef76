"""Measures whether a claim depends on the planner's statistics: absent, taken while the table was empty, fresh."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from psycopg.errors import Diagnostic

from bench import server
from bench.enqueueing import enqueue_many
from bench.rounds import Line, Sizes

CLAIMED = 100


def claimed(sizes: Sizes) -> list[Line]:
    """The time and the plan of claiming a hundred jobs out of many, under each kind of statistics."""
    server.execute("ALTER TABLE stampeded_jobs_default SET (autovacuum_enabled = off)")
    found = {kind: measure(prepare, sizes) for kind, prepare in STATISTICS.items()}
    server.execute("ALTER TABLE stampeded_jobs_default RESET (autovacuum_enabled)")
    fastest = min(seconds for seconds, _ in found.values())
    fresh_plan = found["fresh"][1]
    return [
        Line(
            what=f"claim {CLAIMED} of {sizes.plan:,}, statistics {kind}",
            figure=f"{seconds * 1000:.2f} ms, {'the same plan' if plan == fresh_plan else 'another plan'}",
            ratio=f"{seconds / fastest:.2f}",
            target="the same plan, ≤ 1.2",
        )
        for kind, (seconds, plan) in found.items()
    ]


def absent(count: int) -> None:
    for table in ("stampeded_jobs", "stampeded_jobs_default"):
        server.execute("SELECT pg_clear_relation_stats(current_schema(), %s)", table)
    server.execute("DELETE FROM pg_statistic WHERE starelid = 'stampeded_jobs_default'::regclass")
    enqueue_many(count)


def stale(count: int) -> None:
    server.execute("ANALYZE stampeded_jobs")
    enqueue_many(count)


def fresh(count: int) -> None:
    enqueue_many(count)
    server.execute("ANALYZE stampeded_jobs")


STATISTICS: dict[str, Callable[[int], None]] = {"absent": absent, "stale": stale, "fresh": fresh}


def measure(prepare: Callable[[int], None], sizes: Sizes) -> tuple[float, str]:
    """The median time of a claim that is rolled back each time, and the shape of its plan."""
    server.empty()
    prepare(sizes.plan)
    worker = server.value("INSERT INTO stampeded_workers (hostname, pid) VALUES ('bench', 0) RETURNING id")
    assert isinstance(worker, UUID)
    with plans_shown() as plans:
        claim(worker)
    return median(claim(worker) for _ in range(sizes.claims)), shape(plans)


def claim(worker: UUID) -> float:
    with transaction.atomic():
        began = time.perf_counter()
        server.execute("SELECT id FROM stampeded_claim('bench', %s, %s)", worker, CLAIMED)
        seconds = time.perf_counter() - began
        transaction.set_rollback(True)
    return seconds


@contextmanager
def plans_shown() -> Iterator[list[str]]:
    """Collects the plans of all statements, those inside functions too."""
    plans: list[str] = []

    def note(diagnostic: Diagnostic) -> None:
        plans.append(diagnostic.message_primary or "")

    raw: Any = connection.connection
    raw.add_notice_handler(note)
    server.execute("LOAD 'auto_explain'")
    for setting in ("log_min_duration = 0", "log_nested_statements = on", "log_level = notice"):
        server.execute(f"SET auto_explain.{setting}")
    try:
        yield plans
    finally:
        server.execute("SET auto_explain.log_min_duration = -1")
        raw.remove_notice_handler(note)


def shape(plans: list[str]) -> str:
    """The plans' nodes and indexes, without costs and times."""
    found = [re.sub(r"\(.*?\)|duration: \S+ ms|\d+\.\d+", "", plan) for plan in plans if "stampeded_jobs" in plan]
    return "\n".join(found)
