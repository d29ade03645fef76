"""The circuit breakers as an operator sees them: those that hold jobs back first, then those that count failures.

Reading only; tripping and resetting are the operator service's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Q
from django.utils import timezone

from django_stampeded.insights.alias import chosen
from django_stampeded.insights.durations import in_words
from django_stampeded.models import Breaker, Job
from django_stampeded.states import BreakerState


@dataclass(frozen=True, slots=True)
class BreakerStatus:
    """One breaker now.

    Args:
        kind: ``destination`` or ``task``.
        key: which one.
        state: ``closed``, ``open`` or ``half_open``.
        failures: those counted in the period in progress, while it is closed.
        openings: how often it has opened without having been closed since.
        opened_at: since when it holds jobs back; None while it is closed.
        retry_at: when the next probes may start; None while it is closed, or stays open until it is reset.
        retry_in: that in words; empty when there is no such time.
        reason: why it is open.
        queues: the queues that it was reported from; empty when any may have jobs of it.
    """

    kind: str
    key: str
    state: str
    failures: int = 0
    openings: int = 0
    opened_at: datetime | None = None
    retry_at: datetime | None = None
    retry_in: str = ""
    reason: str = ""
    queues: Sequence[str] = ()


def breakers(using: str | None = None, limit: int = 1000) -> list[BreakerStatus]:
    """At most so many breakers: those that are open, then half open, then closed, the one that changed last first.

    Args:
        using: database alias; the setting DATABASE when None.
        limit: 1 or more.

    Example:
        >>> [breaker.key for breaker in breakers() if breaker.state != "closed"]
        ['api.example.org']
    """
    found = Breaker.objects.using(chosen(using)).order_by(F("opened_at").asc(nulls_last=True), "-updated_at", "kind", "key")
    return [_status(row) for row in found[:limit]]


def breaker_of(job: Job, using: str | None = None) -> BreakerStatus | None:
    """The breaker that keeps a job from starting; None where none does."""
    mine = Q(kind=Breaker.Kind.TASK, key=job.task)
    if job.destination:
        mine = Q(kind=Breaker.Kind.DESTINATION, key=job.destination)
    row = Breaker.objects.using(chosen(using)).filter(mine).exclude(state=BreakerState.CLOSED).first()
    return None if row is None else _status(row)


def _status(row: Breaker) -> BreakerStatus:
    left = None if row.retry_at is None else row.retry_at - timezone.now()
    return BreakerStatus(
        kind=row.kind,
        key=row.key,
        state=row.state,
        failures=row.failures,
        openings=row.openings,
        opened_at=row.opened_at,
        retry_at=row.retry_at,
        retry_in="" if left is None or left.total_seconds() <= 0 else in_words(left),
        reason=row.reason or "",
        queues=tuple(row.queues or ()),
    )
