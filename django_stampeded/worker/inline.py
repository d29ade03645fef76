"""Running due jobs in the calling thread, one after the other, on a cursor of the caller's: for tests and tools.

The same steps as in a worker, without threads: claim, perform, record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any
from uuid import UUID

from django_stampeded import functions
from django_stampeded.worker.acker import record
from django_stampeded.worker.execution import Recipes, perform
from django_stampeded.worker.interrupt import Guard
from django_stampeded.worker.lease import Lease
from django_stampeded.worker.outcomes import Outcome
from django_stampeded.worker.progress import Reports, write


@dataclass(frozen=True, slots=True)
class Run:
    """A job that was run, and how it ended; `recorded` is False when its lease was lost meanwhile."""

    job: functions.ClaimedJob
    outcome: Outcome
    recorded: bool


def run_once(
    cur: Any, worker_id: UUID, queues: Sequence[str], limit: int, alias: str, recipes: Recipes | None = None
) -> list[Run]:
    """Claim up to `limit` due jobs of `queues` by `cur`, run each here and record how it ended.

    `cur` is a cursor of any driver, in a transaction or not; `worker_id` is a registered worker's; `alias` is the
    database that the jobs are in. Returns the jobs in the order in which they ran. Raises the driver's errors.

    Example: `run_once(cursor, worker_id, ["default"], 10, "default")`
    """
    recipes = recipes or Recipes(alias)
    runs = []
    for job in functions.claim(cur, queues, worker_id, limit):
        lease = Lease(job, worker_id, monotonic())
        lease.reports = reports = Reports()
        outcome = perform(lease, recipes, Guard())
        write(cur, reports.take(monotonic(), last=True))
        refused = record(cur, [(lease, outcome)])
        runs.append(Run(job, outcome, not refused))
    return runs
