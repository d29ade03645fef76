"""The same act on many jobs: one by one or a portion by one statement; each has its own outcome, none stops the others."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import DatabaseError, connections, transaction
from django.db.models import Q
from django.db.models.functions import Now

from django_stampeded import operator_functions
from django_stampeded.actions.audit import Actor, record_many
from django_stampeded.actions.jobs import JOB_ACTIONS, Outcome, refusal
from django_stampeded.conf import settings
from django_stampeded.functions import Changed
from django_stampeded.insights.selection import Selection
from django_stampeded.insights.walking import Group
from django_stampeded.models import Job
from django_stampeded.states import FINAL, RUNNING, WAITING, State

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


def _of(*groups: Collection[State]) -> tuple[State, ...]:
    """The states of these groups, in one order in every process: positions that bulk operations have stored count on it."""
    return tuple(state for group in groups for state in State if state in group)


GOES_FOR: dict[str, tuple[State, ...]] = {
    "retry": (State.RETRYABLE, State.DISCARDED, State.CANCELLED),
    "run_now": _of(WAITING),
    "cancel": _of(WAITING, RUNNING),
    "discard": _of(WAITING, RUNNING),
    "move": _of(WAITING),
    "set_priority": _of(WAITING),
    "delete": _of(WAITING, FINAL),
}
"""The states of the jobs that somebody means by "all". Completed jobs are run again one by one only."""
PARAMETER_OF = {"cancel": "reason", "discard": "reason", "move": "to", "set_priority": "priority"}
"""What an act takes besides the job."""


def group(action: str, selection: Selection, parameters: Mapping[str, Any]) -> Group:
    """Those jobs of a selection that an act on all of them goes for. Raises KeyError where there is no such act on many."""
    also = Q()
    if action == "run_now":
        also = Q(scheduled_at__gt=Now())
    elif action == "move":
        also = ~Q(queue=parameters["to"])
    elif action == "set_priority":
        also = ~Q(priority=parameters["priority"])
    return Group(selection, GOES_FOR[action], also)


def on_portion(
    action: str,
    jobs: Sequence[tuple[str, UUID]],
    *,
    actor: Actor,
    using: str | None = None,
    detail: Mapping[str, Any] | None = None,
    **parameters: Any,
) -> BulkReport:
    """Do the same to some hundred jobs in the transaction in progress or one of its own; what can't be done so, one by one.

    Args:
        action: a name in GOES_FOR.
        jobs: (queue, id) of each.
        actor: who does it.
        using: database alias; the setting DATABASE when None.
        detail: what the audit row of each job says besides.
        parameters: what the act takes, by the name in PARAMETER_OF.

    Returns:
        How many were changed and how many not, with reasons.

    Example:
        >>> on_portion("cancel", [("mail", first), ("mail", second)], actor=Actor("ann"), reason="").done
        2
    """
    alias = using or settings.DATABASE
    report = BulkReport()
    try:
        with transaction.atomic(using=alias):
            held = _held(jobs, alias)
            fitting = []
            for job in held:
                if why := refusal(action, job, parameters):
                    report.add(Outcome(job.queue, job.pk, False, job.state, "", why))
                else:
                    fitting.append((job.queue, job.pk))
            changed = _changed(action, fitting, parameters, alias)
            record_many(alias, action, actor, _audited(fitting, changed, {**(detail or {}), **parameters}))
    except DatabaseError as error:
        if (getattr(error.__cause__, "sqlstate", None) or "08")[:2] in {"08", "57"}:
            raise  # a lost connection is no answer about a job
        return on_each(action, jobs, actor=actor, seconds=float("inf"), using=alias, **parameters)
    for queue, job_id in fitting:
        if job_id in changed:
            report.add(Outcome(parameters.get("to", queue), job_id, True, changed[job_id].was, changed[job_id].now_state))
    known = {job.pk for job in held}
    left = [pair for pair in jobs if pair[1] not in known or (pair[1] not in changed and pair in fitting)]
    report.merge(on_each(action, left, actor=actor, seconds=float("inf"), using=alias, **parameters))
    return report


def _held(jobs: Sequence[tuple[str, UUID]], alias: str) -> list[Job]:
    """Those of the jobs whose rows nobody holds, locked; by queue and id, so that two such acts can't wait for each other."""
    rows = Job.objects.using(alias).filter(queue__in={queue for queue, _ in jobs}, pk__in=[job_id for _, job_id in jobs])
    needed = rows.only("queue", "state", "attempt", "max_attempts", "source_id", "source_queue")
    return list(needed.order_by("queue", "id").select_for_update(skip_locked=True))


def _changed(action: str, jobs: Sequence[tuple[str, UUID]], parameters: Mapping[str, Any], alias: str) -> dict[UUID, Changed]:
    if not jobs:
        return {}
    name = PARAMETER_OF.get(action)
    values = [parameters.get(name) or None if name == "reason" else parameters[name]] if name else []
    with connections[alias].cursor() as cursor:
        return operator_functions.on_many(cursor, action, jobs, *values)


def _audited(
    jobs: Sequence[tuple[str, UUID]], changed: Mapping[UUID, Changed], detail: Mapping[str, Any]
) -> list[tuple[str, UUID, dict[str, Any]]]:
    return [
        (queue, job_id, {"was": changed[job_id].was, "now": changed[job_id].now_state, **detail})
        for queue, job_id in jobs
        if job_id in changed
    ]
