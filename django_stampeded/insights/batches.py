"""Batches as an operator sees them: where each stands, how its jobs ended, what it waits for and what it will enqueue.

Counts come from the batches' own deltas, in one statement for a page of batches; the job table is never counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connections

from django_stampeded import batch_functions
from django_stampeded.conf import settings
from django_stampeded.insights.alias import chosen
from django_stampeded.insights.redaction import Redactor
from django_stampeded.models import Batch
from django_stampeded.states import FINAL


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """One batch now.

    Args:
        id, name, parent_id, created_at, sealed_at, failed_at, finished_at, succeeded, callback_error: as on its row.
        counts: its jobs by state, exactly; states without jobs are left out.
    """

    id: UUID
    name: str
    parent_id: UUID | None
    created_at: datetime
    sealed_at: datetime | None
    failed_at: datetime | None
    finished_at: datetime | None
    succeeded: bool | None
    callback_error: str
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def jobs(self) -> int:
        """How many jobs it has."""
        return sum(self.counts.values())

    @property
    def ended(self) -> int:
        """How many of them are completed, discarded or cancelled."""
        return sum(self.counts.get(state, 0) for state in FINAL)

    @property
    def percent(self) -> int:
        """Whole percents of its jobs that have ended, 0 where it has none."""
        return 100 * self.ended // self.jobs if self.jobs else 0

    @property
    def stage(self) -> str:
        """`open` until it is sealed, `sealed` until it has finished, then `succeeded` or `failed`."""
        if self.finished_at is not None:
            return "succeeded" if self.succeeded else "failed"
        return "open" if self.sealed_at is None else "sealed"


@dataclass(frozen=True, slots=True)
class BatchView:
    """All about one batch.

    Args:
        status: where it stands.
        meta: its own JSON, redacted.
        callbacks: the names of the tasks to be enqueued, by event (on_complete, on_success, on_failure).
        within: the batches whose parent it is, the oldest first, at most MOST_WITHIN.
    """

    status: BatchStatus
    meta: dict[str, Any]
    callbacks: Mapping[str, str]
    within: list[BatchStatus]


MOST_WITHIN = 100


def batches(limit: int = 50, *, unfinished: bool = False, using: str | None = None) -> list[BatchStatus]:
    """The newest batches, or the newest that have not finished; two statements whatever their number.

    Example:
        >>> [(each.name, each.ended, each.jobs) for each in batches(unfinished=True)]
        [('import 42', 120, 10000)]
    """
    alias = chosen(using)
    rows = Batch.objects.using(alias).order_by("-id")
    if unfinished:
        rows = rows.filter(finished_at=None)
    return batch_statuses(rows[:limit], alias)


def batch(id: UUID, using: str | None = None) -> BatchView | None:
    """All about one batch; None for an unknown one."""
    alias = chosen(using)
    row = Batch.objects.using(alias).filter(pk=id).first()
    if row is None:
        return None
    within = Batch.objects.using(alias).filter(parent_id=id).order_by("id")[:MOST_WITHIN]
    status, *inner = batch_statuses([row, *within], alias)
    jobs = {event: getattr(row, event) for event in batch_functions.EVENTS}
    callbacks = {event: job["task"] for event, job in jobs.items() if job is not None}
    return BatchView(status, Redactor(settings.REDACT).value(row.meta), callbacks, inner)


def batch_statuses(rows: Iterable[Batch], using: str | None = None) -> list[BatchStatus]:
    """Where each of these batches stands, in their order: one statement for all of their counts."""
    alias, found = chosen(using), list(rows)
    with connections[alias].cursor() as cursor:
        counts = batch_functions.counts_of_batches(cursor, [row.pk for row in found]) if found else {}
    return [
        BatchStatus(
            id=row.pk,
            name=row.name,
            parent_id=row.parent_id,
            created_at=row.created_at,
            sealed_at=row.sealed_at,
            failed_at=row.failed_at,
            finished_at=row.finished_at,
            succeeded=row.succeeded,
            callback_error=row.callback_error or "",
            counts=counts.get(row.pk, {}),
        )
        for row in found
    ]
