"""The calls of the SQL functions about the planner's verdicts, one Python function each."""

from __future__ import annotations

from typing import Any

from django_stampeded.planning import Decision, QueueFigures


def figures(cur: Any) -> list[QueueFigures]:
    """What there is to judge: the queues whose policy has a max_wait_secs, or a verdict that is not steady."""
    cur.execute("SELECT queue, max_wait_secs, waited, verdict, blocked FROM stampeded_plan_figures()")
    return [QueueFigures(*row) for row in cur.fetchall()]


def workers(cur: Any) -> list[frozenset[str]]:
    """The queues of each live worker."""
    cur.execute("SELECT DISTINCT queues FROM stampeded_workers WHERE last_heartbeat > clock_timestamp() - interval '5 minutes'")
    return [frozenset(row[0]) for row in cur.fetchall()]


def set_verdict(cur: Any, queue: str, decision: Decision) -> bool:
    """Writes a verdict that is new, or about to go stale. Whether it did."""
    cur.execute("SELECT stampeded_set_verdict(%s::text, %s::text, %s::text)", [queue, decision.verdict, decision.reason])
    return bool(cur.fetchone()[0])


def verdicts(cur: Any) -> dict[str, str]:
    """The verdicts in force but for steady, by queue."""
    cur.execute("SELECT queue, verdict FROM stampeded_verdicts()")
    return dict(cur.fetchall())
