"""Every statement on schedules, one Python function each: what functions.py is for jobs.

Owns the conversion between rows and Python values. Each function takes a cursor first, Django's or psycopg's own;
transactions, connections and retries are the caller's. Times are fetched as UTC without a zone, for the driver would read
them in the session's time zone, which Python need not know.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django_stampeded.timing import Timing

TIMING = ("cron_expr", "interval_secs", "timezone", "dst_policy")
COLUMNS = (
    "queue", "task", "args", "meta", "tenant_id", "priority", "options", *TIMING, "missed_policy", "overlap_policy",
    "jitter_secs",
)  # fmt: skip
"""The columns that the code declares."""

_KINDS = {
    "args": "jsonb", "meta": "jsonb", "options": "jsonb", "priority": "smallint", "interval_secs": "bigint",
    "jitter_secs": "integer",
}  # fmt: skip


class Due(NamedTuple):
    """A schedule that is due, locked: when it runs, and what decides about this occurrence."""

    key: str
    timing: Timing
    missed_policy: str
    planned: datetime
    now: datetime
    """By the database's clock."""
    unplanned: bool
    """`planned` is when it was made or edited, no occurrence of it."""

    @property
    def token(self) -> str:
        """What the occurrence is known by in the ledger; as stampeded_occurrence_token has it, by Python's time zone data."""
        return self.timing.token(self.planned)


def due(cur: Any, limit: int) -> list[str]:
    """The keys of up to `limit` schedules that are due and that nobody else is dealing with, the longest due first."""
    cur.execute("SELECT key FROM stampeded_claim_due_schedules(%s::bigint)", [limit])
    return [row[0] for row in cur.fetchall()]


def seconds_until_due(cur: Any) -> float | None:
    """In how many seconds the next schedule is due (negative: one is); None where none ever is."""
    cur.execute(
        "SELECT extract(epoch FROM min(next_run_at) - clock_timestamp())::float8 FROM stampeded_schedules WHERE NOT paused"
    )
    seconds: float | None = cur.fetchone()[0]
    return seconds


def lock_due(cur: Any, key: str) -> Due | None:
    """Lock a schedule for the transaction in progress. None where it isn't due any more or another one deals with it.

    Raises the driver's DataError for a time that Python can't hold, such as infinity.
    """
    cur.execute(
        "SELECT cron_expr, interval_secs, timezone, dst_policy, missed_policy, next_run_at AT TIME ZONE 'UTC', "
        "clock_timestamp() AT TIME ZONE 'UTC', replan OR next_run_at = created_at "
        "FROM stampeded_schedules WHERE key = %s::text AND NOT paused AND next_run_at <= clock_timestamp() "
        "FOR UPDATE SKIP LOCKED",
        [key],
    )
    row = cur.fetchone()
    if row is None:
        return None
    *when, missed_policy, planned, now, unplanned = row
    return Due(key, Timing(*when), missed_policy, planned.replace(tzinfo=UTC), now.replace(tzinfo=UTC), unplanned)


def fire(cur: Any, due: Due, next_run_at: datetime | None) -> UUID | None:
    """Fire a due schedule's occurrence and move the schedule on; the job's id, None where there is none."""
    cur.execute("SELECT stampeded_fire_occurrence(%s::text, %s::timestamptz, %s::text)", [due.key, next_run_at, due.token])
    job: UUID | None = cur.fetchone()[0]
    return job


def skip(cur: Any, due: Due, next_run_at: datetime | None, reason: str) -> bool:
    """Move a due schedule on without a job, and note why; whether there was anything to skip."""
    cur.execute(
        "SELECT stampeded_skip_schedule(%s::text, %s::timestamptz, %s::text, %s::text)",
        [due.key, next_run_at, reason, due.token],
    )
    return bool(cur.fetchone()[0])


def plan(cur: Any, key: str, next_run_at: datetime) -> None:
    """Say when a schedule is due next."""
    cur.execute("UPDATE stampeded_schedules SET next_run_at = %s::timestamptz WHERE key = %s::text", [next_run_at, key])


def set_aside(cur: Any, key: str, reason: str) -> None:
    """Pause a schedule that can't fire, with the reason."""
    cur.execute("SELECT stampeded_set_aside_schedule(%s::text, %s::text)", [key, reason])


def reason_set_aside(cur: Any, key: str) -> str | None:
    """Why a schedule was set aside, None where it wasn't."""
    cur.execute("SELECT set_aside_reason FROM stampeded_schedules WHERE key = %s::text", [key])
    row = cur.fetchone()
    return row and row[0]


def run_now(cur: Any, key: str) -> UUID | None:
    """Enqueue a job of a schedule beside its occurrences. None for an unknown one, or where its dedup scope is taken."""
    cur.execute("SELECT stampeded_run_schedule(%s::text)", [key])
    job: UUID | None = cur.fetchone()[0]
    return job


@dataclass(frozen=True, slots=True)
class Stored:
    """What a schedule's row says: the columns that code may declare, and what it last declared."""

    columns: Mapping[str, Any]
    declared: dict[str, Any] | None
    declared_lately: bool
    set_aside_reason: str | None


def stored(cur: Any, keys: Collection[str], lately: timedelta, *, lock: bool = False) -> dict[str, Stored]:
    """The rows with these keys, those declared within `lately` marked as such; locked for the transaction where asked."""
    cur.execute(
        f"SELECT key, {', '.join(COLUMNS)}, declared, coalesce(declared_at > clock_timestamp() - %s::interval, false), "
        f"set_aside_reason FROM stampeded_schedules WHERE key = ANY(%s::text[]) ORDER BY key{' FOR UPDATE' if lock else ''}",
        [lately, list(keys)],
    )
    return {key: _stored(rest) for key, *rest in cur.fetchall()}


def _stored(row: list[Any]) -> Stored:
    *values, declared, lately, reason = row
    columns = dict(zip(COLUMNS, values, strict=True))
    columns |= {name: _loaded(columns[name]) for name, kind in _KINDS.items() if kind == "jsonb"}
    return Stored(columns, _loaded(declared), lately, reason)


def _loaded(value: Any) -> Any:
    """A jsonb value, which Django's cursors return as text and psycopg's as objects."""
    return json.loads(value) if isinstance(value, str) else value


def insert(cur: Any, key: str, declared: Mapping[str, Any], next_run_at: datetime) -> bool:
    """Write a declared schedule, unless there is one with that key; whether it was written."""
    names, values, params = _assigned({name: declared[name] for name in COLUMNS})
    cur.execute(
        f"INSERT INTO stampeded_schedules (key, next_run_at, declared, declared_at, {', '.join(names)}) "
        f"VALUES (%s::text, %s::timestamptz, %s::jsonb, clock_timestamp(), {', '.join(values)}) "
        "ON CONFLICT (key) DO NOTHING RETURNING true",
        [key, next_run_at, json.dumps(declared), *params],
    )
    return cur.fetchone() is not None


def redeclare(cur: Any, key: str, declared: Mapping[str, Any], changes: Mapping[str, Any], *, resume: bool) -> None:
    """Note what the code declares now, change these columns, and resume the schedule where asked."""
    names, values, params = _assigned(changes)
    sets = [f"{name} = {value}" for name, value in zip(names, values, strict=True)]
    if resume:
        sets += ["paused = false", "set_aside_reason = NULL"]
    cur.execute(
        f"UPDATE stampeded_schedules SET {', '.join([*sets, 'declared = %s::jsonb', 'declared_at = clock_timestamp()'])} "
        "WHERE key = %s::text",
        [*params, json.dumps(declared), key],
    )


def undeclare(cur: Any, kept: Collection[str], packages: Iterable[str], lease: timedelta, reason: str) -> list[str]:
    """Pause the schedules that code of these packages declared, but not within `lease`, those `kept` left alone; their keys."""
    cur.execute(
        "UPDATE stampeded_schedules SET paused = true, declared_at = NULL, "
        "set_aside_reason = CASE WHEN paused THEN set_aside_reason ELSE %s::text END "
        "WHERE declared_at < clock_timestamp() - %s::interval AND key <> ALL(%s::text[]) "
        "AND split_part(declared ->> 'module', '.', 1) = ANY(%s::text[]) RETURNING key",
        [reason, lease, list(kept), list(packages)],
    )
    return sorted(row[0] for row in cur.fetchall())


def now(cur: Any) -> datetime:
    """The database's clock."""
    cur.execute("SELECT clock_timestamp() AT TIME ZONE 'UTC'")
    moment: datetime = cur.fetchone()[0]
    return moment.replace(tzinfo=UTC)


def _assigned(columns: Mapping[str, Any]) -> tuple[list[str], list[str], list[Any]]:
    """Names, placeholders and parameters for some of COLUMNS."""
    kinds = [_KINDS.get(name, "text") for name in columns]
    values = [json.dumps(value) if kind == "jsonb" else value for kind, value in zip(kinds, columns.values(), strict=True)]
    return list(columns), [f"%s::{kind}" for kind in kinds], values
