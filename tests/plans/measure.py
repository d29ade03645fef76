"""Counting the pages that a call reads, and reading the plan that it ran: never its time."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from tests.sql.client import SqlClient

#: How many rows stand in the way: enough to tell a scan from a look-up, many more in CI.
MANY = 20_000 if os.environ.get("CI") == "true" else 8_000


def pages(sql: SqlClient, function: str, *args: object, warm: int = 3) -> int:
    """Shared buffers touched by one call, its nested statements included; what it did is undone.

    The calls before fill the session's caches and mark dead index entries, as a worker's do. The least of three counts, as
    what happens elsewhere on the server (an autovacuum, a table that another test makes) empties those caches at any time.
    """
    marks = ", ".join(["%s"] * len(args))
    query = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON, TIMING OFF) SELECT * FROM {function}({marks})"
    counts = []
    for _ in range(warm + 3):
        with sql.transaction() as transaction:
            (plan,) = sql.value(query, *args)  # type: ignore[arg-type]
            counts.append(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])
            raise psycopg.Rollback(transaction)
    return int(min(counts[warm:]))


def claim_pages(sql: SqlClient, queue: str = "q", limit: int = 10) -> int:
    return pages(sql, "stampeded_claim", queue, sql.worker, limit)


@contextmanager
def plans_shown(sql: SqlClient) -> Iterator[list[str]]:
    """Collects the plans of the statements run inside, nested ones too."""
    sql.run("LOAD 'auto_explain'")
    for setting, value in (
        ("log_min_duration", "0"),
        ("log_nested_statements", "on"),
        ("log_level", "notice"),
        ("log_timing", "off"),
    ):
        sql.run(f"SET auto_explain.{setting} = {value}")  # type: ignore[arg-type]
    sql.notices.clear()
    plans: list[str] = []
    try:
        yield plans
    finally:
        sql.run("SET auto_explain.log_min_duration = -1")
        plans += [notice.text for notice in sql.notices if "plan:" in notice.text]


def shape(plan: str) -> str:
    """The plan's nodes without costs, numbers and values."""
    body = plan.split("Query Text:", 1)[1]
    lines = [line for line in body.splitlines() if "(cost=" in line]
    return "\n".join(re.sub(r"\s+\(cost=.*", "", line) for line in lines)
