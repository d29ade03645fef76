"""What an operator may do to one job: retry, run now, cancel, discard, move, delete.

Each calls one SQL function under the job's row lock and leaves one audit row. An act that does not fit the job as it is
changes nothing and gives an outcome that says why, so that a list of jobs never stops at a bad one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import DatabaseError, connections, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext

from django_stampeded import functions
from django_stampeded.actions.audit import Actor, clean, record
from django_stampeded.conf import settings
from django_stampeded.models import Job
from django_stampeded.states import FINAL, RUNNING, WAITING, State

logger = logging.getLogger("django_stampeded.actions")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one act on one job.

    Args:
        queue: the job's queue (the new one after a move).
        id: the job.
        done: False when nothing was changed.
        was: the job's state before; empty if there was no such job.
        now: its state after; empty when nothing was changed or it was deleted.
        reason: why nothing was changed, one sentence in the active language.
    """

    queue: str
    id: UUID
    done: bool
    was: str = ""
    now: str = ""
    reason: str = ""


class _Refused(Exception):
    """The act does not fit the job as it is now; the text says why. Rolls the transaction back, leaves no audit row."""


def retry(queue: str, job_id: UUID, *, actor: Actor, seen: str = "", using: str | None = None) -> Outcome:
    """Make a job that is retryable or final due now, with at least one attempt left.

    Args:
        queue: its queue.
        job_id: its id.
        actor: who does it.
        seen: what `mark` gave when the job was shown; nothing happens if the job has changed since.
        using: database alias; the setting DATABASE when None.

    Returns:
        The outcome; `done` is False with a reason for a job that is running, waits already, or is gone.

    Example:
        >>> retry("mail", job_id, actor=Actor("ann")).now
        'available'
    """

    def act(cursor: Any, job: Job) -> functions.Changed | None:
        if job.state in RUNNING:
            raise _Refused(gettext("it is running; cancel it first if it must start over"))
        if job.state == State.AVAILABLE and job.attempt < job.max_attempts:
            raise _Refused(gettext("it waits to run already"))
        return functions.retry(cursor, queue, job_id)

    return _on_job("retry", queue, job_id, act, actor, seen=seen, using=using)


def run_now(queue: str, job_id: UUID, *, actor: Actor, seen: str = "", using: str | None = None) -> Outcome:
    """Make a waiting job due now instead of at its scheduled time; parameters as for `retry`."""

    def act(cursor: Any, job: Job) -> functions.Changed | None:
        if job.state not in WAITING:
            raise _Refused(gettext("only a waiting job can be run now; this one is %(state)s") % {"state": job.state})
        return functions.run_now(cursor, queue, job_id)

    return _on_job("run_now", queue, job_id, act, actor, seen=seen, using=using)


def cancel(queue: str, job_id: UUID, *, actor: Actor, reason: str = "", seen: str = "", using: str | None = None) -> Outcome:
    """End a job that is not final in the state cancelled; a running one is told within about a second.

    Args:
        reason: why, kept with the job; cut to LONGEST_REASON characters.
        other parameters: as for `retry`.
    """

    def act(cursor: Any, job: Job) -> functions.Changed | None:
        _refuse_final(job)
        return functions.cancel(cursor, queue, job_id, clean(reason) or None)

    return _on_job("cancel", queue, job_id, act, actor, seen=seen, using=using, reason=clean(reason))


def discard(queue: str, job_id: UUID, *, actor: Actor, reason: str = "", seen: str = "", using: str | None = None) -> Outcome:
    """Give a job up that is not final, with its dead letter if it is to have one; parameters as for `cancel`."""

    def act(cursor: Any, job: Job) -> functions.Failed | None:
        _refuse_final(job)
        return functions.discard(cursor, queue, job_id, clean(reason) or None)

    return _on_job("discard", queue, job_id, act, actor, seen=seen, using=using, reason=clean(reason))


def move(queue: str, job_id: UUID, to: str, *, actor: Actor, seen: str = "", using: str | None = None) -> Outcome:
    """Put a job that is not running into another queue, with its id and all it holds.

    Args:
        to: the other queue, 1 to 255 characters.
        other parameters: as for `retry`.
    """

    def act(cursor: Any, job: Job) -> functions.Changed | None:
        if not to or len(to) > 255 or "\x00" in to:
            raise _Refused(gettext("a queue's name has 1 to 255 characters"))
        if to == queue:
            raise _Refused(gettext("it is in that queue already"))
        _refuse_running(job)
        return functions.move(cursor, queue, job_id, to)

    return _on_job("move", queue, job_id, act, actor, seen=seen, using=using, to=to)


def delete(queue: str, job_id: UUID, *, actor: Actor, seen: str = "", using: str | None = None) -> Outcome:
    """Remove a job that is not running, for good; parameters as for `retry`."""

    def act(cursor: Any, job: Job) -> functions.Changed | None:
        _refuse_running(job)
        was = functions.delete(cursor, queue, job_id)
        return None if was is None else functions.Changed(was, "")

    return _on_job("delete", queue, job_id, act, actor, seen=seen, using=using)


JobAction = Callable[..., Outcome]
JOB_ACTIONS: dict[str, JobAction] = {
    "retry": retry,
    "run_now": run_now,
    "cancel": cancel,
    "discard": discard,
    "move": move,
    "delete": delete,
}


ELIGIBLE = {
    "retry": Q(state=State.RETRYABLE) | Q(state__in=(State.DISCARDED, State.CANCELLED)),
    "run_now": Q(state__in=WAITING, scheduled_at__gt=Now()),
    "cancel": Q(state__in=WAITING) | Q(state__in=RUNNING),
    "discard": Q(state__in=WAITING) | Q(state__in=RUNNING),
    "move": Q(state__in=WAITING),
    "delete": Q(state__in=WAITING) | Q(state__in=FINAL),
}
"""Which of the jobs that somebody means by "all" an action goes for, said so that partial indexes serve it. Completed
jobs are run again one by one only."""


def _on_job(
    action: str,
    queue: str,
    job_id: UUID,
    act: Callable[[Any, Job], Any],
    actor: Actor,
    *,
    seen: str,
    using: str | None,
    **detail: Any,
) -> Outcome:
    """Lock the job, do it, write the audit row, commit; or say in one sentence why not."""
    alias = using or settings.DATABASE
    state = ""
    try:
        with transaction.atomic(using=alias):
            job = _locked(queue, job_id, alias)
            state = job.state
            if seen and seen != mark(job):
                raise _Refused(gettext("it has changed since it was shown; look at it again"))
            with connections[alias].cursor() as cursor:
                changed = act(cursor, job)
            if changed is None:
                raise _Refused(gettext("it is %(state)s, which does not allow that") % {"state": state})
            record(alias, action, actor, queue, job_id, was=state, now=changed.now_state, **detail)
    except _Refused as refusal:
        return Outcome(queue, job_id, False, state, "", str(refusal))
    except DatabaseError as error:
        return Outcome(queue, job_id, False, state, "", _sentence(error, action, job_id))
    return Outcome(detail.get("to", queue), job_id, True, state, changed.now_state)


def mark(job: Job) -> str:
    """What tells that a job has changed: a form carries it from when the job was shown to when somebody acts on it."""
    finished = "" if job.finished_at is None else job.finished_at.isoformat()
    return f"{job.state}:{job.attempt}:{job.max_attempts}:{finished}"


def _locked(queue: str, job_id: UUID, alias: str) -> Job:
    """The job's row, locked. A running job's own transaction may hold it for long: nobody waits for that here."""
    rows = Job.objects.using(alias).filter(queue=queue, pk=job_id)
    if "\x00" in queue:  # PostgreSQL's text can't hold it: asking would be an error
        rows = rows.none()
    for patience in (0.0, 0.05, 0.1, 0.2, 0.4, 0.8):
        time.sleep(patience)
        job = rows.select_for_update(skip_locked=True).first()
        if job is not None:
            return job
        if not rows.exists():
            raise _Refused(gettext("there is no such job in queue “%(queue)s”") % {"queue": queue})
    raise _Refused(gettext("a transaction holds it; try again in a moment"))


def _refuse_final(job: Job) -> None:
    if job.state in FINAL:
        raise _Refused(gettext("it is %(state)s already") % {"state": job.state})


def _refuse_running(job: Job) -> None:
    if job.state in RUNNING:
        raise _Refused(gettext("it is running; cancel it first"))


def _sentence(error: DatabaseError, action: str, job_id: UUID) -> str:
    """Why the database refused an act on one job. A lost connection is no answer about the job, and goes on."""
    code = getattr(error.__cause__, "sqlstate", None)
    if code is None or code[:2] in {"08", "57"}:
        raise error
    if code == "23505":
        return gettext("another job holds its dedup slot there; cancel that one first")
    logger.error("%s of job %s failed with SQLSTATE %s", action, job_id, code, exc_info=error)
    return gettext("the database refused it (SQLSTATE %(code)s); see the log") % {"code": code}
