"""Everything of the page that an operator opens first, read once, in a number of statements that no table's size changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import connections
from django.db.models import F
from django.db.models.functions import Now

from django_stampeded import limit_functions
from django_stampeded.insights.alias import chosen
from django_stampeded.insights.breakers import BreakerStatus, breakers
from django_stampeded.insights.durations import in_words
from django_stampeded.insights.health import Figures, Finding, assess, gather
from django_stampeded.insights.queues import QueueStatus
from django_stampeded.insights.samples import Charts, FailureRate, charts, failure_rates
from django_stampeded.insights.workers import RunningJob, WorkerStatus
from django_stampeded.models import Job, Schedule
from django_stampeded.states import WAITING, BreakerState

QUEUES_SHOWN = 50
WORKERS_SHOWN = 50
RUNNING_SHOWN = 20
TENANTS_SHOWN = 20
BREAKERS_SHOWN = 10
SCHEDULES_SHOWN = 10
LATE_AFTER = timedelta(seconds=10)
HEADS = 10
"""Queues whose next jobs are looked at for their tenants, and how many jobs of each."""
HEAD = 200


@dataclass(frozen=True, slots=True)
class TenantLoad:
    """What one tenant has in the queues, as far as it was looked at.

    Args:
        tenant: its id.
        running: jobs that run now.
        next: of the jobs that run next, so many are its.
        held_back: so many of those can't start now, since a limit of the tenant in their queue is reached.
    """

    tenant: str
    running: int
    next: int
    held_back: int = 0


@dataclass(frozen=True, slots=True)
class LateSchedule:
    """A schedule that ought to have fired.

    Args:
        key: its key.
        task: what it enqueues.
        due: when it was due.
        late_by: how long ago that was.
        set_aside: why it was set aside; empty where it was not.
    """

    key: str
    task: str
    due: datetime
    late_by: timedelta
    set_aside: str = ""

    @property
    def late_words(self) -> str:
        """How late it is, for people."""
        return in_words(self.late_by)


@dataclass(frozen=True, slots=True)
class Overview:
    """What is going on now. Lists are cut to what a page can show, the busiest first; `…_left_out` tells how many are not here.

    Args:
        findings: what is wrong or worth knowing, trouble first.
        queues: the fullest queues, by name.
        workers: workers, live ones first.
        running: the jobs that have run longest, with the worker of each.
        tenants: tenants of what runs and of what runs next.
        breakers: those that hold jobs back.
        schedules: the latest schedules, and those set aside.
        charts: the last ten minutes.
        failures: how often jobs failed, by kind.
    """

    findings: Sequence[Finding] = ()
    queues: Sequence[QueueStatus] = ()
    queues_left_out: int = 0
    workers: Sequence[WorkerStatus] = ()
    workers_left_out: int = 0
    running: Sequence[tuple[RunningJob, WorkerStatus]] = ()
    tenants: Sequence[TenantLoad] = ()
    breakers: Sequence[BreakerStatus] = ()
    schedules: Sequence[LateSchedule] = ()
    charts: Charts = field(default_factory=Charts)
    failures: Sequence[FailureRate] = ()

    @property
    def waiting_count(self) -> int:
        """Jobs that wait in the queues shown."""
        return sum(queue.waiting for queue in self.queues)

    @property
    def running_count(self) -> int:
        """Jobs that run in the queues shown."""
        return sum(queue.running for queue in self.queues)

    @property
    def live_workers(self) -> int:
        """Workers shown that are alive."""
        return sum(worker.alive for worker in self.workers)

    @property
    def verdicts(self) -> list[QueueStatus]:
        """The queues of which the planner said something else than steady."""
        return [queue for queue in self.queues if queue.verdict != "steady"]

    @property
    def is_first_run(self) -> bool:
        """Whether nothing has ever happened here."""
        return not self.queues and not self.workers


def overview(using: str | None = None) -> Overview:
    """What is going on, for the page that an operator opens first.

    Where the schema is older than the code nothing but that finding is told.

    Args:
        using: database alias; the setting DATABASE when None.

    Example:
        >>> overview().running_count
        3
    """
    alias = chosen(using)
    figures = gather(alias)
    findings = assess(figures)
    if figures.schema_problem:
        return Overview(findings)
    drawn = charts(alias)
    busiest = sorted(figures.queues, key=lambda queue: (-(queue.waiting + queue.running), queue.queue))
    shown = sorted(busiest[:QUEUES_SHOWN], key=lambda queue: queue.queue)
    workers = [worker for worker in figures.workers if worker.queues]  # a supervisor's entry serves none
    return Overview(
        findings=findings,
        queues=shown,
        queues_left_out=len(busiest) - len(shown),
        workers=workers[:WORKERS_SHOWN],
        workers_left_out=max(0, len(workers) - WORKERS_SHOWN),
        running=_longest(workers),
        tenants=_tenants(figures, [queue.queue for queue in busiest[:HEADS] if queue.waiting], alias),
        breakers=[breaker for breaker in breakers(alias, BREAKERS_SHOWN) if breaker.state != BreakerState.CLOSED],
        schedules=_schedules(alias),
        charts=drawn,
        failures=failure_rates(drawn),
    )


def _longest(workers: Iterable[WorkerStatus]) -> list[tuple[RunningJob, WorkerStatus]]:
    every = [(job, worker) for worker in workers for job in worker.running]
    started = [pair for pair in every if pair[0].since is not None]
    return sorted(started, key=lambda pair: (pair[0].since, pair[0].id))[:RUNNING_SHOWN]


def _tenants(figures: Figures, queues: Sequence[str], alias: str) -> list[TenantLoad]:
    running = Counter(job.tenant for worker in figures.workers for job in worker.running if job.tenant)
    heads = [
        Job.objects.using(alias)
        .filter(queue=queue, state__in=WAITING)
        .order_by("priority", "scheduled_at", "id")
        .values_list("queue", "tenant_id")[:HEAD]
        for queue in queues
    ]
    found = heads[0].union(*heads[1:], all=True) if len(heads) > 1 else heads[0] if heads else []
    by_queue = Counter((queue, tenant) for queue, tenant in found if tenant)
    waiting: Counter[str] = Counter()
    for (_queue, tenant), number in by_queue.items():
        waiting[tenant] += number
    busiest = sorted({*running, *waiting}, key=lambda tenant: (-running[tenant], -waiting[tenant], tenant))[:TENANTS_SHOWN]
    held_back = _held_back({pair: number for pair, number in by_queue.items() if pair[1] in busiest}, alias)
    return [TenantLoad(tenant, running[tenant], waiting[tenant], held_back[tenant]) for tenant in busiest]


def _held_back(jobs: Mapping[tuple[str, str], int], alias: str) -> Counter[str]:
    """Of these jobs by queue and tenant, how many of each tenant a limit keeps from starting."""
    number: Counter[str] = Counter()
    if jobs:
        with connections[alias].cursor() as cursor:
            for pair in limit_functions.tenants_held_back(cursor, jobs):
                number[pair[1]] += jobs[pair]
    return number


def _schedules(alias: str) -> list[LateSchedule]:
    every = Schedule.objects.using(alias).annotate(late_by=Now() - F("next_run_at"))
    late = every.filter(paused=False, late_by__gt=LATE_AFTER) | every.filter(set_aside_reason__isnull=False)
    rows = late.order_by("next_run_at", "key")[:SCHEDULES_SHOWN]
    return [LateSchedule(row.key, row.task, row.next_run_at, row.late_by, row.set_aside_reason or "") for row in rows]
