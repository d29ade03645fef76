"""What the way a job ended means for it: completed, failed and of which kind, put off, or ended for good.

Pure. Which state the job gets is decided in SQL by the functions that acker.py calls with these outcomes; when there is
a next attempt, too, where the task's retry policy (retry_policy.py) doesn't say it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from django_stampeded.exceptions import Cancel, Discard, RetryIn, Snooze
from django_stampeded.states import FailureKind
from django_stampeded.worker.failure_text import LONGEST, clean, describe, headline
from django_stampeded.worker.retry_policy import Complain, RetryPolicy, silent

PLAIN_POLICY = RetryPolicy()

UNKNOWN_TASK_FIRST = timedelta(seconds=5)
UNKNOWN_TASK_LONGEST = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Completed:
    """The body returned. `result` is what, as JSON text, where that is to be kept, for `keep_s` seconds."""

    result: str | None = None
    keep_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Released:
    """The job was never started, or is handed back: its attempt is given back and nothing recorded."""


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The job runs again after the delay; its attempt is given back and nothing recorded."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A failure to record. `delay_ms` is None where the back-off on the job's row decides; `exit_status` is that of the
    job's own process, if it had one and that ended; `exception` is what kept the body from being called, if that was it;
    `by_wish`: the job asked to be run again, which is no sign of trouble."""

    kind: FailureKind
    error: str
    delay_ms: int | None = None
    exit_status: int | None = None
    exception: BaseException | None = field(default=None, compare=False, repr=False)
    by_wish: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The job is completed and that is in the database already: it committed with its work."""


Outcome = Completed | Released | Snoozed | Failed | Recorded

COMPLETED = Completed()
RECORDED = Recorded()
RELEASED = Released()


class JobTimeout(BaseException):
    """Raised in a job's thread when its task's timeout is over. A BaseException, so that a job's own
    `except Exception` does not swallow it."""

    def __str__(self) -> str:
        return "the job ran for longer than its timeout"


class JobCancelled(BaseException):
    """Raised in a job's thread when the job was cancelled elsewhere. A BaseException, as JobTimeout is."""

    def __str__(self) -> str:
        return "the job was cancelled meanwhile"


def of_exception(exc: BaseException, attempt: int, policy: RetryPolicy = PLAIN_POLICY, complain: Complain = silent) -> Outcome:
    """The outcome of a body that raised.

    Args:
        exc: whatever it raised, SystemExit and KeyboardInterrupt included: they end the job and nothing else.
        attempt: which attempt that was, 1 for the first.
        policy: the task's, where it is known. What the body raises on purpose goes before it; it has no say about a timeout.
        complain: called with what is wrong with the policy's function for the delay.
    """
    match exc:
        case Snooze():
            return Snoozed(exc.delay_ms)
        case RetryIn():
            return Failed(FailureKind.RAISED, _reason(exc.reason, "RetryIn"), exc.delay_ms, by_wish=True)
        case Cancel():
            return Failed(FailureKind.CANCELLED, _reason(exc.reason, "Cancel"))
        case Discard():
            return Failed(FailureKind.UNRECOVERABLE, _reason(exc.reason, "Discard"))
        case JobTimeout():
            return Failed(FailureKind.TIMED_OUT, describe(exc), policy.drawn_ms(attempt))
        case JobCancelled():
            return Failed(FailureKind.RAISED, describe(exc))
    if policy.gives_up(exc):
        return Failed(FailureKind.UNRECOVERABLE, describe(exc))
    return Failed(FailureKind.RAISED, describe(exc), policy.delay_ms(attempt, exc, complain))


def of_lost_failure(exc: BaseException, problem: BaseException) -> Outcome:
    """The outcome of an exception that could not be dealt with because of `problem`: a failure all the same, for a job that is
    handed back would be run again at once, and for ever."""
    return Failed(FailureKind.RAISED, f"{headline(exc)}\nwhat to make of it could not be told: {headline(problem)}"[:LONGEST])


def of_error_of_ours(exc: BaseException) -> Outcome:
    """The outcome of a job whose thread met an error outside of the job's body."""
    return Failed(FailureKind.RAISED, f"The worker met an error around this job: {headline(exc)}"[:LONGEST])


def of_bad_arguments(exc: BaseException) -> Outcome:
    """The outcome of arguments that do not fit the task: no attempt could ever do better."""
    return Failed(FailureKind.UNRECOVERABLE, describe(exc), exception=BaseException.with_traceback(exc, None))


def of_unknown_task(waited: timedelta) -> Snoozed:
    """The outcome of a job whose task this process does not know: put off, for a worker that knows it or the next deploy.

    The delay grows with the time since the job was enqueued, half of it between 5 s and 10 minutes, so that a
    thousand such jobs soon cost next to nothing.
    """
    delay = min(max(waited / 2, UNKNOWN_TASK_FIRST), UNKNOWN_TASK_LONGEST)
    return Snoozed(delay // timedelta(milliseconds=1))


def _reason(reason: object, word: str) -> str:
    try:
        text = str(reason)[:LONGEST]
    except Exception:
        text = "<not printable>"
    return clean(f"{word}: {text}" if text else word)[:LONGEST]
