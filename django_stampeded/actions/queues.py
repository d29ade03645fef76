"""What an operator may do to queues: pause, resume, prune. Each leaves one audit row. Their policies are policies.py's."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connections, transaction
from django.utils import timezone

from django_stampeded import functions
from django_stampeded.actions.audit import Actor, clean, recorded
from django_stampeded.actions.policies import check_queue_name
from django_stampeded.conf import settings


def pause(queue: str, *, actor: Actor, reason: str = "", until: datetime | None = None, using: str | None = None) -> None:
    """Stop workers from claiming jobs of a queue; it goes on accepting jobs, and running ones end.

    Args:
        queue: the queue, or `ALL_QUEUES` ("*") for all of them; the pauses of single queues stay apart from that.
        actor: who does it.
        reason: why, kept on record; cut to LONGEST_REASON characters.
        until: when it ends by itself, in the future and with a time zone; None until somebody resumes it.
        using: database alias; the setting DATABASE when None.

    Raises:
        ValueError: the name is empty or longer than 255 characters, or `until` is not a time to come.

    Example:
        >>> pause("mail", actor=Actor("ann"), until=timezone.now() + timedelta(hours=2))
    """
    check_queue_name(queue)
    if until is not None and (until.utcoffset() is None or until <= timezone.now()):
        raise ValueError("A pause ends at a time to come, with a time zone: correct the time, or leave it out.")
    with recorded("pause", actor, using, queue=queue, reason=clean(reason), until=until.isoformat() if until else "") as cursor:
        functions.pause(cursor, queue, clean(reason) or None, until)


def resume(queue: str, *, actor: Actor, using: str | None = None) -> None:
    """Let workers claim jobs of a queue again; parameters and errors as for `pause`."""
    check_queue_name(queue)
    with recorded("resume", actor, using, queue=queue) as cursor:
        functions.resume(cursor, queue)


def prune(completed: timedelta, failed: timedelta, *, actor: Actor, limit: int = 10_000, using: str | None = None) -> int:
    """Delete finished jobs, in batches that commit one by one, until none is old enough.

    Args:
        completed: age from which a completed job goes, where its queue's policy names none.
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
