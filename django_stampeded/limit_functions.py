"""What the SQL functions about limits tell, one Python function each, as functions.py has those about jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any


def rate_frees_at(cur: Any, queue: str) -> datetime | None:
    """Until when its rate limit keeps a queue that isn't paused from starting jobs; None where it doesn't."""
    cur.execute(
        "SELECT stampeded_rate_frees_at(queue, 'queue', '', rate_limit, rate_period_secs) FROM stampeded_queue_policies "
        "WHERE queue = %s::text AND rate_limit IS NOT NULL",
        [queue],
    )
    row = cur.fetchone()
    return None if row is None else row[0]


def held_back(cur: Any, queue: str, keys: Mapping[str, str]) -> list[str]:
    """Those of a job's keys, given as {scope: value}, of which no more jobs may start now."""
    cur.execute(
        "SELECT scope FROM unnest(%s::text[], %s::text[]) AS k (scope, value), stampeded_running_by_key(%s::text) AS running "
        "WHERE stampeded_key_room(%s::text, scope, value, running) <= 0",
        [list(keys), list(keys.values()), queue, queue],
    )
    return [row[0] for row in cur.fetchall()]


def tenants_held_back(cur: Any, asked: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Those of the tenants, given as (queue, tenant), of which no more jobs may start now by a limit of that queue."""
    pairs = list(asked)
    cur.execute(
        "WITH asked AS (SELECT * FROM unnest(%s::text[], %s::text[]) AS a (queue, tenant) "
        "WHERE EXISTS (SELECT FROM stampeded_limits l WHERE l.queue = a.queue AND l.scope = 'tenant')), "
        "running AS MATERIALIZED "
        "(SELECT queue, stampeded_running_by_key(queue) AS n FROM (SELECT DISTINCT queue FROM asked) q) "
        "SELECT queue, tenant FROM asked JOIN running USING (queue) WHERE stampeded_key_room(queue, 'tenant', tenant, n) <= 0",
        [[queue for queue, _ in pairs], [tenant for _, tenant in pairs]],
    )
    return {(queue, tenant) for queue, tenant in cur.fetchall()}


def prune_starts(cur: Any, limit: int) -> int:
    """Deletes starts on record that no window of a rate limit reaches any more; returns how many."""
    cur.execute("SELECT stampeded_prune_starts(%s::bigint)", [limit])
    return int(cur.fetchone()[0])
