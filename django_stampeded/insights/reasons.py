"""Why is this job not running? A pure answer from what is known of the job, its queue and the workers.

Every surface shows the same sentences. Fetching the facts is `jobs.py`'s part; nothing here reads a clock or a table.
The first reason is the one that holds the job back; later ones would hold it back next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from django.utils.translation import gettext, ngettext

from django_stampeded.insights.durations import in_words
from django_stampeded.states import FINAL, RUNNING, WAITS_UNTIL, FailureKind, State

VERDICT_TRUSTED_FOR = timedelta(seconds=30)


class WaitingJob(Protocol):
    """The part of a job that decides whether it may run."""

    @property
    def state(self) -> str: ...
    @property
    def scheduled_at(self) -> datetime: ...
    @property
    def attempt(self) -> int: ...
    @property
    def max_attempts(self) -> int: ...
    @property
    def deferrals(self) -> int: ...
    @property
    def failure_kind(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class QueueSituation:
    """What holds for every job of one queue.

    Args:
        queue: the queue's name.
        paused_at: since when it is paused; None while it runs.
        paused_reason: why, as the operator put it.
        paused_until: when the pause ends by itself; None when it doesn't.
        paused_with_all: the pause is that of all queues, and not its own.
        rate_frees_at: when its rate limit lets the next job start; None when it does so now.
        keys_held_back: of tenant, destination and key those of which no more jobs may start now.
        max_running: most jobs at once over all workers; None for no limit.
        running: jobs claimed or executing now.
        verdict: the planner's word: steady, rush or hold.
        verdict_reason: the planner's reason.
        decided_at: when the planner said so.
        breaker: the destination or task of the job's circuit breaker, while that isn't closed.
        breaker_retry_in: in how long its next probe may start, in words; empty when nobody knows.
        live_workers: live workers that take jobs from this queue.
        silent_workers: workers for this queue whose heartbeat has stopped.
        unknown_task: the job's task, where no live worker for this queue has a function for it.
        ahead: due jobs that a worker takes before this one; None when not counted.
        ahead_at_least: True when counting stopped at `ahead`.
    """

    queue: str
    paused_at: datetime | None = None
    paused_reason: str = ""
    paused_until: datetime | None = None
    paused_with_all: bool = False
    rate_frees_at: datetime | None = None
    keys_held_back: Sequence[str] = ()
    max_running: int | None = None
    running: int = 0
    verdict: str = "steady"
    verdict_reason: str = ""
    decided_at: datetime | None = None
    breaker: str = ""
    breaker_retry_in: str = ""
    live_workers: int = 0
    silent_workers: int = 0
    unknown_task: str = ""
    ahead: int | None = None
    ahead_at_least: bool = False


@dataclass(frozen=True, slots=True)
class Reason:
    """One answer.

    Args:
        code: a stable word for programs, such as ``paused``.
        text: one sentence for people, in the active language.
    """

    code: str
    text: str


def why_not_running(job: WaitingJob, situation: QueueSituation, now: datetime) -> list[Reason]:
    """Why a job is not running, the decisive reason first; never empty.

    Args:
        job: the job, or anything with the fields of `WaitingJob`.
        situation: what holds for its queue.
        now: the database's time.

    Returns:
        One reason for a job that is running or final; for a waiting one all that hold it back.

    Example:
        >>> why_not_running(job, QueueSituation("mail", live_workers=1), now)[0].code
        'scheduled'
    """
    if job.state in RUNNING:
        return [Reason("running", gettext("It is running now."))]
    if job.state in FINAL:
        return [Reason("final", _final(job.state))]
    found = [reason for rule in _RULES for reason in rule(job, situation, now)]
    return found or [_turn(situation)]


def _final(state: str) -> str:
    if state == State.COMPLETED:
        return gettext("It is completed: there is nothing left to run.")
    if state == State.CANCELLED:
        return gettext("It was cancelled; retry it to run it after all.")
    return gettext("It was discarded; retry it to run it again.")


def _attempts_spent(job: WaitingJob, situation: QueueSituation, now: datetime) -> Iterator[Reason]:
    if job.attempt >= job.max_attempts:
        yield Reason(
            "attempts_spent",
            gettext("Its attempts are spent (%(attempt)d of %(most)d); retry it to give it new ones.")
            % {"attempt": job.attempt, "most": job.max_attempts},
        )


def _paused(job: WaitingJob, situation: QueueSituation, now: datetime) -> Iterator[Reason]:
    if situation.paused_at is None:
        return
    words = {"queue": situation.queue, "age": in_words(now - situation.paused_at)}
    if situation.paused_with_all:
        text = gettext("All queues are paused (for %(age)s); resume them to let their jobs run.") % words
    else:
        text = gettext("Queue “%(queue)s” is paused (for %(age)s); resume it to let its jobs run.") % words
    if situation.paused_until is not None:
        text += " " + gettext("The pause ends by itself in %(wait)s.") % {"wait": in_words(situation.paused_until - now)}
    if situation.paused_reason:
        text += " " + gettext("Reason given: %(reason)s") % {"reason": situation.paused_reason}
    yield Reason("paused", text)


def _scheduled(job: WaitingJob, situation: QueueSituation, now: datetime) -> Iterator[Reason]:
    if job.scheduled_at <= now:
        return
    if job.scheduled_at >= WAITS_UNTIL:
        yield Reason("waits_for_others", gettext("It waits until other jobs have ended; run it now to let it go without them."))
        return
    wait = {"wait": in_words(job.scheduled_at - now), "count": job.deferrals}
    if job.failure_kind == FailureKind.THROTTLED:
        yield Reason("throttled", gettext("A limit held it back (%(count)d times so far); due in %(wait)s.") % wait)
    elif job.failure_kind == FailureKind.BREAKER_OPEN:
        yield Reason("breaker_open", gettext("Its destination keeps failing, so it waits; due in %(wait)s.") % wait)
    elif job.state == State.RETRYABLE:
        yield Reason("backing_off", gettext("It failed and waits for its next attempt; due in %(wait)s.") % wait)
    else:
        yield Reason("scheduled", gettext("It is scheduled for later; due in %(wait)s.") % wait)


def _no_worker(job: WaitingJob, situation: QueueSituation, now: datetime) -> Iterator[Reason]:
    if situation.live_workers:
        return
    names = {"queue": situation.queue, "count": situation.silent_workers}
    text = gettext("No live worker takes jobs from queue “%(queue)s”; start one with “manage.py runstampeded”.") % names
    if situation.silent_workers:
        text += " " + (
            ngettext(
                "%(count)d worker for it has stopped sending heartbeats.",
                "%(count)d workers for it have stopped sending heartbeats.",
                situation.silent_workers,
            )
            % names
        )
    yield Reason("no_worker", text)


def _unknown_task(job: WaitingJob, situation: QueueSituation, now: datetime) -> Iterator[Reason]:
    if situation.unknown_task and situation.live_workers:
        yield Reason(
            "unknown_task",
            gettext(
                "No live worker for queue “%(queue)s” has a task “%(task)s”, so each puts the job off; start one that has, "
                "add the name to the “aliases” of the task that replaced it, or discard the job."
            )
            % {"queue": situation.queue, "task": situation.unknown_task},
        )


def _limit_reached(job: WaitingJob, situation: QueueSituation, now: datetime) -> Iterator[Reason]:
    if situation.max_running is not None and situation.running >= situation.max_running:
        yield Reason(
            "limit_reached",
            gettext("Queue “%(queue)s” already runs as many jobs as it may (%(running)d of %(most)d).")
            % {"queue": situation.queue, "running": situation.running, "most": situation.max_running},
        )


def _rate_spent(job: WaitingJob, situation: QueueSituation, now: datetime) -> Iterator[Reason]:
    if situation.rate_frees_at is not None and situation.rate_frees_at > now:
        yield Reason(
            "rate_spent",
            gettext("Queue “%(queue)s” has started as many jobs as its rate allows; it may start the next in %(wait)s.")
            % {"queue": situation.queue, "wait": in_words(situation.rate_frees_at - now)},
        )


def _keys_held_back(job: WaitingJob, situation: QueueSituation, now: datetime) -> Iterator[Reason]:
    texts = {
        "tenant": gettext("Its tenant has as many jobs of queue “%(queue)s” running or started as it may."),
        "destination": gettext("Its destination has as many jobs of queue “%(queue)s” running or started as it may."),
        "key": gettext("Its limit key has as many jobs of queue “%(queue)s” running or started as it may."),
    }
    for scope in situation.keys_held_back:
        yield Reason(f"{scope}_limit_reached", texts[scope] % {"queue": situation.queue})


def _breaker_open(job: WaitingJob, situation: QueueSituation, now: datetime) -> Iterator[Reason]:
    if not situation.breaker:
        return
    text = gettext("The circuit breaker of “%(key)s” is open, so only probes start.") % {"key": situation.breaker}
    if situation.breaker_retry_in:
        text += " " + gettext("The next may in %(wait)s.") % {"wait": situation.breaker_retry_in}
    yield Reason("breaker_open", text)


def _held(job: WaitingJob, situation: QueueSituation, now: datetime) -> Iterator[Reason]:
    if situation.verdict != "hold" or situation.decided_at is None:
        return
    if now - situation.decided_at > VERDICT_TRUSTED_FOR:
        return
    text = gettext("The planner holds queue “%(queue)s” back for now.") % {"queue": situation.queue}
    if situation.verdict_reason:
        text += " " + gettext("Reason given: %(reason)s") % {"reason": situation.verdict_reason}
    yield Reason("held", text)


def _turn(situation: QueueSituation) -> Reason:
    count = situation.ahead
    if count is None:
        return Reason("next", gettext("It is due and waits for its turn."))
    if count == 0:
        return Reason("next", gettext("It is due and first in its queue: a worker will take it next."))
    if situation.ahead_at_least:
        return Reason("behind", gettext("It is due and waits behind more than %(count)d jobs.") % {"count": count})
    words = ngettext("It is due and waits behind %(count)d job.", "It is due and waits behind %(count)d jobs.", count)
    return Reason("behind", words % {"count": count})


_Rule = Callable[[WaitingJob, QueueSituation, datetime], Iterator[Reason]]
_RULES: tuple[_Rule, ...] = (
    _attempts_spent,
    _paused,
    _unknown_task,
    _scheduled,
    _breaker_open,
    _no_worker,
    _limit_reached,
    _rate_spent,
    _keys_held_back,
    _held,
)
