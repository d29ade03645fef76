"""The statements that only operators need, one Python function each: what functions.py is for the others.

Each function takes a cursor first, Django's or psycopg's own, and runs one statement on it; transactions, connections and
retries are the caller's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django_stampeded.functions import Changed


def set_priority(cur: Any, queue: str, job_id: UUID, priority: int) -> Changed | None:
    """Gives a waiting job another priority, -32768 to 32767. None for a job that is not waiting."""
    cur.execute("SELECT was, now_state FROM stampeded_set_priority(%s::text, %s::uuid, %s::bigint)", [queue, job_id, priority])
    row = cur.fetchone()
    return None if row is None else Changed._make(row)


def replace_args(cur: Any, queue: str, job_id: UUID, args: dict[str, Any]) -> Changed | None:
    """Gives a job that is not running other arguments. None for a running or unknown one."""
    cur.execute(
        "SELECT was, now_state FROM stampeded_replace_args(%s::text, %s::uuid, %s::jsonb)",
        [queue, job_id, json.dumps(args, allow_nan=False)],
    )
    row = cur.fetchone()
    return None if row is None else Changed._make(row)


_ON_EACH = {
    "retry": "stampeded_retry(job.queue, job.id)",
    "run_now": "stampeded_run_now(job.queue, job.id)",
    "cancel": "stampeded_cancel(job.queue, job.id, %s::text)",
    "discard": "stampeded_discard(job.queue, job.id, %s::text)",
    "move": "stampeded_move(job.queue, job.id, %s::text)",
    "set_priority": "stampeded_set_priority(job.queue, job.id, %s::bigint)",
    "delete": "(SELECT stampeded_delete(job.queue, job.id) AS was, '' AS now_state)",
}


def on_many(cur: Any, action: str, jobs: Sequence[tuple[str, UUID]], *parameters: Any) -> dict[UUID, Changed]:
    """One act on many jobs by one statement; returns what changed, by id. Jobs that the act does not fit are left out.

    `action` is retry, run_now, cancel, discard, move, set_priority or delete; `parameters` what its SQL function takes besides.
    Raises KeyError for another action, and the driver's errors, with nothing changed.

    Example: `on_many(cursor, "cancel", [("mail", job_id)], "no longer wanted")`
    """
    cur.execute(
        "SELECT job.id, did.was, did.now_state FROM unnest(%s::text[], %s::uuid[]) AS job (queue, id) "
        f"CROSS JOIN LATERAL {_ON_EACH[action]} AS did WHERE did.was IS NOT NULL",
        [[queue for queue, _ in jobs], [job_id for _, job_id in jobs], *parameters],
    )
    return {job_id: Changed(was, now) for job_id, was, now in cur.fetchall()}


_PLANS = ("enable_seqscan", "enable_bitmapscan", "enable_sort")


def plan_along_indexes(cur: Any) -> list[str]:
    """Leaves the planner, for this transaction, nothing but reading an index in its order; returns what held before.

    It can't know how few rows lie between two rows of several columns, and would read all of them, or the table, instead.
    """
    asked = ", ".join(f"current_setting('{name}'), set_config('{name}', 'off', true)" for name in _PLANS)
    cur.execute(f"SELECT {asked}")
    return list(cur.fetchone()[::2])


def plan_as_before(cur: Any, before: Sequence[str]) -> None:
    """Takes `plan_along_indexes` back, before the transaction goes on."""
    asked = ", ".join(f"set_config('{name}', %s, true)" for name in _PLANS)
    cur.execute(f"SELECT {asked}", list(before))
