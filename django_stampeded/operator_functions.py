"""The statements that only operators need, one Python function each: what functions.py is for the others.

Each function takes a cursor first, Django's or psycopg's own, and runs one statement on it; transactions, connections and
retries are the caller's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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


ALONG_AN_INDEX = ("enable_seqscan", "enable_bitmapscan", "enable_sort")
"""Without these the planner reads an index in its order. It can't know how few rows lie between two rows of several columns."""
BY_MATCHES = ("enable_seqscan", "enable_indexscan", "enable_indexonlyscan")
"""Without these it collects what an index without an order finds, where it would hope for matches along another one."""


def plan_without(cur: Any, names: Sequence[str]) -> dict[str, str]:
    """Takes these ways from the planner, for this transaction; returns what held before."""
    asked = ", ".join(f"current_setting('{name}'), set_config('{name}', 'off', true)" for name in names)
    cur.execute(f"SELECT {asked}")
    return dict(zip(names, cur.fetchone()[::2], strict=True))


def plan_as_before(cur: Any, before: Mapping[str, str]) -> None:
    """Takes `plan_without` back, before the transaction goes on."""
    asked = ", ".join(f"set_config('{name}', %s, true)" for name in before)
    cur.execute(f"SELECT {asked}", list(before.values()))


ARGUMENTS_INDEX = "stampeded_jobs_arguments"
_BY_ARGUMENTS = "USING gin (args jsonb_path_ops)"
_TURN = "hashtextextended('stampeded_jobs_arguments', 'stampeded_jobs'::regclass::oid::bigint)"


def arguments_index_is_valid(cur: Any) -> bool | None:
    """Whether the index of arguments is there for every partition; None where there is none at all."""
    cur.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", [ARGUMENTS_INDEX])
    row = cur.fetchone()
    return None if row is None else bool(row[0])


def take_turn_with_arguments_index(cur: Any) -> bool:
    """Takes the session's lock of whoever builds or removes it; False while another session has it."""
    cur.execute(f"SELECT pg_try_advisory_lock({_TURN})")
    return bool(cur.fetchone()[0])


def end_turn_with_arguments_index(cur: Any) -> None:
    """Gives that lock back."""
    cur.execute(f"SELECT pg_advisory_unlock({_TURN})")


def wait_at_most(cur: Any, milliseconds: int) -> None:
    """How long this transaction waits for a lock."""
    cur.execute("SELECT set_config('lock_timeout', %s, true)", [f"{milliseconds}ms"])


def begin_arguments_index(cur: Any) -> None:
    """Makes the index of the whole, which stays invalid until each partition has its part. New partitions get theirs by it."""
    cur.execute(f"CREATE INDEX IF NOT EXISTS {ARGUMENTS_INDEX} ON ONLY stampeded_jobs {_BY_ARGUMENTS}")


def parts_without_arguments_index(cur: Any) -> list[tuple[str, str, bool | None]]:
    """(partition, name of its part, whether that is valid, None where it isn't there), quoted, of those not attached."""
    cur.execute(
        "SELECT format('%%I', t.relname), format('%%I', t.relname || '_args'), x.indisvalid "
        "FROM pg_inherits i JOIN pg_class t ON t.oid = i.inhrelid "
        "LEFT JOIN pg_index x ON x.indrelid = t.oid AND x.indexrelid = to_regclass(format('%%I', t.relname || '_args')) "
        "WHERE i.inhparent = 'stampeded_jobs'::regclass AND NOT EXISTS (SELECT FROM pg_index own JOIN pg_inherits a "
        "ON a.inhrelid = own.indexrelid AND a.inhparent = to_regclass(%s) WHERE own.indrelid = t.oid) ORDER BY t.relname",
        [ARGUMENTS_INDEX],
    )
    return [tuple(row) for row in cur.fetchall()]


def build_part_of_arguments_index(cur: Any, partition: str, part: str) -> None:
    """Builds a partition's part while others write; outside any transaction."""
    cur.execute(f"CREATE INDEX CONCURRENTLY {part} ON {partition} {_BY_ARGUMENTS}")


def drop_part_of_arguments_index(cur: Any, part: str) -> None:
    """Drops a part that is not attached, as an interrupted build leaves one; outside any transaction."""
    cur.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {part}")


def attach_part_of_arguments_index(cur: Any, part: str) -> None:
    """Joins a partition's part to the whole."""
    cur.execute(f"ALTER INDEX {ARGUMENTS_INDEX} ATTACH PARTITION {part}")


def drop_arguments_index(cur: Any) -> None:
    """Drops the whole with all parts attached."""
    cur.execute(f"DROP INDEX IF EXISTS {ARGUMENTS_INDEX}")
