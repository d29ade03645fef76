"""What the way a job ended means for it: completed, failed and of which kind, put off, or ended for good.

Pure. Which state the job gets is decided in SQL by the functions that acker.py calls with these outcomes; when there is
a next attempt, too, but for tasks whose back-off does not fit the column.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django_stampeded.backoff import full_jitter
from django_stampeded.exceptions import Cancel, Discard, InvalidArguments, RetryIn, Snooze
from django_stampeded.states import FailureKind
from django_stampeded.worker.failure_text import LONGEST, clean, describe

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
    job's own process, if it had one and that ended."""

    kind: FailureKind
    error: str
    delay_ms: int | None = None
    exit_status: int | None = None


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


class JobCancelled(BaseException):
    """Raised in a job's thread when the job was cancelled elsewhere. A BaseException, as JobTimeout is."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The back-off of a task in seconds, as its declaration has it."""

    base: float
    longest: float

    def delay_ms(self, attempt: int) -> int | None:
        """The wait after that attempt, or None where the job's row says the same and SQL shall draw it."""
        if self.base * 1000 <= LONGEST_STORED_BASE_MS:
            return None
        return int(full_jitter(self.base, self.longest, attempt) * 1000)


def of_exception(exc: BaseException, attempt: int, backoff: Backoff | None = None, note: str = "") -> Outcome:
    """The outcome of a body that raised.

    Args:
        exc: whatever it raised, SystemExit and KeyboardInterrupt included: they end the job and nothing else.
        attempt: which attempt that was, 1 for the first.
        backoff: the task's, where it is known.
        note: where and how long it ran, kept with the error.
    """
    match exc:
        case Snooze():
            return Snoozed(exc.delay_ms)
        case RetryIn():
            return Failed(FailureKind.RAISED, _reason(exc.reason, "RetryIn", note), exc.delay_ms)
        case Cancel():
            return Failed(FailureKind.CANCELLED, _reason(exc.reason, "Cancel", note))
        case Discard():
            return Failed(FailureKind.UNRECOVERABLE, _reason(exc.reason, "Discard", note))
        case JobTimeout():
            kind = FailureKind.TIMED_OUT
        case _:
            kind = FailureKind.RAISED
    delay = backoff.delay_ms(attempt) if backoff else None
    return Failed(kind, describe(exc, note), delay)


def of_bad_arguments(exc: InvalidArguments | Exception) -> Outcome:
    """The outcome of arguments that do not fit the task: no attempt could ever do better."""
    return Failed(FailureKind.UNRECOVERABLE, describe(exc))


def of_unknown_task(waited: timedelta) -> Snoozed:
    """The outcome of a job whose task this process does not know: put off, for a worker that knows it or the next deploy.

    The delay grows with the time since the job was enqueued, half of it between 5 s and 10 minutes, so that a
    thousand such jobs soon cost next to nothing.
    """
    delay = min(max(waited / 2, UNKNOWN_TASK_FIRST), UNKNOWN_TASK_LONGEST)
    return Snoozed(delay // timedelta(milliseconds=1))


def _reason(reason: object, word: str, note: str) -> str:
    try:
        text = str(reason)[:LONGEST]
    except Exception:
        text = "<not printable>"
    text = f"{word}: {text}" if text else word
    return clean(f"{text[: LONGEST - len(note) - 1]}\n{note}" if note else text)[:LONGEST]
