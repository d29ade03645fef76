"""Is the queue healthy? `gather` reads a few bounded figures, `assess` turns them into findings and is pure.

A finding of level ``trouble`` makes a probe fail; ``note`` is for people. What to do stands in each sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import connections
from django.db.models import F, Max
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext

from django_stampeded import watch_functions
from django_stampeded.exceptions import SchemaMismatch, ServerTooOld
from django_stampeded.insights.alias import chosen
from django_stampeded.insights.durations import in_words
from django_stampeded.insights.queues import QueueStatus, queues
from django_stampeded.insights.samples import sampled_ago
from django_stampeded.insights.workers import WorkerStatus, workers
from django_stampeded.models import Schedule
from django_stampeded.schema import check_schema
from django_stampeded.watch_functions import LongTransaction, Vacuum

TROUBLE = "trouble"
NOTE = "note"
LONGEST_WAIT = timedelta(minutes=5)
SCHEDULE_LATE = timedelta(minutes=2)
LONG_TRANSACTION = timedelta(minutes=5)
SAMPLE_OLD = timedelta(minutes=1)
VACUUM_OLD = timedelta(minutes=10)
MANY_DEAD = 50_000
"""Dead rows below this number slow no claim that anybody would notice."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing worth saying.

    Args:
        level: ``trouble`` or ``note``.
        code: a stable word for programs.
        text: one sentence for people, in the active language.
    """

    level: str
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Figures:
    """What `assess` judges.

    Args:
        queues: every queue.
        workers: every registered worker.
        latest_schedule: how late the latest unpaused schedule is; None when none is late.
        sampled_ago: when maintenance last took a sample; None when it never did.
        vacuums: how far each partition is from its next autovacuum.
        transactions: those that have been open for longer than LONG_TRANSACTION.
        schema_problem: why this code can't work with the installed schema; then nothing else is known.
        now: when they were gathered.
    """

    queues: Sequence[QueueStatus]
    workers: Sequence[WorkerStatus]
    latest_schedule: timedelta | None = None
    sampled_ago: timedelta | None = None
    vacuums: Sequence[Vacuum] = ()
    transactions: Sequence[LongTransaction] = ()
    schema_problem: str = ""
    now: datetime = field(default_factory=timezone.now)


def health(longest_wait: timedelta = LONGEST_WAIT, using: str | None = None) -> list[Finding]:
    """What is wrong, and what is worth knowing; an empty list when all is well.

    Args:
        longest_wait: a due job older than this is trouble.
        using: database alias; the setting DATABASE when None.

    Raises:
        django.db.Error: the database can't be reached.

    Example:
        >>> any(finding.level == "trouble" for finding in health())
        False
    """
    return assess(gather(using), longest_wait)


def gather(using: str | None = None) -> Figures:
    """The figures, in a fixed number of statements."""
    alias = chosen(using)
    with connections[alias].cursor() as cursor:
        try:
            check_schema(cursor)
        except (SchemaMismatch, ServerTooOld) as problem:
            return Figures([], [], schema_problem=str(problem))
        vacuums = watch_functions.vacuum_health(cursor)
        transactions = watch_functions.long_transactions(cursor, LONG_TRANSACTION)
    late = Schedule.objects.using(alias).filter(paused=False, next_run_at__lt=Now())
    latest = late.aggregate(latest=Max(Now() - F("next_run_at")))["latest"]
    return Figures(queues(alias), workers(alias), latest, sampled_ago(alias), vacuums, transactions)


def assess(figures: Figures, longest_wait: timedelta = LONGEST_WAIT) -> list[Finding]:
    """The findings for these figures, trouble first."""
    if figures.schema_problem:
        return [Finding(TROUBLE, "schema", figures.schema_problem)]
    found = [finding for queue in figures.queues for finding in _queue(queue, longest_wait)]
    found += [finding for worker in figures.workers for finding in _worker(worker)]
    late = figures.latest_schedule
    if late is not None and late > SCHEDULE_LATE:
        text = gettext("Schedules are late by %(age)s; check that a maintenance process runs.")
        found.append(Finding(TROUBLE, "schedules_late", text % {"age": in_words(late)}))
    found += _maintenance(figures)
    found += [finding for vacuum in figures.vacuums for finding in _vacuum(vacuum, figures.now)]
    found += [_transaction(each) for each in figures.transactions]
    return sorted(found, key=lambda finding: finding.level != TROUBLE)


def _queue(queue: QueueStatus, longest_wait: timedelta) -> list[Finding]:
    if queue.paused:
        text = gettext("Queue “%(queue)s” is paused; %(count)d of its jobs wait until it is resumed.")
        return [Finding(NOTE, "paused", text % {"queue": queue.queue, "count": queue.waiting})]
    if queue.oldest_age is None:
        return []
    words = {"queue": queue.queue, "age": in_words(queue.oldest_age)}
    if not queue.live_workers:
        text = gettext("Queue “%(queue)s” has due jobs and no live worker; start one with “manage.py runstampeded”.")
        return [Finding(TROUBLE, "no_worker", text % words)]
    if queue.oldest_age > longest_wait:
        text = gettext("Queue “%(queue)s” is behind: its oldest due job has waited %(age)s; add workers or threads.")
        return [Finding(TROUBLE, "behind", text % words)]
    return []


def _worker(worker: WorkerStatus) -> list[Finding]:
    words = {"worker": f"{worker.hostname}:{worker.pid}", "count": len(worker.running)}
    if worker.alive and worker.trouble:
        text = gettext("The processes of supervisor %(worker)s keep dying; look at its log and at the latest failures.")
        return [Finding(TROUBLE, "children_keep_dying", text % words)]
    if worker.alive:
        text = gettext(
            "Worker %(worker)s is polling only: what it listens for does not arrive, as behind a pooler in transaction mode, "
            "so jobs start a little later; give it a direct connection by the setting LISTEN_DATABASE."
        )
        return [Finding(NOTE, "polling_only", text % words)] if worker.notifications == "polling only" else []
    if worker.running:
        text = gettext("Worker %(worker)s is silent and holds %(count)d jobs; maintenance takes them back if it runs.")
        return [Finding(TROUBLE, "silent_worker", text % words)]
    text = gettext(
        "Worker %(worker)s has stopped without signing off; it held no job, so nothing is to do but to see why in its log."
    )
    return [Finding(NOTE, "stopped_worker", text % words)]


def _maintenance(figures: Figures) -> list[Finding]:
    """Samples are what every maintenance process takes all the time, so that old ones tell that there is none."""
    ago = figures.sampled_ago
    if ago is None or ago < SAMPLE_OLD or not any(worker.alive for worker in figures.workers):
        return []
    text = gettext("No maintenance has run for %(age)s; start a process that has it, such as “manage.py runstampeded”.")
    return [Finding(NOTE, "no_maintenance", text % {"age": in_words(ago)})]


def _vacuum(vacuum: Vacuum, now: datetime) -> list[Finding]:
    since = None if vacuum.last_autovacuum is None else now - vacuum.last_autovacuum
    if not vacuum.needs_vacuum or vacuum.dead_tuples < MANY_DEAD or (since is not None and since < VACUUM_OLD):
        return []
    text = gettext(
        "Autovacuum is behind on %(table)s: %(dead)d dead rows slow every claim; see that autovacuum is on and that no "
        "transaction stays open, or run VACUUM on it."
    )
    return [Finding(NOTE, "autovacuum_behind", text % {"table": vacuum.relname, "dead": vacuum.dead_tuples})]


def _transaction(transaction: LongTransaction) -> Finding:
    text = gettext(
        "A transaction has been open for %(age)s (process %(pid)d, %(application)s) and keeps dead rows from being vacuumed; "
        "end it there, or by “SELECT pg_terminate_backend(%(pid)d)”."
    )
    application = transaction.application or gettext("unnamed")
    words = {"age": in_words(transaction.age), "pid": transaction.pid, "application": application}
    return Finding(NOTE, "long_transaction", text % words)
