"""Measures whether a claim depends on the planner's statistics: absent, taken while the table was empty, fresh."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from psycopg.errors import Diagnostic

from bench import server
from bench.rounds import Line, Sizes, interleaved

CLAIMED = 100
KINDS = ("absent", "stale", "fresh")


def claimed(sizes: Sizes) -> list[Line]:
    """The time and the plan of claiming a hundred jobs out of many, under each kind of statistics.

    Each kind has a queue with a partition of its own, so that the claims can be made in turns.
    """
    server.empty()
    worker = server.value("INSERT INTO stampeded_workers (hostname, pid) VALUES ('bench', 0) RETURNING id")
    assert isinstance(worker, UUID)
    for kind in KINDS:
        fill(kind, sizes.plan)
    with plans_shown() as said:
        plans = {kind: plan(kind, worker, said) for kind in KINDS}
    contenders = {kind: partial(claim, kind, worker) for kind in KINDS}
    reached = interleaved(contenders, sizes.claims)
    return [
        Line(
            what=f"claim {CLAIMED} of {sizes.plan:,}, statistics {kind}",
            figure=f"{seconds * 1000:.2f} ms, {'the same plan' if plans[kind] == plans['fresh'] else 'another plan'}",
            ratio=f"{seconds / reached['fresh']:.2f}",
            target="the same plan, 1 / 1.2 to 1.2",
        )
        for kind, seconds in reached.items()
    ]


def fill(kind: str, count: int) -> None:
    """A queue with a partition that nobody analyzes but we."""
    from bench.tasks import nothing

    queue = queue_of(kind)
    server.execute("SELECT stampeded_create_queue(%s)", queue)
    partition = server.value("SELECT partition::regclass::text FROM stampeded_partition_health() WHERE queue = %s", queue)
    server.execute(f"ALTER TABLE {partition} SET (autovacuum_enabled = off)")
    if kind == "stale":
        server.execute(f"ANALYZE {partition}")
    nothing.using(queue_name=queue).enqueue_many({"n": n} for n in range(count))
    if kind == "fresh":
        server.execute(f"ANALYZE {partition}")


def plan(kind: str, worker: UUID, said: list[str]) -> str:
    """The shape of the plans that one claim from this queue takes."""
    said.clear()
    claim(kind, worker)
    return shape(said)


def queue_of(kind: str) -> str:
    return f"bench_{kind}"


def claim(kind: str, worker: UUID) -> float:
    """The seconds that a claim takes; it is rolled back."""
    with transaction.atomic():
        began = time.perf_counter()
        server.execute("SELECT id FROM stampeded_claim(%s, %s, %s)", queue_of(kind), worker, CLAIMED)
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
    """The nodes and indexes of the plans that read jobs, without costs, times and the names of the partitions."""
    nodes = [line for plan in plans if "stampeded_jobs" in plan for line in plan.splitlines() if "  (" in line]
    return re.sub(r"  \(.*|stampeded_jobs_bench_[a-z]+_[0-9a-f]*", "", "\n".join(nodes))
