"""Jobs with arguments that an operator wrote: a job's own ones mended, or a new job of any task.

The arguments are checked by the task's signature before anything is written. The audit has their names, never their values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext

from django_stampeded import functions, operator_functions, registry
from django_stampeded.actions.audit import Actor, record
from django_stampeded.actions.jobs import Outcome, Refused, on_job
from django_stampeded.arguments import from_text
from django_stampeded.conf import settings
from django_stampeded.encoding import encode
from django_stampeded.exceptions import InvalidArguments
from django_stampeded.models import Job
from django_stampeded.results import EnqueuedJob
from django_stampeded.states import State
from django_stampeded.tasks import task_by_name


def edit_and_retry(
    queue: str, job_id: UUID, args: Mapping[str, Any], *, actor: Actor, seen: str = "", using: str | None = None
) -> Outcome:
    """Give a job that is not running other arguments, and make it due now unless it waits already.

    Args:
        queue: its queue.
        job_id: its id.
        args: all its arguments, as JSON has them.
        actor: who does it.
        seen: what `mark` gave when the job was shown; nothing happens if the job has changed since.
        using: database alias; the setting DATABASE when None.

    Returns:
        The outcome; `done` is False with a reason for a job that is running or gone.

    Raises:
        InvalidArguments: the job's task does not take these arguments; nothing has changed.

    Example:
        >>> edit_and_retry("mail", job_id, {"order": 8}, actor=Actor("ann")).now
        'available'
    """
    alias = using or settings.DATABASE
    rows = Job.objects.using(alias).filter(queue=queue, pk=job_id).values_list("task", "args")
    task, before = rows.first() or ("", {})
    given = dict(args)
    if task:
        check_arguments(task, given)
    changed = sorted(name for name in {*given, *before} if given.get(name, _ABSENT) != before.get(name, _ABSENT))

    def act(cursor: Any, queue: str, job_id: UUID) -> functions.Changed | None:
        done = operator_functions.replace_args(cursor, queue, job_id, given)
        if done is None or done.was == State.AVAILABLE:
            return done
        again = functions.retry(cursor, queue, job_id)
        if again is None:
            raise Refused(gettext("it can’t be retried"))
        return functions.Changed(done.was, again.now_state)

    return on_job("edit", queue, job_id, act, actor, seen=seen, using=alias, changed=changed)


def enqueue(
    task: str,
    args: Mapping[str, Any],
    *,
    actor: Actor,
    options: Mapping[str, Any] | None = None,
    using: str | None = None,
) -> EnqueuedJob:
    """Enqueue a job of any task, with an audit row in the same transaction.

    Args:
        task: its name.
        args: its arguments, as JSON has them.
        actor: who does it.
        options: what `Task.using` takes, such as ``queue_name`` or ``run_after``.
        using: database alias; the setting DATABASE when None.

    Returns:
        The job, or with ``created=False`` the one that already has its dedup scope.

    Raises:
        InvalidArguments: the task does not take these arguments; nothing is written.
        InvalidOption: an option is unknown or out of range; nothing is written.

    Example:
        >>> enqueue("shop.tasks.receipt", {"order": 7}, actor=Actor("ann")).created
        True
    """
    alias = using or settings.DATABASE
    check_arguments(task, args)
    with transaction.atomic(using=alias):
        job = task_by_name(task).using(**dict(options or {}), using=alias).enqueue(**args)
        record(alias, "enqueue", actor, job.queue, job.id, task=task, created=job.created)
    return job


def check_arguments(task: str, args: Mapping[str, Any]) -> None:
    """Raises InvalidArguments where a job of this task could not run with these arguments; any JSON for an unknown task."""
    text = encode(dict(args))
    known = registry.get(task)
    signature = None if known is None else known.signature
    if signature is not None:
        signature.decode(from_text(text))


_ABSENT = object()
__all__ = ["InvalidArguments", "check_arguments", "edit_and_retry", "enqueue"]
