"""Every statement on batches, dependencies and results, one Python function each: what functions.py is for jobs.

Each function takes a cursor first, Django's or psycopg's own, and runs one statement on it; transactions, connections and
retries are the caller's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

EVENTS = ("on_complete", "on_success", "on_failure")
"""The callbacks that a batch may have."""


def open_batch(
    cur: Any, name: str, callbacks: Mapping[str, dict[str, Any]], parent_id: UUID | None, meta: dict[str, Any]
) -> UUID:
    """Opens a batch; returns its id. `callbacks` has jobs, as columns by name, for some of EVENTS.

    Raises the driver's IntegrityError for a parent that is unknown or has finished.
    """
    specs = [json.dumps(callbacks[event]) if event in callbacks else None for event in EVENTS]
    cur.execute(
        "SELECT stampeded_open_batch(%s::text, %s::jsonb, %s::jsonb, %s::jsonb, %s::uuid, %s::jsonb)",
        [name, *specs, parent_id, json.dumps(meta)],
    )
    batch_id: UUID = cur.fetchone()[0]
    return batch_id


def batch_is_open(cur: Any, batch_id: UUID) -> bool:
    """Whether a batch takes jobs; it doesn't finish before the transaction has ended."""
    cur.execute("SELECT FROM stampeded_batches WHERE id = %s::uuid AND finished_at IS NULL FOR KEY SHARE", [batch_id])
    return cur.fetchone() is not None


def seal_batch(cur: Any, batch_id: UUID) -> bool:
    """Says that all jobs of a batch are in. False for one that is unknown or has finished."""
    cur.execute("SELECT stampeded_seal_batch(%s::uuid)", [batch_id])
    return bool(cur.fetchone()[0])


class Cancelled(NamedTuple):
    """How many jobs of a batch were cancelled, and whether it has more that are not final."""

    cancelled: int
    more: bool


def cancel_batch(cur: Any, batch_id: UUID, reason: str | None = None, limit: int = 1_000) -> Cancelled:
    """Seals a batch, with those within it, and cancels up to `limit` of their jobs that are not final and that nobody locks."""
    cur.execute("SELECT cancelled, more FROM stampeded_cancel_batch(%s::uuid, %s::text, %s::bigint)", [batch_id, reason, limit])
    return Cancelled._make(cur.fetchone())


def finish_batches(cur: Any, batch_ids: Sequence[UUID] | None = None) -> list[UUID]:
    """Enqueues the callbacks that are due, of all open batches or of these; returns the batches that have finished now.

    To be called after the commit of whatever ended their jobs.
    """
    cur.execute("SELECT * FROM stampeded_finish_batches(%s::uuid[])", [None if batch_ids is None else list(batch_ids)])
    return [row[0] for row in cur.fetchall()]


class BatchRow(NamedTuple):
    """Where a batch stands."""

    name: str
    sealed: bool
    failed: bool
    finished: bool
    succeeded: bool | None
    callback_error: str | None


def batch(cur: Any, batch_id: UUID) -> BatchRow | None:
    """Where a batch stands, None for an unknown one."""
    cur.execute(
        "SELECT name, sealed_at IS NOT NULL, failed_at IS NOT NULL, finished_at IS NOT NULL, succeeded, callback_error "
        "FROM stampeded_batches WHERE id = %s::uuid",
        [batch_id],
    )
    row = cur.fetchone()
    return None if row is None else BatchRow._make(row)


def batch_counts(cur: Any, batch_id: UUID) -> dict[str, int]:
    """How many jobs a batch has in each state; states without jobs are left out."""
    cur.execute("SELECT state, n FROM stampeded_batch_counts WHERE batch_id = %s::uuid ORDER BY state", [batch_id])
    return dict(cur.fetchall())


def counts_of_batches(cur: Any, batch_ids: Sequence[UUID]) -> dict[UUID, dict[str, int]]:
    """`batch_counts` of several batches; those without jobs are left out."""
    cur.execute(
        "SELECT batch_id, state, n FROM stampeded_batch_counts WHERE batch_id = ANY (%s::uuid[]) ORDER BY state",
        [list(batch_ids)],
    )
    found: dict[UUID, dict[str, int]] = {}
    for batch_id, state, n in cur.fetchall():
        found.setdefault(batch_id, {})[state] = n
    return found


def depend(cur: Any, queue: str, ids: Sequence[UUID], parents: Sequence[tuple[str, UUID]], on_discard: str) -> None:
    """Makes jobs of a queue wait for others, given as (queue, id). `on_discard` is "fail" or "run".

    Raises the driver's DataError for a job that would wait for itself.
    """
    cur.execute(
        "SELECT stampeded_depend(%s::text, id, %s::text[], %s::uuid[], %s::text) FROM unnest(%s::uuid[]) AS id",
        [queue, [each[0] for each in parents], [each[1] for each in parents], on_discard, list(ids)],
    )


def sweep_dependencies(cur: Any, limit: int = 10_000, *, everything: bool = True) -> int:
    """Tells jobs that wait what no trigger could tell them; returns how many. The quick look is for what a lock kept back."""
    cur.execute("SELECT stampeded_sweep_dependencies(%s::bigint, %s)", [limit, everything])
    return int(cur.fetchone()[0])


class Returned(NamedTuple):
    """What a job returned: a JSON text, and for how many seconds to keep it."""

    queue: str
    id: UUID
    value: str
    seconds: float


def store_results(cur: Any, results: Sequence[Returned]) -> None:
    """Keeps what jobs returned. To be called in the transaction that completes them."""
    cur.execute(
        "SELECT stampeded_store_results(%s::text[], %s::uuid[], %s::jsonb[], %s::double precision[])",
        [list(column) for column in zip(*results, strict=True)],
    )


class Ending(NamedTuple):
    """How a job ended. `state` is None where the job is gone, `stored` tells whether there is a value."""

    state: str | None
    error: str | None
    stored: bool
    value: Any


def ending(cur: Any, queue: str, id: UUID) -> Ending:
    """How a job ended, or where it stands, with what it returned."""
    cur.execute(
        "SELECT j.state, j.last_error, r.job_id IS NOT NULL, r.value::text "
        "FROM (SELECT %s::text AS queue, %s::uuid AS id) asked "
        "LEFT JOIN stampeded_jobs j ON j.queue = asked.queue AND j.id = asked.id "
        "LEFT JOIN stampeded_results r ON r.job_id = asked.id AND r.expires_at > clock_timestamp()",
        [queue, id],
    )
    state, error, stored, value = cur.fetchone()
    return Ending(state, error, stored, json.loads(value) if stored else None)


def results(cur: Any, ids: Sequence[UUID]) -> dict[UUID, Any]:
    """What these jobs returned; those without a result, or whose result has expired, are left out."""
    cur.execute(
        "SELECT job_id, value::text FROM stampeded_results WHERE job_id = ANY (%s::uuid[]) AND expires_at > clock_timestamp()",
        [list(ids)],
    )
    return {id: json.loads(value) for id, value in cur.fetchall()}


def prune_results(cur: Any, batches_older_than: timedelta, limit: int = 10_000) -> int:
    """Deletes results that have expired and batches that ended so long ago; returns how many."""
    cur.execute("SELECT stampeded_prune_results(%s::interval, %s::bigint)", [batches_older_than, limit])
    return int(cur.fetchone()[0])
