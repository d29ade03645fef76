"""Queues as an operator sees them: depth by state, the oldest job that waits, policy, and the workers that serve them.

Depths come from the counts view and the oldest job from an index: the job table is never counted. Reading only;
pausing and resuming are the operator service's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import DateTimeField, F, Func, Value
from django.db.models.functions import Now

from django_stampeded.insights.alias import chosen
from django_stampeded.insights.durations import in_words
from django_stampeded.insights.reasons import VERDICT_TRUSTED_FOR
from django_stampeded.insights.workers import live_workers, serves
from django_stampeded.models import ALL_QUEUES, QueueCount, QueuePolicy
from django_stampeded.states import RUNNING, WAITING, State


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """One queue now.

    Args:
        queue: its name.
        counts: jobs by state; states without jobs are left out.
        oldest_due: when the job that has waited longest fell due; None when none is due.
        oldest_age: how long ago that was.
        paused_at: since when it is paused; None while it runs.
        paused_reason: why, as the operator put it.
        paused_until: when the pause ends by itself; None when it doesn't.
        paused_with_all: the pause is that of all queues, and not its own.
        max_running: most jobs at once; None for no limit.
        verdict: the planner's word; steady when it has gone stale.
        verdict_reason: its reason, empty for steady.
        live_workers: live workers that take jobs from it.
    """

    queue: str
    counts: Mapping[str, int] = field(default_factory=dict)
    oldest_due: datetime | None = None
    oldest_age: timedelta | None = None
    paused_at: datetime | None = None
    paused_reason: str = ""
    paused_until: datetime | None = None
    paused_with_all: bool = False
    max_running: int | None = None
    verdict: str = "steady"
    verdict_reason: str = ""
    live_workers: int = 0

    @property
    def waiting(self) -> int:
        """Jobs available or retryable, due or not."""
        return sum(self.counts.get(state, 0) for state in WAITING)

    @property
    def running(self) -> int:
        """Jobs claimed or executing."""
        return sum(self.counts.get(state, 0) for state in RUNNING)

    @property
    def paused(self) -> bool:
        return self.paused_at is not None

    @property
    def by_state(self) -> list[int]:
        """Jobs in each state, in the order of `State`."""
        return [self.counts.get(state, 0) for state in State]

    @property
    def oldest_words(self) -> str:
        """How long the oldest due job has waited, for people; empty when none is due."""
        return "" if self.oldest_age is None else in_words(self.oldest_age)


class _NextDue(Func):
    """When the first job that waits in a queue is due; the SQL function hops over the claim index and reads few entries."""

    function = "stampeded_next_due"
    output_field = DateTimeField()


def queues(using: str | None = None) -> list[QueueStatus]:
    """Every queue that has jobs or a policy, by name; four statements whatever their number.

    Args:
        using: database alias; the setting DATABASE when None.

    Example:
        >>> [queue.queue for queue in queues() if queue.waiting > 100]
        ['mail']
    """
    alias = chosen(using)
    counts = counts_by_queue(alias)
    oldest = _oldest_due(alias)
    policies = policies_of(alias)
    alive = list(live_workers(alias))
    return [
        QueueStatus(
            queue=name,
            counts=counts.get(name, {}),
            oldest_due=oldest.get(name, (None, None))[0],
            oldest_age=oldest.get(name, (None, None))[1],
            live_workers=sum(1 for worker in alive if serves(worker, name)),
            **_policy_part(policies.get(name)),
            **pause_part(policies.get(name), policies.get(ALL_QUEUES)),
        )
        for name in sorted({*counts, *policies})
    ]


def counts_by_queue(using: str | None = None) -> dict[str, dict[str, int]]:
    """Jobs by queue and state, from the counts view; zeroes left out."""
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    rows = QueueCount.objects.using(chosen(using)).filter(n__gt=0).values_list("queue", "state", "n")
    for queue, state, number in rows:
        counts[queue][state] = int(number)
    return dict(counts)


def total(counts: Mapping[str, Mapping[str, int]], queue: str | None = None, state: str | None = None) -> int:
    """How many jobs the counts tell of, of one queue or state where given."""
    chosen_queues: Iterable[Mapping[str, int]] = counts.values() if queue is None else [counts.get(queue, {})]
    return sum(n for states in chosen_queues for name, n in states.items() if state is None or name == state)


def _oldest_due(alias: str) -> dict[str, tuple[datetime | None, timedelta | None]]:
    waiting = (
        QueueCount.objects.using(alias)
        .filter(n__gt=0, state__in=WAITING)
        .annotate(oldest=_NextDue("queue", Value(False)))
        .annotate(age=Now() - F("oldest"))
        .values_list("queue", "oldest", "age")
    )
    return {queue: (oldest, age) for queue, oldest, age in waiting if age is not None and age >= timedelta(0)}


def _policy_part(policy: QueuePolicy | None) -> dict[str, Any]:
    if policy is None:
        return {}
    return {"max_running": policy.max_running, "verdict": policy.verdict, "verdict_reason": policy.reason or ""}


def policies_of(alias: str, queue: str | None = None) -> dict[str, QueuePolicy]:
    """The policies, or those that hold for one queue; that of all queues is among them only while it pauses them.

    A pause that has ended by itself, by the database's clock, is left out of its row, and so is a verdict that has gone stale.
    """
    rows = QueuePolicy.objects.using(alias).annotate(database_now=Now())
    if queue is not None:
        rows = rows.filter(pk__in=[queue, ALL_QUEUES])
    found: dict[str, QueuePolicy] = {}
    for policy in rows:
        if policy.paused_until is not None and policy.paused_until <= policy.database_now:
            policy.paused_at = policy.paused_reason = policy.paused_until = None
        if policy.decided_at is None or policy.database_now - policy.decided_at > VERDICT_TRUSTED_FOR:
            policy.verdict, policy.reason = QueuePolicy.Verdict.STEADY.value, None
        if policy.queue != ALL_QUEUES or policy.paused_at is not None:
            found[policy.queue] = policy
    return found


def pause_part(own: QueuePolicy | None, of_all: QueuePolicy | None) -> dict[str, Any]:
    """What holds of a queue's pause: its own, or else that of all queues."""
    pause = own if own is not None and own.paused_at is not None else of_all
    if pause is None or pause.paused_at is None:
        return {}
    return {
        "paused_at": pause.paused_at,
        "paused_reason": pause.paused_reason or "",
        "paused_until": pause.paused_until,
        "paused_with_all": pause is not own,
    }
