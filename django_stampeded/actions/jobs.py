"""What an operator may do to one job: retry, run now, cancel, discard, move, set its priority, delete, redrive.

Each calls one SQL function under the job's row lock and leaves one audit row. An act that does not fit the job as it is
changes nothing and gives an outcome that says why, so that a list of jobs never stops at a bad one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.db import DatabaseError, connections, transaction
from django.utils.translation import gettext

from django_stampeded import functions, operator_functions
from django_stampeded.actions.audit import Actor, clean, record
from django_stampeded.columns import is_name, is_priority
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


class Refused(Exception):
    """The act does not fit the job as it is now; the text says why. Rolls the transaction back, leaves no audit row."""


def refusal(action: str, job: Job, parameters: Mapping[str, Any]) -> str:
    """Why an act does not fit a job as it is, one sentence in the active language; empty where it does."""
    return _RULES[action](job, parameters)


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
    return on_job("retry", queue, job_id, functions.retry, actor, seen=seen, using=using)


def run_now(queue: str, job_id: UUID, *, actor: Actor, seen: str = "", using: str | None = None) -> Outcome:
    """Make a waiting job due now instead of at its scheduled time; parameters as for `retry`."""
    return on_job("run_now", queue, job_id, functions.run_now, actor, seen=seen, using=using)


def cancel(queue: str, job_id: UUID, *, actor: Actor, reason: str = "", seen: str = "", using: str | None = None) -> Outcome:
    """End a job that is not final in the state cancelled; a running one is told within about a second.

    Args:
        reason: why, kept with the job; cut to LONGEST_REASON characters.
        other parameters: as for `retry`.
    """
    why = clean(reason)
    act = partial(functions.cancel, reason=why or None)
    return on_job("cancel", queue, job_id, act, actor, seen=seen, using=using, reason=why)


def discard(queue: str, job_id: UUID, *, actor: Actor, reason: str = "", seen: str = "", using: str | None = None) -> Outcome:
    """Give a job up that is not final, with its dead letter if it is to have one; parameters as for `cancel`."""
    why = clean(reason)
    act = partial(functions.discard, reason=why or None)
    return on_job("discard", queue, job_id, act, actor, seen=seen, using=using, reason=why)


def move(queue: str, job_id: UUID, to: str, *, actor: Actor, seen: str = "", using: str | None = None) -> Outcome:
    """Put a job that is not running into another queue, with its id and all it holds.

    Args:
        to: the other queue, 1 to 255 characters.
        other parameters: as for `retry`.
    """
    return on_job("move", queue, job_id, partial(functions.move, to=to), actor, seen=seen, using=using, to=to)


def set_priority(queue: str, job_id: UUID, priority: int, *, actor: Actor, seen: str = "", using: str | None = None) -> Outcome:
    """Give a waiting job another priority.

    Args:
        priority: -32768 to 32767; lower runs first.
        other parameters: as for `retry`.
    """
    act = partial(operator_functions.set_priority, priority=priority)
    return on_job("set_priority", queue, job_id, act, actor, seen=seen, using=using, priority=priority)


def delete(queue: str, job_id: UUID, *, actor: Actor, seen: str = "", using: str | None = None) -> Outcome:
    """Remove a job that is not running, for good; parameters as for `retry`."""

    def act(cursor: Any, queue: str, job_id: UUID) -> functions.Changed | None:
        was = functions.delete(cursor, queue, job_id)
        return None if was is None else functions.Changed(was, "")

    return on_job("delete", queue, job_id, act, actor, seen=seen, using=using)


def redrive(queue: str, job_id: UUID, *, actor: Actor, seen: str = "", using: str | None = None) -> Outcome:
    """Put a dead letter back into the queue that it came from, due now; parameters as for `retry`."""
    alias = using or settings.DATABASE
    letter = Job.objects.using(alias).filter(queue=queue, pk=job_id).values_list("source_queue", flat=True)
    to = "" if "\x00" in queue else letter.first() or ""

    def act(cursor: Any, queue: str, job_id: UUID) -> functions.Changed | None:
        moved = functions.move(cursor, queue, job_id, to)
        again = functions.retry(cursor, to, job_id) if moved else None
        return None if moved is None or again is None else functions.Changed(moved.was, again.now_state)

    return on_job("redrive", queue, job_id, act, actor, seen=seen, using=using, to=to)


JobAction = Callable[..., Outcome]
JOB_ACTIONS: dict[str, JobAction] = {
    "retry": retry,
    "run_now": run_now,
    "cancel": cancel,
    "discard": discard,
    "move": move,
    "set_priority": set_priority,
    "delete": delete,
    "redrive": redrive,
}


def on_job(
    action: str,
    queue: str,
    job_id: UUID,
    act: Callable[..., Any],
    actor: Actor,
    *,
    seen: str = "",
    using: str | None = None,
    **detail: Any,
) -> Outcome:
    """Lock the job, do `act(cursor, queue, job_id)`, write the audit row, commit; or say in one sentence why not."""
    alias = using or settings.DATABASE
    state = ""
    try:
        with transaction.atomic(using=alias):
            job = _locked(queue, job_id, alias)
            state = job.state
            if seen and seen != mark(job):
                raise Refused(gettext("it has changed since it was shown; look at it again"))
            if why := refusal(action, job, detail):
                raise Refused(why)
            with connections[alias].cursor() as cursor:
                changed = act(cursor, queue, job_id)
            if changed is None:
                raise Refused(gettext("it is %(state)s, which does not allow that") % {"state": state})
            record(alias, action, actor, queue, job_id, was=state, now=changed.now_state, **detail)
    except Refused as refused:
        return Outcome(queue, job_id, False, state, "", str(refused))
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
            raise Refused(gettext("there is no such job in queue “%(queue)s”") % {"queue": queue})
    raise Refused(gettext("a transaction holds it; try again in a moment"))


def _retry_rule(job: Job, parameters: Mapping[str, Any]) -> str:
    if job.state in RUNNING:
        return gettext("it is running; cancel it first if it must start over")
    if job.state == State.AVAILABLE and job.attempt < job.max_attempts:
        return gettext("it waits to run already")
    return ""


def _waiting_rule(job: Job, parameters: Mapping[str, Any]) -> str:
    if job.state in WAITING:
        return ""
    return gettext("only a waiting job can be changed like that; this one is %(state)s") % {"state": job.state}


def _priority_rule(job: Job, parameters: Mapping[str, Any]) -> str:
    if not is_priority(parameters["priority"]):
        return gettext("a priority is a whole number from -32768 to 32767")
    return _waiting_rule(job, parameters)


def _not_final_rule(job: Job, parameters: Mapping[str, Any]) -> str:
    return gettext("it is %(state)s already") % {"state": job.state} if job.state in FINAL else ""


def _not_running_rule(job: Job, parameters: Mapping[str, Any]) -> str:
    return gettext("it is running; cancel it first") if job.state in RUNNING else ""


def _move_rule(job: Job, parameters: Mapping[str, Any]) -> str:
    to = parameters["to"]
    if not is_name(to):
        return gettext("a queue's name has 1 to 255 characters")
    if to == job.queue:
        return gettext("it is in that queue already")
    return _not_running_rule(job, parameters)


def _redrive_rule(job: Job, parameters: Mapping[str, Any]) -> str:
    if job.source_id is None or not job.source_queue:
        return gettext("it is no dead letter")
    return _move_rule(job, parameters)


_RULES: dict[str, Callable[[Job, Mapping[str, Any]], str]] = {
    "retry": _retry_rule,
    "run_now": _waiting_rule,
    "cancel": _not_final_rule,
    "discard": _not_final_rule,
    "move": _move_rule,
    "set_priority": _priority_rule,
    "delete": _not_running_rule,
    "redrive": _redrive_rule,
    "edit": _not_running_rule,
}


def _sentence(error: DatabaseError, action: str, job_id: UUID) -> str:
    """Why the database refused an act on one job. A lost connection is no answer about the job, and goes on."""
    code = getattr(error.__cause__, "sqlstate", None)
    if code is None or code[:2] in {"08", "57"}:
        raise error
    if code == "23505":
        return gettext("another job holds its dedup slot there; cancel that one first")
    logger.error("%s of job %s failed with SQLSTATE %s", action, job_id, code, exc_info=error)
    return gettext("the database refused it (SQLSTATE %(code)s); see the log") % {"code": code}
