"""One job's facts: what it is, what happened to it, and why it is not running.

Secrets are hidden here, once, for all surfaces. The job's own row is read whole; everything else in a fixed number of
bounded statements. Reading only.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models import Q
from django.db.models.functions import Now

from django_stampeded import limit_functions
from django_stampeded.conf import settings
from django_stampeded.insights.alias import chosen
from django_stampeded.insights.breakers import breaker_of
from django_stampeded.insights.errors import LONGEST_ERROR, ErrorEntry, read_ring, summary_of
from django_stampeded.insights.progress import ProgressFacts, progress_of
from django_stampeded.insights.queues import counts_by_queue, pause_part, policies_of
from django_stampeded.insights.reasons import QueueSituation, Reason, why_not_running
from django_stampeded.insights.redaction import Redactor
from django_stampeded.insights.workers import EVERY_QUEUE, may_know, serves, with_liveness
from django_stampeded.models import ALL_QUEUES, Job, QueuePolicy, Worker
from django_stampeded.states import RUNNING, WAITING

AHEAD_COUNTED_TO = 1_000


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What any surface may show of a job; arguments, meta and errors have their secrets hidden.

    Args:
        error: the latest error's text; `error_summary` its telling line.
        errors: the errors ring, newest first.
        worker: host and process of the worker that holds it.
        progress: how far it said that it is, None where it said nothing.
        why: why it is not running, the decisive reason first.
        other attributes: the columns of the same name.
    """

    id: UUID
    queue: str
    task: str
    state: str
    tenant_id: str | None
    priority: int
    destination: str | None
    limit_key: str | None
    args: Any
    meta: Any
    scheduled_at: datetime
    inserted_at: datetime
    claimed_at: datetime | None
    heartbeat_at: datetime | None
    finished_at: datetime | None
    attempt: int
    max_attempts: int
    interruptions: int
    max_interruptions: int
    deferrals: int
    max_deferrals: int
    expire_seconds: int
    failure_kind: str | None
    error: str
    error_summary: str
    errors: list[ErrorEntry]
    fingerprint: str
    checkpoint: Any
    checkpoint_at: datetime | None
    claimed_by: UUID | None
    worker: str
    dead_letter_queue: str | None
    source_id: UUID | None
    source_queue: str | None
    source_attempts: int | None
    dedup_scope: str | None
    dedup_period: str | None
    progress: ProgressFacts | None
    why: list[Reason]


def find(job_id: UUID, queue: str | None = None, using: str | None = None) -> Job | None:
    """The job of this id, or None; give the queue where it is known."""
    jobs = Job.objects.using(chosen(using)).annotate(database_now=Now())
    if queue is not None:
        jobs = jobs.filter(queue=queue)
    return jobs.filter(pk=job_id).first()


def facts(job: Job, using: str | None = None) -> JobFacts:
    """Everything to show of a job that `find` gave.

    Args:
        job: from `find`, which notes the database's time.
        using: database alias; the setting DATABASE when None.

    Example:
        >>> facts(find(job_id)).why[0].text
        'It is scheduled for later; due in 4 min 10 s.'
    """
    alias = chosen(using)
    redactor = Redactor(settings.REDACT)
    now: datetime = job.database_now  # type: ignore[attr-defined]
    error = redactor.text(job.last_error or "", LONGEST_ERROR)
    same = {name: getattr(job, name) for name in _COPIED}
    return JobFacts(
        **same,
        args=redactor.value(job.args),
        meta=redactor.value(job.meta),
        checkpoint=redactor.value(job.checkpoint),
        error=error,
        error_summary=summary_of(error),
        errors=read_ring(job.errors, redactor),
        fingerprint=bytes(job.error_fingerprint).hex() if job.error_fingerprint else "",
        dedup_scope=redactor.text(job.dedup_scope) if job.dedup_scope else None,
        worker=_worker_label(job.claimed_by, alias),
        progress=progress_of(job.pk, redactor, alias),
        why=why_not_running(job, situation(job, now, alias), now),
    )


def situation(job: Job, now: datetime, using: str | None = None) -> QueueSituation:
    """What holds for the job's queue: its policy, its workers, and how many jobs come first."""
    alias = chosen(using)
    if job.state not in WAITING:
        return QueueSituation(job.queue)
    policies = policies_of(alias, job.queue)
    policy = policies.get(job.queue)
    candidates = with_liveness(Worker.objects.using(alias)).filter(queues__overlap=[job.queue, EVERY_QUEUE])
    serving = [worker for worker in candidates if serves(worker, job.queue)]
    alive = [worker.alive for worker in serving]
    counts = counts_by_queue(alias).get(job.queue, {})
    ahead = _ahead_of(job, now, alias)
    return QueueSituation(
        queue=job.queue,
        running=sum(counts.get(state, 0) for state in RUNNING),
        live_workers=alive.count(True),
        silent_workers=alive.count(False),
        unknown_task="" if any(worker.alive and may_know(worker, job.task) for worker in serving) else job.task,
        ahead=min(ahead, AHEAD_COUNTED_TO),
        ahead_at_least=ahead > AHEAD_COUNTED_TO,
        **_breaker_part(job, alias),
        **_policy_part(policy),
        **pause_part(policy, policies.get(ALL_QUEUES)),
        **({} if policy is None else _limits_part(job, alias)),
    )


def _ahead_of(job: Job, now: datetime, alias: str) -> int:
    sooner = Q(priority__lt=job.priority) | Q(priority=job.priority, scheduled_at__lt=job.scheduled_at)
    due = Job.objects.using(alias).filter(sooner, queue=job.queue, state__in=WAITING, scheduled_at__lte=now)
    # In the order of the claim index, so that it is what gets read, whatever the planner thinks of the numbers.
    in_order = due.exclude(pk=job.pk).order_by("priority", "scheduled_at", "id")
    return in_order[: AHEAD_COUNTED_TO + 1].count()


def _breaker_part(job: Job, alias: str) -> dict[str, Any]:
    found = breaker_of(job, alias)
    return {} if found is None else {"breaker": found.key, "breaker_retry_in": found.retry_in}


def _policy_part(policy: QueuePolicy | None) -> dict[str, Any]:
    if policy is None:
        return {}
    return {
        "max_running": policy.max_running,
        "verdict": policy.verdict,
        "verdict_reason": policy.reason or "",
        "decided_at": policy.decided_at,
    }


def _limits_part(job: Job, alias: str) -> dict[str, Any]:
    """Which limits keep the job back: the rate of its queue, and those of its keys."""
    keys = {"tenant": job.tenant_id, "destination": job.destination, "key": job.limit_key}
    with connections[alias].cursor() as cursor:
        return {
            "rate_frees_at": limit_functions.rate_frees_at(cursor, job.queue),
            "keys_held_back": limit_functions.held_back(cursor, job.queue, {k: v for k, v in keys.items() if v is not None}),
        }


def _worker_label(worker_id: UUID | None, alias: str) -> str:
    if worker_id is None:
        return ""
    worker = Worker.objects.using(alias).filter(pk=worker_id).first()
    return "" if worker is None else f"{worker.hostname}:{worker.pid}"


_COPIED = (
    "id", "queue", "task", "state", "tenant_id", "priority", "destination", "scheduled_at", "inserted_at",
    "claimed_at", "heartbeat_at", "finished_at", "attempt", "max_attempts", "interruptions", "max_interruptions",
    "deferrals", "max_deferrals", "expire_seconds", "failure_kind", "checkpoint_at", "claimed_by",
    "dead_letter_queue", "source_id", "source_queue", "source_attempts", "dedup_period", "limit_key",
)  # fmt: skip
