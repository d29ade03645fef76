"""What an operator may do to queues: pause, resume, limits, pruning. Each leaves one audit row."""

from __future__ import annotations

from datetime import timedelta

from django.db import connections, transaction

from django_stampeded import functions
from django_stampeded.actions.audit import Actor, clean, recorded
from django_stampeded.conf import settings
from django_stampeded.models import QueuePolicy


def pause(queue: str, *, actor: Actor, reason: str = "", using: str | None = None) -> None:
    """Stop workers from claiming jobs of a queue; it goes on accepting jobs, and running ones end.

    Raises:
        ValueError: the name is empty or longer than 255 characters.
    """
    _check_queue_name(queue)
    with recorded("pause", actor, using, queue=queue, reason=clean(reason)) as cursor:
        functions.pause(cursor, queue, clean(reason) or None)


def resume(queue: str, *, actor: Actor, using: str | None = None) -> None:
    """Let workers claim jobs of a queue again; parameters and errors as for `pause`."""
    _check_queue_name(queue)
    with recorded("resume", actor, using, queue=queue) as cursor:
        functions.resume(cursor, queue)


def change_policy(queue: str, changes: dict[str, int | None], *, actor: Actor, using: str | None = None) -> None:
    """Write an operator's limits of a queue, making its policy row if it has none.

    Args:
        queue: the queue, 1 to 255 characters.
        changes: ``max_running`` (jobs) and ``max_wait_secs`` (s), each above 0 or None for no limit.

    Raises:
        ValueError: the name or a limit's name is not valid.
    """
    _check_queue_name(queue)
    if unknown := set(changes) - {"max_running", "max_wait_secs"}:
        raise ValueError(f"A queue has no limit named {', '.join(sorted(unknown))}: use max_running or max_wait_secs.")
    alias = using or settings.DATABASE
    with recorded("change_policy", actor, alias, queue=queue, **changes):
        QueuePolicy.objects.using(alias).update_or_create(pk=queue, defaults=changes)


def prune(completed: timedelta, failed: timedelta, *, actor: Actor, limit: int = 10_000, using: str | None = None) -> int:
    """Delete finished jobs, in batches that commit one by one, until none is old enough.

    Args:
        completed: age from which a completed job goes.
        failed: the same for discarded and cancelled ones.
        limit: jobs in one batch, 1 or more.

    Returns:
        How many were deleted.
    """
    alias = using or settings.DATABASE
    pruned, batch = 0, limit
    while batch == limit:
        with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
            batch = functions.prune(cursor, completed, failed, limit)
        pruned += batch
    completed_s, failed_s = completed.total_seconds(), failed.total_seconds()
    with recorded("prune", actor, alias, completed_s=completed_s, failed_s=failed_s, pruned=pruned):
        pass
    return pruned


def _check_queue_name(queue: str) -> None:
    if not queue or len(queue) > 255 or "\x00" in queue:
        raise ValueError("A queue's name has 1 to 255 characters and no NUL: correct the name.")
