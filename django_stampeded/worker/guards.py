"""The circuit breakers as one worker process meets them: it reports outcomes, asks for tasks, and knows for a while which
breakers it found open, so that what it claimed before does not start.

What opens and closes a breaker is decided in SQL, whose jobs concern it in breaking.py. Destinations need no asking: a claim
brings no job that their breakers hold back.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import inf
from threading import Thread
from time import monotonic
from uuid import UUID

from django.db import connections
from django.dispatch import Signal

from django_stampeded import breaker_functions, breaking, registry, signals
from django_stampeded.breaking import Key, Rule, Tally
from django_stampeded.conf import settings
from django_stampeded.functions import ClaimedJob
from django_stampeded.process.link import Cursor, Link
from django_stampeded.states import BreakerState, FailureKind
from django_stampeded.worker import messages
from django_stampeded.worker.lease import Lease
from django_stampeded.worker.outcomes import Completed, Failed, Outcome, Recorded

BELIEVED_S = 5.0
"""Seconds for which a breaker is taken to be open that was found so: sooner or later than it closes is no matter."""

Entry = tuple[Lease, Outcome]


def breaker_of(job: ClaimedJob) -> tuple[Key, Rule] | None:
    """Whose breaker the job concerns, and by which rule."""
    task = registry.get(job.task)
    option = None if task is None else task.breaker
    if job.destination is None and not option:
        return None
    return breaking.of_job(job.destination, job.task if task is None else task.name, option, settings.BREAKER)


class Guards:
    """One process's dealings with breakers."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self._tally = Tally()
        self._open: dict[Key, tuple[float, float | None]] = {}
        """Until when it is believed, and when probes may start; both in monotonic seconds."""

    def refusal(self, job: ClaimedJob) -> Failed | None:
        """The outcome of a job that must not start, because this process has found its breaker open; else None."""
        if not self._open:
            return None
        found = breaker_of(job)
        believed = None if found is None else self._open.get(found[0])
        if found is None or believed is None:
            return None
        key, rule = found
        now = monotonic()
        until, retry_at = believed
        if now >= until:
            self._open.pop(key, None)
            return None
        return _refused(job, key, rule, None if retry_at is None else retry_at - now)

    def admit(self, cur: Cursor, jobs: Sequence[ClaimedJob]) -> dict[UUID, Failed]:
        """Ask for jobs just claimed of tasks that have a breaker of their own; the outcomes of those that must not start.

        Raises the driver's errors.
        """
        guarded: dict[str, list[tuple[ClaimedJob, Rule]]] = defaultdict(list)
        for job in jobs:
            found = breaker_of(job)
            if found is not None and found[0].kind == "task":
                guarded[found[0].key].append((job, found[1]))
        if not guarded:
            return {}
        refused: dict[UUID, Failed] = {}
        for asked in breaker_functions.ask(cur, {task: len(entries) for task, entries in guarded.items()}):
            for job, rule in guarded[asked.task][asked.allowed :]:
                refused[job.id] = _refused(job, Key("task", asked.task), rule, asked.retry_in)
        return refused

    def report(self, link: Link, batch: Iterable[Entry], lost: Sequence[Lease]) -> None:
        """Report those outcomes of a batch that say something about a breaker. Raises the driver's errors."""
        lost_acks = {lease.ack for lease in lost}
        failures: Counter[tuple[Key, str]] = Counter()
        rules: dict[tuple[Key, str], Rule] = {}
        successes: Counter[tuple[Key, str]] = Counter()
        for lease, outcome in batch:
            verdict = _speaks(outcome)
            found = None if verdict is None or lease.ack in lost_acks else breaker_of(lease.job)
            if found is not None:
                where = (found[0], lease.job.queue)
                rules[where] = found[1]
                (failures if verdict else successes)[where] += 1
        for (key, queue), rule in sorted(rules.items()):
            self._report(link.cursor(), key, queue, rule, failures[key, queue], successes[key, queue])

    def _report(self, cur: Cursor, key: Key, queue: str, rule: Rule, failures: int, successes: int) -> None:
        asked_at = monotonic()
        earlier = self._tally.take(key, rule, failures, successes, asked_at)
        found = breaker_functions.report(cur, key, queue, failures, successes, earlier, rule)
        if found is None or found.now_state != BreakerState.OPEN:
            self._open.pop(key, None)
        else:
            retry_at = None if found.retry_in is None else asked_at + found.retry_in
            self._open[key] = (min(asked_at + BELIEVED_S, retry_at or inf), retry_at)
        if found is None or found.was == found.now_state:
            return
        if found.now_state == BreakerState.OPEN:
            messages.breaker_opened(key.kind, key.key, found.retry_in, again=found.was != BreakerState.CLOSED)
            if found.was == BreakerState.CLOSED:
                _tell(signals.breaker_opened, key, self.alias)
        elif found.now_state == BreakerState.CLOSED:
            messages.breaker_closed(key.kind, key.key)
            _tell(signals.breaker_closed, key, self.alias)


def _speaks(outcome: Outcome) -> bool | None:
    """Whether an outcome is a failure (True) or a success (False) of what the job talked to; None where it says nothing."""
    if isinstance(outcome, Completed | Recorded):
        return False
    if isinstance(outcome, Failed) and outcome.kind in (FailureKind.RAISED, FailureKind.TIMED_OUT) and not outcome.by_wish:
        return True
    return None


def _refused(job: ClaimedJob, key: Key, rule: Rule, retry_in: float | None) -> Failed:
    delay = breaking.refusal_delay(rule, retry_in, job.deferrals)
    return Failed(FailureKind.BREAKER_OPEN, f"The circuit breaker of {key.kind} {key.key} is open.", int(delay * 1000))


def _tell(signal: Signal, key: Key, alias: str) -> None:
    """Send a signal from a thread of its own, as the threads that speak to the queue run nobody else's code."""
    if signal.receivers:
        Thread(target=_send, args=(signal, key, alias), name="stampeded breaker signal", daemon=True).start()


def _send(signal: Signal, key: Key, alias: str) -> None:
    try:
        signal.send_robust(Key, kind=key.kind, key=key.key, using=alias)
    finally:
        connections.close_all()
