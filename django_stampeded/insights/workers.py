"""Workers as an operator sees them: which are alive, which have gone silent, and what each one runs.

Alive means a heartbeat within the setting DEAD_AFTER, by the database's clock. Reading only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import BooleanField, Case, QuerySet, Value, When
from django.db.models.functions import Now
from django.utils import timezone

from django_stampeded.conf import settings
from django_stampeded.insights.alias import chosen
from django_stampeded.insights.durations import in_words
from django_stampeded.models import Job, Worker
from django_stampeded.states import RUNNING

EVERY_QUEUE = "*"
RUNNING_SHOWN = 1_000


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that a worker holds now."""

    id: UUID
    queue: str
    task: str
    state: str
    attempt: int
    since: datetime | None
    tenant: str | None = None

    @property
    def since_words(self) -> str:
        """For how long it has run, for people."""
        return "" if self.since is None else in_words(timezone.now() - self.since)


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """One worker now.

    Args:
        id: its identity, new with every start of a process.
        hostname: a label, as is `pid`.
        pid: its process number.
        queues: what it takes jobs from; ``*`` stands for every queue.
        started_at: when it registered.
        last_heartbeat: its latest sign of life.
        alive: whether that is recent enough.
        running: the jobs that it holds.
        notifications: what it says of them, such as ``polling only``.
        trouble: what is wrong with its processes, such as ``keep dying``; for the entry of a supervisor.
        stop_requested_at: since when an operator wants it to stop; None for one that may go on.
    """

    id: UUID
    hostname: str
    pid: int
    queues: Sequence[str]
    started_at: datetime
    last_heartbeat: datetime
    alive: bool
    running: Sequence[RunningJob] = ()
    notifications: str = ""
    trouble: str = ""
    stop_requested_at: datetime | None = None

    @property
    def beat_words(self) -> str:
        """How long ago it last gave a sign of life, for people."""
        return in_words(timezone.now() - self.last_heartbeat)


def serves(worker: Worker, queue: str) -> bool:
    """Whether a worker takes jobs from this queue; one for every queue may have said which it leaves out."""
    if EVERY_QUEUE in worker.queues:
        left_out = worker.metadata.get("except_queues") if isinstance(worker.metadata, dict) else None
        return not isinstance(left_out, list) or queue not in left_out
    return queue in worker.queues


def may_know(worker: Worker, task: str) -> bool:
    """Whether a worker may have a function for this task: it says so, or says nothing of its tasks."""
    said = worker.metadata.get("tasks") if isinstance(worker.metadata, dict) else None
    return not isinstance(said, list) or task in said


def notifications_of(worker: Worker) -> str:
    """What the worker says of its notifications: listening, or polling only. Empty for one that says nothing."""
    said = worker.metadata.get("notifications") if isinstance(worker.metadata, dict) else None
    return said if isinstance(said, str) else ""


def trouble_of(worker: Worker) -> str:
    """What a supervisor says is wrong with its children. Empty where all is well."""
    said = worker.metadata.get("children") if isinstance(worker.metadata, dict) else None
    return said if isinstance(said, str) else ""


def workers(using: str | None = None) -> list[WorkerStatus]:
    """Every registered worker, live ones first, with what it runs; two statements whatever their number."""
    alias = chosen(using)
    rows = list(with_liveness(Worker.objects.using(alias)).order_by("-alive", "-last_heartbeat", "id"))
    held = running_by_worker([row.pk for row in rows], alias)
    return [
        WorkerStatus(
            id=row.id,
            hostname=row.hostname,
            pid=row.pid,
            queues=tuple(row.queues),
            started_at=row.started_at,
            last_heartbeat=row.last_heartbeat,
            alive=row.alive,
            running=tuple(held.get(row.id, ())),
            notifications=notifications_of(row),
            trouble=trouble_of(row),
            stop_requested_at=row.stop_requested_at,
        )
        for row in rows
    ]


def live_workers(using: str | None = None) -> QuerySet[Worker]:
    """The workers whose heartbeat is recent enough."""
    return with_liveness(Worker.objects.using(chosen(using))).filter(alive=True)


def with_liveness(rows: QuerySet[Any]) -> QuerySet[Any]:
    """The same workers, each with `alive`: whether its heartbeat is within DEAD_AFTER."""
    recent = When(last_heartbeat__gte=Now() - dead_after(), then=Value(True))
    return rows.annotate(alive=Case(recent, default=Value(False), output_field=BooleanField()))


def dead_after() -> timedelta:
    """How long after its last heartbeat a worker counts as dead."""
    value = settings.DEAD_AFTER
    return value if isinstance(value, timedelta) else timedelta(seconds=float(value))


def running_by_worker(ids: Sequence[UUID], using: str | None = None) -> dict[UUID, list[RunningJob]]:
    """What each of these workers holds: one statement, at most RUNNING_SHOWN jobs in all."""
    if not ids:
        return {}
    jobs = (
        Job.objects.using(chosen(using))
        .filter(state__in=RUNNING, claimed_by__in=ids)
        .order_by("claimed_at", "id")
        .values_list("claimed_by", "id", "queue", "task", "state", "attempt", "claimed_at", "tenant_id")[:RUNNING_SHOWN]
    )
    held: dict[UUID, list[RunningJob]] = defaultdict(list)
    for holder, job_id, queue, task, state, attempt, since, tenant in jobs:
        if holder is not None:
            held[holder].append(RunningJob(job_id, queue, task, state, attempt, since, tenant))
    return dict(held)
