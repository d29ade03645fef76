"""The last ten minutes for the charts, from the samples that maintenance writes: no statement here touches the jobs.

A slot without any sample is unknown (None), a queue without a row in a slot that was sampled was idle (0).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db.models import F, Max, Sum
from django.db.models.functions import Now

from django_stampeded.insights.alias import chosen
from django_stampeded.models import Sample

WINDOW = timedelta(minutes=10)
RECENT = timedelta(minutes=1)
QUEUES_DRAWN = 7
ALL = ""
"""The queue that stands for all of them in the samples."""

Line = list[float | None]


@dataclass(frozen=True, slots=True)
class Charts:
    """Lines over one axis of time; the first line of each chart is all queues together.

    Args:
        times: seconds since the epoch, one a sample.
        queues: whose lines follow, in this order; the empty name stands for all queues.
        depth: jobs that wait, due or not.
        throughput: jobs completed a second.
        oldest: seconds that the oldest due job has waited.
        failure_kinds: what the lines of `failures` stand for.
        failures: failures in the minute before each time.
        failed: failures over the whole of the time, by kind.
    """

    times: Sequence[float] = ()
    queues: Sequence[str] = ()
    depth: Sequence[Line] = ()
    throughput: Sequence[Line] = ()
    oldest: Sequence[Line] = ()
    failure_kinds: Sequence[str] = ()
    failures: Sequence[Line] = ()
    failed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FailureRate:
    """How often jobs failed in one way.

    Args:
        kind: a FailureKind.
        last_minute: failures in the last minute.
        per_minute: their average over the last ten.
    """

    kind: str
    last_minute: int
    per_minute: float


def sampled_ago(using: str | None = None) -> timedelta | None:
    """How long ago the latest sample was taken; None where there is none."""
    newest = Sample.objects.using(chosen(using)).filter(queue=ALL).order_by("-slot").annotate(ago=Now() - F("at"))
    ago: timedelta | None = newest.values_list("ago", flat=True).first()
    return ago


def charts(using: str | None = None) -> Charts:
    """The charts of the last ten minutes, for all queues together and for the busiest ones; three statements.

    Example:
        >>> charts().queues[:2]
        ['', 'mail']
    """
    alias = chosen(using)
    samples = Sample.objects.using(alias)
    newest = samples.filter(queue=ALL).order_by("-slot").values_list("slot", "at").first()
    if newest is None:
        return Charts()
    last, every = newest[0], _slot_seconds(newest[1].timestamp(), newest[0])
    names = [ALL, *_busiest(samples.filter(slot__gt=last - RECENT.total_seconds() / every))]
    first = last - int(WINDOW.total_seconds() / every) + 1
    before = int(RECENT.total_seconds() / every)  # what the first points look back on
    rows = samples.filter(queue__in=names, slot__gte=first - before, slot__lte=last)
    by_queue: dict[str, dict[int, Sample]] = defaultdict(dict)
    for row in rows:
        by_queue[row.queue][row.slot] = row
    return _drawn(names, by_queue, first)


def failure_rates(drawn: Charts) -> list[FailureRate]:
    """The same failures as numbers, the most frequent kind first. Pure."""
    if not drawn.times:
        return []
    minutes = max(1.0, (drawn.times[-1] - drawn.times[0]) / 60)
    lines = zip(drawn.failure_kinds, drawn.failures, strict=True)
    found = [FailureRate(kind, int(line[-1] or 0), drawn.failed[kind] / minutes) for kind, line in lines]
    return sorted(found, key=lambda rate: (-rate.per_minute, rate.kind))


def _slot_seconds(at: float, slot: int) -> float:
    """The length of a slot, told from a sample of it: its number counts slots since the epoch."""
    return float(round(at / slot)) or 1.0


def _busiest(recent: Any) -> list[str]:
    loads = (
        recent.exclude(queue=ALL)
        .values("queue")
        .annotate(load=Max(F("available") + F("retryable") + F("executing")) + Sum(F("completed") + F("discarded")))
        .order_by("-load", "queue")
    )
    return sorted(row["queue"] for row in loads[:QUEUES_DRAWN])


def _drawn(names: Sequence[str], by_queue: dict[str, dict[int, Sample]], first: int) -> Charts:
    known = by_queue[ALL]
    slots = sorted(slot for slot in known if slot >= first)
    last_minutes = {slot: _last_minute(known, slot) for slot in slots}
    kinds = sorted({kind for counted in last_minutes.values() for kind in counted})

    def lines(value: Callable[[Sample], float | None]) -> list[Line]:
        return [[value(by_queue[name][slot]) if slot in by_queue[name] else 0 for slot in slots] for name in names]

    return Charts(
        times=[known[slot].at.timestamp() for slot in slots],
        queues=list(names),
        depth=lines(lambda row: row.available + row.retryable),
        throughput=lines(lambda row: None if not row.seconds else round(row.completed / row.seconds, 3)),
        oldest=lines(lambda row: round(row.oldest_waiting_secs or 0, 1)),
        failure_kinds=kinds,
        failures=[[last_minutes[slot][kind] for slot in slots] for kind in kinds],
        failed={kind: sum(known[slot].failures.get(kind, 0) for slot in slots) for kind in kinds},
    )


def _last_minute(known: Mapping[int, Sample], slot: int) -> Counter[str]:
    """Failures by kind in the minute that this slot ends."""
    counted: Counter[str] = Counter()
    since = known[slot].at - RECENT
    while slot in known and known[slot].at > since:
        counted.update(known[slot].failures)
        slot -= 1
    return counted
