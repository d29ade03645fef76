"""Every statement by which a running job says how far it is, one Python function each: what functions.py is for jobs.

Each function takes a cursor first, Django's or psycopg's own, and runs one statement on it; transactions, connections and
retries are the caller's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django_stampeded.functions import Ack


class Told(NamedTuple):
    """What one attempt of a job said of its progress: `done` of `total` units, or of nobody knows how many."""

    ack: Ack
    done: int
    total: int | None
    message: str


def tell_progress(cur: Any, worker_id: UUID, told: Sequence[Told]) -> set[UUID]:
    """Notes the progress of jobs of one worker, each at most once; returns the ids of those whose attempt is the latest still.

    Raises the driver's OperationalError where somebody holds one of the rows, as one who is deleting it does.
    """
    acks = [each.ack for each in told]
    cur.execute(
        "SELECT id FROM stampeded_progress_many(%s::uuid, %s::text[], %s::uuid[], %s::bigint[], "
        "%s::bigint[], %s::bigint[], %s::text[])",
        [
            worker_id,
            [ack.queue for ack in acks],
            [ack.id for ack in acks],
            [ack.attempt for ack in acks],
            [each.done for each in told],
            [each.total for each in told],
            [each.message for each in told],
        ],
    )
    return {row[0] for row in cur.fetchall()}


def store_step(cur: Any, ack: Ack, worker_id: UUID, name: str, entry: dict[str, Any]) -> int | None:
    """Stores how far a step is, beside the job's other steps; returns the checkpoint's number, None when the job isn't ours.

    Raises the driver's IntegrityError when the job's steps take more than 64 KiB together.
    """
    cur.execute(
        "SELECT stampeded_step(%s::text, %s::uuid, %s::uuid, %s::bigint, %s::text, %s::jsonb)",
        [ack.queue, ack.id, worker_id, ack.attempt, name, json.dumps(entry, allow_nan=False)],
    )
    number: int | None = cur.fetchone()[0]
    return number


def locked_checkpoint(cur: Any, ack: Ack, worker_id: UUID) -> Any:
    """The checkpoint of a job as it stands now, locked until the transaction ends; None where there is none, or not ours."""
    cur.execute(
        "SELECT checkpoint::text FROM stampeded_jobs WHERE queue = %s::text AND id = %s::uuid AND attempt = %s::bigint "
        "AND CASE WHEN state IN ('claimed', 'executing') THEN claimed_by = %s::uuid END FOR UPDATE",
        [ack.queue, ack.id, ack.attempt, worker_id],
    )
    row = cur.fetchone()
    return None if row is None or row[0] is None else json.loads(row[0])
