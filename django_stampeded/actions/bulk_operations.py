"""Bulk operations: an act on all jobs of a selection, done by a worker, told portion by portion, to be stopped at any time.

What is done and the position behind it commit together, under the operation's row lock: whoever goes on, a second attempt of
the job or another process, does no job twice. Jobs that were enqueued after it was asked for are left alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from django_stampeded.actions.audit import Actor, clean, record
from django_stampeded.actions.bulk import PARAMETER_OF, BulkReport, group, on_portion
from django_stampeded.actions.jobs import cancel
from django_stampeded.conf import settings
from django_stampeded.declaring import task
from django_stampeded.insights.bulk_operations import abandoned
from django_stampeded.insights.selection import Selection
from django_stampeded.insights.walking import Group, Number, number, portion
from django_stampeded.models import BulkOperation, Job
from django_stampeded.states import WAITING

PORTION = 500
SKIPS_KEPT = 20
KEPT_FOR = timedelta(days=30)
State = BulkOperation.State


@task(name="stampeded.bulk", max_attempts=25, timeout=None, priority=-(2**15), max_interruptions=100)
def bulk(operation: UUID, database: str) -> None:
    """Does a bulk operation, or what is left of it."""
    carry_on(operation, using=database)


def expected(action: str, selection: Selection, parameters: Mapping[str, Any], using: str | None = None) -> Number:
    """How many jobs a bulk operation would go for. Raises KeyError where there is no such act on many jobs."""
    return number(group(action, selection, parameters), using)


def start(
    action: str,
    selection: Selection,
    *,
    actor: Actor,
    parameters: Mapping[str, Any] | None = None,
    using: str | None = None,
) -> BulkOperation:
    """Ask for an act on all jobs of a selection; a worker of the setting BULK_QUEUE does it.

    Args:
        action: a name in GOES_FOR.
        selection: which jobs are meant; ages in it are counted from now.
        actor: who asks.
        parameters: what the act takes, by the name in PARAMETER_OF.
        using: database alias; the setting DATABASE when None.

    Returns:
        The operation, in the state waiting.

    Raises:
        KeyError: there is no such act on many jobs.
        ValueError: the selection holds what the database's text can't, so that no job can be meant.

    Example:
        >>> start("retry", Selection(state="discarded", queue="mail"), actor=Actor("ann")).expected
        812
    """
    alias = using or settings.DATABASE
    name = PARAMETER_OF.get(action)
    given = {key: clean(value) if key == "reason" else value for key, value in (parameters or {}).items() if key == name}
    if not selection.storable:
        raise ValueError("A selection holds no NUL and no half of a character: correct it.")
    meant = selection.fixed()
    known = expected(action, meant, given, alias)
    with transaction.atomic(using=alias):
        operations = BulkOperation.objects.using(alias)
        operations.filter(finished_at__lt=timezone.now() - KEPT_FOR).delete()
        operation = operations.create(
            id=uuid4(), action=action, actor=actor.name, via=actor.via, selection=meant.as_parts(), parameters=given,
            expected=known.jobs, exact=known.exact,
        )  # fmt: skip
        job_id = _give_to_a_worker(operation, alias)
        record(alias, "bulk", actor, None, job_id, operation=str(operation.pk), act=action, selection=meant.as_parts())
    operation.refresh_from_db(using=alias)
    return operation


def stop(operation_id: UUID, *, actor: Actor, using: str | None = None) -> bool:
    """Stop a bulk operation behind the portion in hand; False if it has ended or there is none. What is done stays done."""
    alias = using or settings.DATABASE
    with transaction.atomic(using=alias):
        operation = BulkOperation.objects.using(alias).select_for_update().filter(pk=operation_id, finished_at=None).first()
        if operation is None:
            return False
        _save(operation, alias, state=State.STOPPED, finished_at=Now())
        record(alias, "stop_bulk", actor, None, operation.job_id, operation=str(operation.pk))
    _cancel_if_waiting(operation, actor, alias)
    return True


def give_again(operation_id: UUID, *, actor: Actor, using: str | None = None) -> bool:
    """Give a bulk operation that nothing does any more to a worker again, to go on behind what was done.

    Args:
        operation_id: the operation.
        actor: who does it.
        using: database alias; the setting DATABASE when None.

    Returns:
        False if it has ended, there is none, or its job will still go on with it; nothing has changed then.
    """
    alias = using or settings.DATABASE
    with transaction.atomic(using=alias):
        operation = BulkOperation.objects.using(alias).select_for_update().filter(pk=operation_id, finished_at=None).first()
        if operation is None or not abandoned([operation], alias):
            return False
        job_id = _give_to_a_worker(operation, alias)
        record(alias, "give_bulk_again", actor, None, job_id, operation=str(operation.pk))
    return True


def carry_on(operation_id: UUID, *, seconds: float = float("inf"), using: str | None = None) -> bool:
    """Do a bulk operation, portion after portion, until it is through, stopped, or its time is up.

    Args:
        operation_id: the operation; one that has ended or is not there is left alone.
        seconds: stop after this many; the same call again goes on.
        using: database alias; the setting DATABASE when None.

    Returns:
        True when nothing is left to do.
    """
    alias = using or settings.DATABASE
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if _next_portion(operation_id, alias):
            return True
    return False


def _next_portion(operation_id: UUID, alias: str) -> bool:
    """One portion and the position behind it, in one transaction; True when there is none to do."""
    with transaction.atomic(using=alias):
        operation = BulkOperation.objects.using(alias).select_for_update().filter(pk=operation_id, finished_at=None).first()
        if operation is None:
            return True
        some = portion(_group(operation), alias, position=operation.position, size=PORTION)
        actor = Actor(operation.actor, operation.via)
        detail = {"operation": str(operation.pk)}
        report = on_portion(operation.action, some.jobs, actor=actor, using=alias, detail=detail, **_parameters(operation))
        ended = not some.position
        _save(
            operation, alias, position=some.position, done=operation.done + report.done,
            skipped=operation.skipped + report.skipped, skips=[*operation.skips, *_words(report)][:SKIPS_KEPT],
            state=State.FINISHED if ended else State.RUNNING, finished_at=Now() if ended else None,
        )  # fmt: skip
        return ended


def _give_to_a_worker(operation: BulkOperation, alias: str) -> UUID:
    """Enqueues the job that does it, whose id it then bears."""
    job = bulk.using(using=alias, queue_name=settings.BULK_QUEUE or settings.DEFAULT_QUEUE).enqueue(
        operation=operation.pk, database=alias
    )
    BulkOperation.objects.using(alias).filter(pk=operation.pk).update(queue=job.queue, job_id=job.id)
    return job.id


def _cancel_if_waiting(operation: BulkOperation, actor: Actor, alias: str) -> None:
    """The operation's job, unless it runs: that one sees for itself that there is nothing left to do."""
    if operation.queue is None or operation.job_id is None:
        return
    if Job.objects.using(alias).filter(queue=operation.queue, pk=operation.job_id, state__in=WAITING).exists():
        cancel(operation.queue, operation.job_id, actor=actor, using=alias)


def _group(operation: BulkOperation) -> Group:
    meant = group(operation.action, Selection.stored(operation.selection), _parameters(operation))
    others = Q(inserted_at__lte=operation.created_at) & ~Q(pk=operation.job_id)
    return Group(meant.selection, meant.states, meant.also & others)


def _parameters(operation: BulkOperation) -> dict[str, Any]:
    name = PARAMETER_OF.get(operation.action)
    return {name: operation.parameters.get(name, "")} if name else {}


def _words(report: BulkReport) -> list[dict[str, str]]:
    return [{"id": str(skip.id), "reason": skip.reason} for skip in report.skips]


def _save(operation: BulkOperation, alias: str, **columns: Any) -> None:
    BulkOperation.objects.using(alias).filter(pk=operation.pk).update(updated_at=Now(), **columns)
