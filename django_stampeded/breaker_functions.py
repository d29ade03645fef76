"""The calls of the SQL functions about circuit breakers, one Python function each, as functions.py has those about jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django_stampeded.breaking import Key, Rule


class Reported(NamedTuple):
    """What a report led to: the states before and after, and in how many seconds probes may start (None: nobody knows)."""

    was: str
    now_state: str
    retry_in: float | None


class Asked(NamedTuple):
    """A task whose breaker is not closed: how many of its jobs may start, and in how many seconds others may."""

    task: str
    allowed: int
    retry_in: float | None


def report(
    cur: Any, key: Key, queue: str, failures: int, successes: int, earlier: int = 0, rule: Rule | None = None
) -> Reported | None:
    """Reports how jobs of one breaker and one queue ended. None where that was of no interest to it.

    `earlier` are successes before these that were not reported.
    """
    cur.execute(
        "SELECT was, now_state, retry_in FROM stampeded_report_breaker("
        "%s::text, %s::text, %s::text, %s::bigint, %s::bigint, %s::bigint, %s::jsonb)",
        [key.kind, key.key, queue, failures, successes, earlier, json.dumps((rule or Rule()).document)],
    )
    row = cur.fetchone()
    return None if row is None else Reported._make(row)


def ask(cur: Any, numbers: Mapping[str, int]) -> list[Asked]:
    """Asks for tasks, before so many jobs of each start; returns those that may not all."""
    cur.execute(
        "SELECT task, allowed, retry_in FROM stampeded_ask_breakers(%s::text[], %s::bigint[])",
        [list(numbers), list(numbers.values())],
    )
    return [Asked._make(row) for row in cur.fetchall()]


def trip(cur: Any, key: Key, reason: str | None, until: datetime | None) -> str:
    """Opens a breaker by hand, until then or until it is reset; returns the state it was in."""
    cur.execute("SELECT stampeded_trip_breaker(%s::text, %s::text, %s::text, %s::timestamptz)", [*key, reason, until])
    return str(cur.fetchone()[0])


def reset(cur: Any, key: Key) -> str | None:
    """Closes a breaker by hand; returns the state it was in, None where there is none."""
    cur.execute("SELECT stampeded_reset_breaker(%s::text, %s::text)", list(key))
    row = cur.fetchone()
    return None if row is None else row[0]


def prune(cur: Any, older_than: timedelta) -> int:
    """Deletes the breakers that have been closed without a failure for so long; returns how many."""
    cur.execute("SELECT stampeded_prune_breakers(%s::interval)", [older_than])
    return int(cur.fetchone()[0])
