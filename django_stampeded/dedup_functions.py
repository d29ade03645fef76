"""Every statement on the jobs that hold dedup scopes, one Python function each: what functions.py is for jobs.

Each function takes a cursor first, Django's or psycopg's own, and runs one statement on it; transactions, connections and
retries are the caller's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

# The key as the generated column makes it, for a job that would be inserted now. LATERAL has each scope looked up in
# the unique index, whatever the planner thinks of the table's size.
HOLDERS = """
SELECT wanted.scope, job.id
FROM unnest(%s::text[], %s::bytea[]) AS wanted (scope, digest)
CROSS JOIN LATERAL (
    SELECT id FROM stampeded_jobs
    WHERE queue = %s AND dedup_key IS NOT NULL AND dedup_key = wanted.digest || CASE
        WHEN %s::text IS NULL THEN ''::bytea
        ELSE (%s::text || extract(epoch FROM date_trunc(%s::text, now() AT TIME ZONE 'UTC'))::bigint::text)::bytea END
    LIMIT 1
) AS job
"""


def holders(cur: Any, queue: str, scopes: Sequence[str], period: str | None) -> dict[str, UUID]:
    """The jobs of a queue that hold these scopes now, by scope; those that are free are left out."""
    if not scopes:
        return {}
    digests = [hashlib.sha256(scope.encode()).digest() for scope in scopes]
    cur.execute(HOLDERS, [list(scopes), digests, queue, period, period, period])
    return dict(cur.fetchall())


def replace(
    cur: Any, queue: str, args: Mapping[UUID, str], meta: str, priority: int, run_after: datetime | timedelta | None
) -> set[UUID]:
    """Gives the jobs of `args` that still wait new arguments (JSON texts), meta, priority and time; returns their ids.

    `run_after` is a time, or how long after the transaction's now; None is now.
    """
    if not args:
        return set()
    at = None if isinstance(run_after, timedelta) else run_after
    wait = run_after if isinstance(run_after, timedelta) else None
    cur.execute(
        "SELECT * FROM stampeded_replace(%s::text, %s::uuid[], %s::jsonb[], %s::jsonb, %s::bigint, "
        "coalesce(%s::timestamptz, now() + %s::interval))",
        [queue, list(args), list(args.values()), meta, priority, at, wait],
    )
    return {row[0] for row in cur.fetchall()}
