"""The public Lease: a job that a program pulled, to be run there and given one outcome.

Owns what a caller may say and the one answer to each mistake. The attempt itself is the worker's `Lease`, which the desk holds
until its outcome is on record: it outlives this handle of it, and so a handle that is dropped is noticed.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from django_stampeded import registry
from django_stampeded.encoding import encode_value
from django_stampeded.exceptions import BaseOutcome, Discard, LeaseFinished, LeaseLost, RetryIn, Snooze
from django_stampeded.pulling import messages
from django_stampeded.states import FailureKind
from django_stampeded.worker.context import _UNSET, JobContext
from django_stampeded.worker.execution import MAX_RESULT_BYTES, policy_of
from django_stampeded.worker.failure_text import LONGEST, clean
from django_stampeded.worker.lease import Lease as Held
from django_stampeded.worker.messages import useless_backoff
from django_stampeded.worker.outcomes import (
    COMPLETED,
    PLAIN_POLICY,
    RELEASED,
    Completed,
    Failed,
    Outcome,
    Snoozed,
    of_exception,
)

if TYPE_CHECKING:
    from django_stampeded.pulling.puller import Puller
    from django_stampeded.pulling.session import Session

KEEP_RESULT_S = 86_400.0


class Lease(JobContext):
    """One attempt of a job, made by a Puller. All that a JobContext tells and does, and its outcome.

    It takes one outcome, from any thread: `complete`, `fail`, `discard`, `release` or `snooze`. Each returns once that is on
    record, and raises LeaseFinished when the lease had its outcome already, LeaseLost when the job is no longer this
    attempt's (taken back, cancelled, or its Puller closed), PullerClosed in a forked process.

    As a context manager it gives an exception as a failure and lets it pass; RetryIn, Snooze, Cancel and Discard, which are
    outcomes, end there. Without an outcome, at the block's end or when the lease is dropped, the job goes back as an
    interruption.

    Example:
        if (lease := puller.next(timeout=5)) is not None:
            with lease:
                lease.complete(render(**lease.args))
    """

    __slots__ = ("_puller", "_session", "_given")

    def __init__(self, held: Held, session: Session, puller: Puller) -> None:
        super().__init__(held, session.alias)
        self._given = ""
        self._puller = puller  # which closes when it is forgotten: not while a lease of it is in use
        self._session = session

    @property
    def tenant(self) -> str | None:
        """The tenant that the job is for."""
        return self._lease.job.tenant_id

    @property
    def priority(self) -> int:
        """The job's priority; lower runs first."""
        return self._lease.job.priority

    @property
    def destination(self) -> str | None:
        """The downstream that the job talks to."""
        return self._lease.job.destination

    def complete(self, result: Any = None) -> None:
        """The job is done.

        Args:
            result: what `EnqueuedJob.result()` is to give: JSON of at most 64 KiB, kept for the task's `result_ttl`, a day
                where the task is not known here. None is kept only if the task says `store_result`.

        Raises InvalidArguments for what JSON can't hold, and the lease is still to be given its outcome.

        Example: `lease.complete({"pages": 12})`
        """
        self._check("completed")
        task = registry.get(self.task)
        if result is None and (task is None or not task.store_result):
            return self._give("completed", COMPLETED)
        text = encode_value(result, path="result", limit=MAX_RESULT_BYTES)
        self._give("completed", Completed(text, KEEP_RESULT_S if task is None else task.result_ttl))

    def fail(self, error: str | BaseException, retry_in: timedelta | float | None = None) -> None:
        """The attempt failed; the job runs again while it has attempts left.

        Args:
            error: a text, or an exception, which goes on record with its traceback; where the task is declared in this
                program, its retry_on, discard_on and backoff hold, unless `retry_in` is given.
            retry_in: when, from now: seconds or a timedelta, 0 to 10 years; None for the job's back-off.

        Raises ValueError for another `retry_in`, or an `error` that is neither.

        Example: `lease.fail("the printer is out of paper", retry_in=60)`
        """
        if not isinstance(error, str | BaseException):
            raise ValueError(f"fail() needs a text or an exception, not {type(error).__name__}.")
        delay_ms = None if retry_in is None else RetryIn(retry_in).delay_ms
        if isinstance(error, BaseException):
            outcome = self._of_exception(error) if delay_ms is None else of_exception(error, self.attempt)
        else:
            outcome = Failed(FailureKind.RAISED, clean(error)[:LONGEST])
        if delay_ms is not None and isinstance(outcome, Failed):
            outcome = Failed(outcome.kind, outcome.error, delay_ms)
        self._give("failed", outcome)

    def discard(self, reason: str) -> None:
        """Give the job up, whatever attempts are left; `reason` goes on record.

        Example: `lease.discard("not a PDF")`
        """
        self._give("discarded", self._of_exception(Discard(reason)))

    def release(self) -> None:
        """Hand the job back as if it had never been claimed: it is due at once, and its attempt is not charged."""
        self._give("released", RELEASED)

    def snooze(self, delay: timedelta | float) -> None:
        """Put the job off for `delay`, seconds or a timedelta from 0 to 10 years; its attempt is not charged.

        Raises ValueError for another delay.

        Example: `lease.snooze(timedelta(minutes=5))`
        """
        self._give("snoozed", Snoozed(Snooze(delay).delay_ms))

    def touch(self) -> bool:
        """As `JobContext.touch`; not needed while the Puller is open, which does it every few seconds."""
        self._check("touched")
        return super().touch()

    def checkpoint(self, state: Any = _UNSET, /, *, every: int = 1, **fields: Any) -> None:
        """As `JobContext.checkpoint`."""
        self._check("given a checkpoint")
        super().checkpoint(state, every=every, **fields)

    def _check_lease(self) -> None:
        self._check("given a step")
        super()._check_lease()

    def __enter__(self) -> Lease:
        self._check("entered")
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> bool:
        held = self._lease
        if held.settled:
            return False
        if not isinstance(exc, Exception):  # the end of the block, or of the program: nobody knows how far the job came
            if exc is None:
                messages.left_without_outcome(self)
            self._given = "left"
            self._session.drop(held, "Its lease was left without an outcome.")
            return False
        try:
            self._give("failed", self._of_exception(exc))
        except (LeaseFinished, LeaseLost):
            return False  # what was raised says more
        return isinstance(exc, BaseOutcome)

    def __del__(self) -> None:
        session = getattr(self, "_session", None)
        if session is not None:
            session.drop(self._lease, "Its lease was dropped without an outcome.")

    def _check(self, verb: str) -> None:
        """Raises what there is to raise before anything is done."""
        self._session.check_process()
        if self._lease.settled:
            raise self._too_late(verb)

    def _give(self, verb: str, outcome: Outcome) -> None:
        self._check(verb)
        desk = self._session.desk
        if not desk.settle(self._lease, outcome):
            raise self._too_late(verb)
        self._given = verb
        desk.wait_for_record(self._lease)
        if self._lease.lost:
            raise self._too_late(verb)

    def _too_late(self, verb: str) -> LeaseFinished | LeaseLost:
        if not self._lease.lost:
            before = self._given or "given its outcome"
            return LeaseFinished(f"Job {self.id} can't be {verb}: it was {before} before. Give a lease one outcome.")
        if self._session.desk.closed and not self._given:
            return LeaseLost(f"Job {self.id} can't be {verb}: its Puller was closed, and the job is back in its queue.")
        return LeaseLost(
            f"Job {self.id} can't be {verb}: it is no longer this attempt's ({self.attempt}), as it was "
            f"{'cancelled' if self.cancelled else 'taken back or ended'} elsewhere. Nothing more of it is recorded."
        )

    def _of_exception(self, exc: BaseException) -> Outcome:
        """What it means for the job: by the retry policy of its task where this program has one of that name."""
        task = registry.get(self.task)
        policy = PLAIN_POLICY if task is None else policy_of(task)
        return of_exception(exc, self.attempt, policy, partial(useless_backoff, self._lease))

    def __repr__(self) -> str:
        return f"<Lease {self.id} {self.task} attempt {self.attempt}>"
