"""The same act on many jobs: each in its own transaction, each with its own outcome, for a bounded time."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django_stampeded.actions.audit import Actor
from django_stampeded.actions.jobs import JOB_ACTIONS, Outcome

BULK_SECONDS = 20.0
SKIPS_KEPT = 100


@dataclass(slots=True)
class BulkReport:
    """What became of a bulk act: each job on its own, none stops the others.

    Args:
        done: how many were changed.
        skipped: how many were not.
        skips: the first SKIPS_KEPT of those, with their reasons.
        finished: False when the time ran out first; the same call again goes on.
    """

    done: int = 0
    skipped: int = 0
    skips: list[Outcome] = field(default_factory=list)
    finished: bool = True

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> BulkReport:
        """The report of outcomes that are known already."""
        report = cls()
        for outcome in outcomes:
            report.add(outcome)
        return report

    def merge(self, other: BulkReport) -> None:
        """Add another report to this one."""
        self.done += other.done
        self.skipped += other.skipped
        self.skips = [*self.skips, *other.skips][:SKIPS_KEPT]
        self.finished = self.finished and other.finished

    def add(self, outcome: Outcome) -> None:
        """Count one more."""
        if outcome.done:
            self.done += 1
            return
        self.skipped += 1
        if len(self.skips) < SKIPS_KEPT:
            self.skips.append(outcome)


def on_each(
    action: str,
    jobs: Iterable[tuple[str, UUID]],
    *,
    actor: Actor,
    seconds: float = BULK_SECONDS,
    using: str | None = None,
    **parameters: Any,
) -> BulkReport:
    """Do the same to many jobs, each in a transaction of its own.

    Args:
        action: a name in JOB_ACTIONS.
        jobs: (queue, id) of each; may be a generator.
        actor: who does it.
        seconds: stop when this many have passed; the report then says that it is not finished.
        using: database alias; the setting DATABASE when None.
        parameters: what the action takes besides, such as ``reason`` or ``to``.

    Returns:
        How many were changed and how many not, with reasons.

    Raises:
        KeyError: there is no such action.

    Example:
        >>> on_each("retry", [("mail", first), ("mail", second)], actor=Actor("ann")).done
        2
    """
    act = JOB_ACTIONS[action]
    report = BulkReport()
    until = time.monotonic() + seconds
    for queue, job_id in jobs:
        if time.monotonic() >= until:
            report.finished = False
            break
        report.add(act(queue, job_id, actor=actor, using=using, **parameters))
    return report
