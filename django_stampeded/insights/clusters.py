"""Failures grouped by fingerprint: the same error met many times is one line. Bounded, newest first, reading only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from django_stampeded.conf import settings
from django_stampeded.insights.alias import chosen
from django_stampeded.insights.errors import LONGEST_ERROR, summary_of
from django_stampeded.insights.redaction import Redactor
from django_stampeded.insights.selection import GROUPED
from django_stampeded.models import Job
from django_stampeded.states import State

EXAMINED = 3_000
SHOWN = 50
TREND = 24


@dataclass(frozen=True, slots=True)
class ErrorCluster:
    """Jobs whose latest error is the same but for numbers and ids.

    Args:
        fingerprint: in hexadecimal.
        jobs: how many.
        tasks: their tasks, the most frequent first.
        queues: their queues, likewise.
        kinds: the failure kinds, likewise.
        states: jobs by state.
        newest_id: the newest of these jobs, and `newest_queue` its queue.
        first_seen: when the earliest of them failed.
        last_seen: when the latest of them failed.
        trend: how many failed in each of TREND equal parts of the time from then until now.
        summary: the telling line of its error.
    """

    fingerprint: str
    jobs: int
    tasks: list[str]
    queues: list[str]
    kinds: list[str]
    states: dict[str, int]
    newest_id: UUID
    newest_queue: str
    first_seen: datetime | None
    last_seen: datetime | None
    trend: list[int]
    summary: str


@dataclass(frozen=True, slots=True)
class Clusters:
    """The clusters found.

    Args:
        clusters: the largest first, at most SHOWN.
        examined: how many failed jobs were looked at.
        complete: False when there were more than EXAMINED in a state, or more clusters than shown.
    """

    clusters: list[ErrorCluster]
    examined: int
    complete: bool


def error_clusters(queue: str | None = None, using: str | None = None) -> Clusters:
    """The errors of the newest failed jobs, grouped: three statements, whatever the table's size.

    Args:
        queue: only of this queue.
        using: database alias; the setting DATABASE when None.

    Example:
        >>> [(c.jobs, c.summary) for c in error_clusters().clusters]
        [(812, 'ConnectionError: payment.example refused')]
    """
    alias = chosen(using)
    rows: list[tuple[Any, ...]] = []
    complete = True
    for state in GROUPED:  # one statement a state: each is read in order from an index
        found = _newest_failed(state, queue, alias)
        complete = complete and len(found) < EXAMINED
        rows += [row for row in found if row[0] is not None]
    groups: dict[bytes, list[tuple[Any, ...]]] = {}
    for row in sorted(rows, key=lambda row: row[1], reverse=True):
        groups.setdefault(bytes(row[0]), []).append(row)
    largest = sorted(groups.items(), key=lambda item: len(item[1]), reverse=True)[:SHOWN]
    samples = _errors_of([members[0][1] for _, members in largest], alias)
    clusters = [_cluster(fingerprint, members, samples) for fingerprint, members in largest]
    return Clusters(clusters, len(rows), complete and len(groups) <= SHOWN)


def _newest_failed(state: State, queue: str | None, alias: str) -> list[tuple[Any, ...]]:
    jobs = Job.objects.using(alias).filter(state=state)
    if queue is not None:
        jobs = jobs.filter(queue=queue)
    columns = ("error_fingerprint", "id", "queue", "task", "state", "failure_kind", "finished_at", "claimed_at", "inserted_at")
    order = ("-finished_at", "-id") if state == State.DISCARDED else ("-id",)
    return list(jobs.order_by(*order).values_list(*columns)[:EXAMINED])


def _errors_of(ids: list[UUID], alias: str) -> dict[UUID, str | None]:
    if not ids:
        return {}
    return dict(Job.objects.using(alias).filter(pk__in=ids).values_list("id", "last_error"))


def _cluster(fingerprint: bytes, members: list[tuple[Any, ...]], samples: dict[UUID, str | None]) -> ErrorCluster:
    _, newest_id, newest_queue = members[0][:3]
    # The end of a final job; of one that is tried again, the start of its latest attempt, which is the nearest on record.
    seen = sorted(finished or claimed or inserted for *_, finished, claimed, inserted in members)
    error = Redactor(settings.REDACT).text(samples.get(newest_id) or "", LONGEST_ERROR)
    return ErrorCluster(
        fingerprint=fingerprint.hex(),
        jobs=len(members),
        tasks=_by_frequency(row[3] for row in members),
        queues=_by_frequency(row[2] for row in members),
        kinds=_by_frequency(row[5] or "" for row in members),
        states=dict(Counter(row[4] for row in members)),
        newest_id=newest_id,
        newest_queue=newest_queue,
        first_seen=seen[0],
        last_seen=seen[-1],
        trend=trend(seen, timezone.now()),
        summary=summary_of(error),
    )


def trend(moments: Iterable[datetime], now: datetime) -> list[int]:
    """How many of the moments lie in each of TREND equal parts of the time from the first of them until now."""
    known = sorted(moments)
    counts = [0] * TREND
    if not known:
        return counts
    span = max((now - known[0]).total_seconds(), 1.0)
    for moment in known:
        part = int((moment - known[0]).total_seconds() / span * TREND)
        counts[min(max(part, 0), TREND - 1)] += 1
    return counts


def _by_frequency(values: Iterable[str]) -> list[str]:
    return [value for value, _ in Counter(values).most_common(20) if value]
