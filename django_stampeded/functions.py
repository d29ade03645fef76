"""Every call of the SQL functions, one Python function each: the only module that knows their names and arguments.

Owns the conversion between Python values and SQL ones. Each function takes a cursor first, Django's or psycopg's own, and runs
one statement on it; transactions, connections and retries are the caller's. Casts stand in the SQL because Django's cursors
bind on the client, where a literal has lost its type.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID


class ClaimedJob(NamedTuple):
    """A job as its claim returned it: what a worker needs to run it."""

    id: UUID
    queue: str
    task: str
    args: dict[str, Any]
    meta: dict[str, Any]
    tenant_id: str | None
    priority: int
    destination: str | None
    scheduled_at: datetime
    expire_seconds: int
    attempt: int
    max_attempts: int
    interruptions: int
    deferrals: int
    checkpoint: Any
    checkpoint_seq: int
    backoff_base_ms: int
    backoff_max_ms: int
    inserted_at: datetime
    batch_id: UUID | None = None


class Ack(NamedTuple):
    """One attempt of one job: what a worker must show to say anything about it."""

    queue: str
    id: UUID
    attempt: int


class Failed(NamedTuple):
    """What a failure led to."""

    was: str
    now_state: str
    dead_lettered: bool


class Changed(NamedTuple):
    """The state a job was in and the one it is in now."""

    was: str
    now_state: str


class Reclaimed(NamedTuple):
    """A job that was taken back from a worker (None: none was on record)."""

    id: UUID
    queue: str
    worker_id: UUID | None


class Heard(NamedTuple):
    """What a worker's own row tells it."""

    stop_requested: bool


_CLAIM = f"SELECT {', '.join(ClaimedJob._fields)} FROM stampeded_claim_many(%s::text[], %s::uuid, %s::bigint, %s::bigint[])"
_LEASES = "%s::text[], %s::uuid[], %s::bigint[])"
_MANY = f"(%s::uuid, {_LEASES}"
_SOON = "(SELECT set_config('lock_timeout', '{}ms', true) AS ms) set, {}(CASE WHEN ms <> '' THEN %s::uuid END, " + _LEASES
_ONE = "(%s::text, %s::uuid, %s::uuid, %s::bigint"


def _loaded(value: Any) -> Any:
    """A jsonb value, which Django's cursors return as text and psycopg's as objects."""
    return json.loads(value) if isinstance(value, str) else value


def _claimed(row: Sequence[Any]) -> ClaimedJob:
    job = ClaimedJob._make(row)
    if isinstance(job.args, str):
        job = job._replace(args=json.loads(job.args), meta=json.loads(job.meta), checkpoint=_loaded(job.checkpoint))
    return job


def _arrays(worker_id: UUID, acks: Sequence[Ack]) -> list[Any]:
    return [worker_id, [a.queue for a in acks], [a.id for a in acks], [a.attempt for a in acks]]


def _ids(cur: Any, function: str, worker_id: UUID, acks: Sequence[Ack], lock_wait_s: float = 0) -> set[UUID]:
    if not acks:
        return set()
    call = _SOON.format(int(lock_wait_s * 1000), function) if lock_wait_s else function + _MANY
    cur.execute(f"SELECT id FROM {call}", _arrays(worker_id, acks))
    return {row[0] for row in cur.fetchall()}


def claim(
    cur: Any, queues: Sequence[str], worker_id: UUID, limit: int, limits: Sequence[int] | None = None
) -> list[ClaimedJob]:
    """Claims up to `limit` due jobs over `queues`, the first named first, each bounded by its entry of `limits` if given.

    Returns them in the order in which they should start. Raises the driver's DataError for a negative limit.

    Example: `claim(cur, ["mail", "default"], worker_id, 8)`
    """
    cur.execute(_CLAIM, [list(queues), worker_id, limit, None if limits is None else list(limits)])
    return [_claimed(row) for row in cur.fetchall()]


def complete_many(cur: Any, worker_id: UUID, acks: Sequence[Ack], lock_wait_s: float = 0) -> set[UUID]:
    """Completes jobs; returns the ids of those that were this worker's still. The others' leases are lost. With `lock_wait_s`,
    by a cursor in autocommit, raises LockNotAvailable for a row locked longer, which costs no round trip."""
    return _ids(cur, "stampeded_complete_many", worker_id, acks, lock_wait_s)


def release_many(cur: Any, worker_id: UUID, acks: Sequence[Ack]) -> set[UUID]:
    """Hands back jobs that never started, their attempts uncharged; returns the ids of those that were this worker's still."""
    return _ids(cur, "stampeded_release_many", worker_id, acks)


def touch_many(cur: Any, worker_id: UUID, acks: Sequence[Ack]) -> set[UUID]:
    """Beats for jobs; returns the ids of those that are this worker's still. The others' leases are lost."""
    return _ids(cur, "stampeded_touch_many", worker_id, acks)


def fail(
    cur: Any,
    ack: Ack,
    worker_id: UUID,
    kind: str,
    error: str,
    retry_delay_ms: int | None = None,
    exit_status: int | None = None,
) -> Failed | None:
    """Reports a failure of `kind` (a FailureKind). None when the attempt isn't this worker's any more.

    `retry_delay_ms` None means the job's own back-off, 0 at once; it is clamped to ten years. `error` is cut to 4,000
    characters and must hold no NUL. Raises the driver's DataError for an unknown kind.
    """
    cur.execute(
        f"SELECT was, now_state, dead_lettered FROM stampeded_fail{_ONE}, %s::text, %s::text, %s::bigint, %s::integer)",
        [ack.queue, ack.id, worker_id, ack.attempt, kind, error, retry_delay_ms, exit_status],
    )
    row = cur.fetchone()
    return None if row is None else Failed._make(row)


def snooze(cur: Any, ack: Ack, worker_id: UUID, delay_ms: int) -> bool:
    """Puts a job off with its attempt given back and nothing recorded. False when it isn't this worker's any more."""
    cur.execute(f"SELECT stampeded_snooze{_ONE}, %s::bigint)", [ack.queue, ack.id, worker_id, ack.attempt, delay_ms])
    return bool(cur.fetchone()[0])


def touch(cur: Any, ack: Ack, worker_id: UUID) -> bool:
    """Beats for one job. False when it isn't this worker's any more."""
    cur.execute(f"SELECT stampeded_touch{_ONE})", [ack.queue, ack.id, worker_id, ack.attempt])
    return bool(cur.fetchone()[0])


def checkpoint(cur: Any, ack: Ack, worker_id: UUID, state: Any) -> int | None:
    """Stores where a job stands, as JSON of at most 64 KiB; returns its number, None when the job isn't the worker's any more.

    Raises TypeError or ValueError for what JSON can't hold, the driver's IntegrityError for what is too large.
    """
    cur.execute(
        f"SELECT stampeded_checkpoint{_ONE}, %s::jsonb)",
        [ack.queue, ack.id, worker_id, ack.attempt, json.dumps(state, allow_nan=False)],
    )
    number: int | None = cur.fetchone()[0]
    return number


def register_worker(cur: Any, hostname: str, pid: int, queues: Sequence[str], metadata: dict[str, Any]) -> UUID:
    """Registers a worker process, as must be done before it claims; returns its identity."""
    cur.execute(
        "INSERT INTO stampeded_workers (hostname, pid, queues, metadata) "
        "VALUES (%s::text, %s::integer, %s::text[], %s::jsonb) RETURNING id",
        [hostname, pid, list(queues), json.dumps(metadata)],
    )
    worker_id: UUID = cur.fetchone()[0]
    return worker_id


def deregister_worker(cur: Any, worker_id: UUID) -> None:
    """Takes a worker that has handed everything back off the list."""
    cur.execute("DELETE FROM stampeded_workers WHERE id = %s::uuid", [worker_id])


def heartbeat(cur: Any, worker_id: UUID) -> Heard | None:
    """Beats for a worker. None when its row is gone: it was taken for dead and must register anew."""
    cur.execute(
        "UPDATE stampeded_workers SET last_heartbeat = clock_timestamp() WHERE id = %s::uuid "
        "RETURNING stop_requested_at IS NOT NULL",
        [worker_id],
    )
    row = cur.fetchone()
    return None if row is None else Heard._make(row)


def set_waiting(cur: Any, worker_id: UUID, waiting: bool) -> None:
    """Says whether a worker waits for notifications. One that says no must look for itself before it says yes again."""
    cur.execute(
        "UPDATE stampeded_workers SET waiting = %s WHERE id = %s::uuid AND waiting <> %s", [waiting, worker_id, waiting]
    )


def describe_worker(cur: Any, worker_id: UUID, about: dict[str, Any]) -> None:
    """Adds to what is on record about a worker (its metadata), such as whether notifications reach it."""
    cur.execute(
        "UPDATE stampeded_workers SET metadata = metadata || %s::jsonb WHERE id = %s::uuid", [json.dumps(about), worker_id]
    )


def held(cur: Any, worker_id: UUID) -> list[Ack]:
    """The attempts that a worker holds: for one whose connection broke before it heard what its claim brought."""
    cur.execute(
        "SELECT queue, id, attempt FROM stampeded_jobs WHERE state IN ('claimed', 'executing') AND claimed_by = %s::uuid",
        [worker_id],
    )
    return [Ack._make(row) for row in cur.fetchall()]


def states(cur: Any, acks: Sequence[Ack]) -> dict[UUID, str]:
    """The state that each of these jobs is in now; those that are gone are left out."""
    queues = [a.queue for a in acks]
    cur.execute(
        "SELECT j.id, j.state FROM unnest(%s::text[], %s::uuid[]) AS asked(queue, id) "
        "JOIN stampeded_jobs j ON j.queue = asked.queue AND j.id = asked.id "
        "WHERE j.queue = ANY (%s::text[])",  # which leaves the planner the partitions of these queues
        [queues, [a.id for a in acks], queues],
    )
    return dict(cur.fetchall())


def queues_with_work(cur: Any) -> list[str]:
    """The queues in which jobs wait and that aren't paused, by name."""
    cur.execute("SELECT * FROM stampeded_queues_with_work()")
    return [row[0] for row in cur.fetchall()]


def next_due(cur: Any, queues: Sequence[str]) -> float | None:
    """In how many seconds a claim from these queues may bring a job (negative: now); None where none waits, or in a pause.

    That is when the earliest one is due, or later where a pause or a rate limit of its queue keeps it back.
    """
    cur.execute(
        "SELECT extract(epoch FROM min(stampeded_next_due(queue)) - clock_timestamp())::float8 "
        "FROM unnest(%s::text[]) AS queue",
        [list(queues)],
    )
    seconds: float | None = cur.fetchone()[0]
    return seconds


def reap(cur: Any, dead_after: timedelta) -> list[Reclaimed]:
    """Takes back the jobs of workers that haven't beaten for `dead_after`."""
    cur.execute("SELECT id, queue, worker_id FROM stampeded_reap(%s::interval)", [dead_after])
    return [Reclaimed._make(row) for row in cur.fetchall()]


def expire(cur: Any, limit: int = 100) -> list[Reclaimed]:
    """Fails as timed out up to `limit` jobs that gave no sign of life for their expire_seconds."""
    cur.execute("SELECT out_id, out_queue, out_worker FROM stampeded_expire(%s::bigint)", [limit])
    return [Reclaimed._make(row) for row in cur.fetchall()]


class Settled(NamedTuple):
    """What became of a job of a worker process that has ended, and whether it had been started."""

    id: UUID
    queue: str
    now_state: str
    started: bool


def settle_worker(cur: Any, worker_id: UUID, started: Sequence[UUID], error: str, exit_status: int | None) -> list[Settled]:
    """Settles the jobs of a worker whose process has ended: fails the `started` ones as worker_exited, releases the others."""
    cur.execute(
        "SELECT id, queue, now_state, started FROM stampeded_settle_worker(%s::uuid, %s::uuid[], %s::text, %s::integer)",
        [worker_id, list(started), error, exit_status],
    )
    return [Settled._make(row) for row in cur.fetchall()]


def limit_lock_wait(cur: Any, seconds: float) -> None:
    """For the rest of the transaction, lets a statement fail that waits longer than that for a lock."""
    cur.execute("SELECT set_config('lock_timeout', %s, true)", [f"{int(seconds * 1000)}ms"])


def prune(cur: Any, completed: timedelta, failed: timedelta, limit: int = 10_000) -> int:
    """Deletes up to `limit` jobs that were completed, or discarded and cancelled, so long ago; returns how many."""
    cur.execute("SELECT stampeded_prune(%s::interval, %s::bigint, %s::interval)", [completed, limit, failed])
    return int(cur.fetchone()[0])


def prune_occurrences(cur: Any, older_than: timedelta) -> int:
    """Deletes old entries of the ledger of fired occurrences; returns how many."""
    cur.execute("SELECT stampeded_prune_occurrences(%s::interval)", [older_than])
    return int(cur.fetchone()[0])


def fold_counts(cur: Any) -> int:
    """Replaces crowded rows of the counts by their sums; returns how many rows went."""
    cur.execute("SELECT stampeded_fold_counts()")
    return int(cur.fetchone()[0])


def _changed(cur: Any) -> Changed | None:
    row = cur.fetchone()
    return None if row is None else Changed._make(row)


def cancel(cur: Any, queue: str, job_id: UUID, reason: str | None = None) -> Changed | None:
    """Cancels a job that isn't final. None for one that is, or is unknown."""
    cur.execute("SELECT was, now_state FROM stampeded_cancel(%s::text, %s::uuid, %s::text)", [queue, job_id, reason])
    return _changed(cur)


def discard(cur: Any, queue: str, job_id: UUID, reason: str | None = None) -> Failed | None:
    """Gives up a job that isn't final. None for one that is, or is unknown."""
    cur.execute(
        "SELECT was, now_state, dead_lettered FROM stampeded_discard(%s::text, %s::uuid, %s::text)",
        [queue, job_id, reason],
    )
    row = cur.fetchone()
    return None if row is None else Failed._make(row)


def retry(cur: Any, queue: str, job_id: UUID) -> Changed | None:
    """Makes a job that isn't executing due now, a final one afresh. None for one that is, or is unknown."""
    cur.execute("SELECT was, now_state FROM stampeded_retry(%s::text, %s::uuid)", [queue, job_id])
    return _changed(cur)


def run_now(cur: Any, queue: str, job_id: UUID) -> Changed | None:
    """Makes a waiting job due now. None for one that isn't waiting."""
    cur.execute("SELECT was, now_state FROM stampeded_run_now(%s::text, %s::uuid)", [queue, job_id])
    return _changed(cur)


def move(cur: Any, queue: str, job_id: UUID, to: str) -> Changed | None:
    """Moves a job that isn't executing to another queue. None for one that is, or is unknown.

    Raises the driver's IntegrityError where the job's dedup slot is taken in the other queue.
    """
    cur.execute("SELECT was, now_state FROM stampeded_move(%s::text, %s::uuid, %s::text)", [queue, job_id, to])
    return _changed(cur)


def delete(cur: Any, queue: str, job_id: UUID) -> str | None:
    """Deletes a job that isn't executing; returns the state it was in. None for an executing or unknown one."""
    cur.execute("SELECT stampeded_delete(%s::text, %s::uuid)", [queue, job_id])
    row = cur.fetchone()
    return None if row is None else row[0]


def pause(cur: Any, queue: str, reason: str | None = None, until: datetime | None = None) -> None:
    """Stops claims from a queue (`*`: from all), until then where given; it goes on accepting jobs."""
    cur.execute("SELECT stampeded_pause(%s::text, %s::text, %s::timestamptz)", [queue, reason, until])


def resume(cur: Any, queue: str) -> None:
    """Lets a paused queue be claimed from again."""
    cur.execute("SELECT stampeded_resume(%s::text)", [queue])


def create_queue(cur: Any, queue: str, unlogged: bool = False) -> None:
    """Gives a queue a partition of its own, jobs that it has move along; changes nothing where it has one."""
    cur.execute("SELECT stampeded_create_queue(%s::text, %s::boolean)", [queue, unlogged])


def recount_queue(cur: Any, queue: str) -> None:
    """Rebuilds a queue's counts from its jobs."""
    cur.execute("SELECT stampeded_recount_queue(%s::text)", [queue])


def counts(cur: Any) -> list[tuple[str, str, int]]:
    """How many jobs each queue has in each state, as (queue, state, n); states without jobs are left out."""
    cur.execute("SELECT queue, state, n FROM stampeded_queue_counts ORDER BY queue, state")
    return [tuple(row) for row in cur.fetchall()]


def schema_version(cur: Any) -> int:
    """The version of the installed SQL."""
    cur.execute("SELECT stampeded_schema_version()")
    return int(cur.fetchone()[0])
