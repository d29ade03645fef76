"""Every statement of those who watch an install: sampling, its health, a worker asked to stop; what functions.py is for jobs.

Each function takes a cursor first, Django's or psycopg's own, and runs one statement on it; transactions, connections and
retries are the caller's.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID


def sample(cur: Any, every: timedelta, keep: timedelta) -> int:
    """Writes the sample of this moment, unless another process has, and drops the old ones; returns how many rows it wrote."""
    cur.execute("SELECT stampeded_sample(%s::interval, %s::interval)", [every, keep])
    return int(cur.fetchone()[0])


def stop_worker(cur: Any, worker_id: UUID) -> bool:
    """Asks a worker to stop. False for one that is not on record."""
    cur.execute("SELECT stampeded_stop_worker(%s::uuid)", [worker_id])
    return bool(cur.fetchone()[0])


class Vacuum(NamedTuple):
    """How far a partition is from its next autovacuum."""

    relname: str
    dead_tuples: int
    threshold: int
    needs_vacuum: bool
    last_autovacuum: datetime | None


def vacuum_health(cur: Any) -> list[Vacuum]:
    """Every partition of the jobs."""
    cur.execute("SELECT relname, dead_tuples, autovac_threshold, needs_vacuum, last_autovacuum FROM stampeded_vacuum_health()")
    return [Vacuum._make(row) for row in cur.fetchall()]


class LongTransaction(NamedTuple):
    """A transaction that has been open for long."""

    pid: int
    application: str
    state: str | None
    age: timedelta


def long_transactions(cur: Any, older_than: timedelta) -> list[LongTransaction]:
    """The transactions of this database that keep dead rows from being vacuumed for so long, the oldest first, at most ten."""
    cur.execute("SELECT pid, application, state, age FROM stampeded_long_transactions(%s::interval)", [older_than])
    return [LongTransaction._make(row) for row in cur.fetchall()]
