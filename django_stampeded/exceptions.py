"""Every exception of the package, and the outcomes a job raises to say how its attempt ends.

Owns names and the checks of their own parameters. What an outcome does to a job is for the worker and the SQL.
"""

from __future__ import annotations

from datetime import timedelta

LONGEST_DELAY = timedelta(days=3650)
"""Ten years: the longest delay that the SQL functions accept."""


class StampededError(Exception):
    """The root of the errors that this package raises."""


class InvalidArguments(StampededError, ValueError):
    """Arguments that do not fit the task or cannot be stored as JSON. The text never contains their values.

    `argument` is the path of the culprit (`args.rows[3]`) or its name, None where several are meant.
    """

    def __init__(self, message: str, *, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument


class InvalidOption(StampededError, ValueError):
    """An option of a task is unknown, of the wrong type or out of range. The text names it."""


class InvalidSchedule(StampededError, ValueError):
    """When something is to run can't be understood or never comes, or its time zone isn't known. The text says which."""


class InvalidStep(StampededError, ValueError):
    """A step of a job can't run so: its name is taken in this attempt, or is none, or stands for a step of another kind."""


class DuplicateTask(InvalidOption):
    """Two functions ask for the same task name or alias."""


class UnknownTask(StampededError, LookupError):
    """No function is registered under this task name in this process."""


class SchemaMismatch(StampededError):
    """The installed SQL schema is missing, too old or too new for this version of the package."""


class ServerTooOld(StampededError):
    """The PostgreSQL server is older than the oldest version supported."""


class BatchFinished(StampededError):
    """The batch takes nothing in any more: it has finished, or was never opened in this database."""


class NoResult(StampededError, LookupError):
    """A job has no result yet, as it has not ended, or none any more, as it is gone."""


class JobFailed(StampededError):
    """The job whose result was asked for was discarded or cancelled (`state`); `reason` is the error on its record."""

    def __init__(self, message: str, state: str, reason: str) -> None:
        super().__init__(message, state, reason)
        self.state = state
        self.reason = reason

    def __str__(self) -> str:
        return str(self.args[0])


class LeaseLost(StampededError):
    """The job no longer belongs to this attempt: its results must not be written."""


class LeaseFinished(StampededError):
    """The lease has its outcome already: it takes one only."""


class PullerClosed(StampededError):
    """The Puller gives no more leases: it was stopped or closed, or belongs to the process that this one was forked from."""


class BaseOutcome(Exception):
    """What a job raises to end its attempt on purpose. Not an error: nothing catches it but the worker."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class _Delayed(BaseOutcome):
    def __init__(self, delay: timedelta | float, reason: str = "") -> None:
        super().__init__(reason)
        self.delay = checked_delay(type(self).__name__, delay)

    def __reduce__(self) -> tuple[type[_Delayed], tuple[timedelta, str]]:
        return type(self), (self.delay, self.reason)

    @property
    def delay_ms(self) -> int:
        """The delay in whole milliseconds, as the SQL functions take it."""
        return self.delay // timedelta(milliseconds=1)


class RetryIn(_Delayed):
    """Fail this attempt and run the job again after `delay` instead of after the back-off.

    `delay` is seconds or a timedelta, 0 to 10 years; `reason` goes on record. Raises ValueError for others.

    Example: `raise RetryIn(timedelta(minutes=5), "the bank is closed")`
    """


class Snooze(_Delayed):
    """Run the job again after `delay`; the attempt is given back and no failure goes on record.

    `delay` is seconds or a timedelta, 0 to 10 years. Raises ValueError for others.

    Example: `raise Snooze(30, "export not ready yet")`
    """


class Cancel(BaseOutcome):
    """End the job in the state cancelled: it is no longer wanted.

    Example: `raise Cancel("the order was withdrawn")`
    """


class Discard(BaseOutcome):
    """End the job in the state discarded, whatever attempts are left: another one could not succeed.

    Example: `raise Discard("the file is not a CSV")`
    """


def checked_delay(name: str, delay: object) -> timedelta:
    """`delay` as a timedelta. Raises ValueError, which begins with `name`, for what is no delay of 0 to 10 years."""
    if isinstance(delay, int | float) and not isinstance(delay, bool):
        if 0 <= delay <= LONGEST_DELAY.total_seconds():
            return timedelta(seconds=delay)
    elif not isinstance(delay, timedelta):
        raise ValueError(f"{name} needs a delay in seconds or a timedelta, not {type(delay).__name__}.")
    elif timedelta(0) <= delay <= LONGEST_DELAY:
        return delay
    raise ValueError(f"{name} needs a delay between 0 and 10 years: give one in that range.")
