"""What a task's own retry policy says of an exception: whether another attempt is worth it, and when.

Pure but for the task's own function for the delay, which may do anything: whatever it raises or returns, the failure goes
on record. What SQL decides (attempts, the back-off of the row) stays there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from django_stampeded.backoff import full_jitter
from django_stampeded.exceptions import checked_delay
from django_stampeded.options import LONGEST_BASE_MS

Complain = Callable[[BaseException], None]


def silent(problem: BaseException) -> None:
    """Complains to nobody."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The policy of a task as its declaration has it.

    base, longest: its back-off in seconds. delay: its function of (attempt, exception). retry_on, discard_on: the exception
    classes that it names.
    """

    base: float = 1.0
    longest: float = 3600.0
    delay: Callable[[int, Exception], timedelta | float | None] | None = None
    retry_on: tuple[type[BaseException], ...] | None = None
    discard_on: tuple[type[BaseException], ...] = ()

    def gives_up(self, exc: BaseException) -> bool:
        """Whether no other attempt is wanted after `exc`.

        What is one of discard_on is given up, whatever retry_on says; so is, where retry_on is given, what is none of it. A
        group that neither names is given up if each of the exceptions in it would be: the others may be worth a retry.
        """
        if isinstance(exc, self.discard_on):
            return True
        if self.retry_on is not None and isinstance(exc, self.retry_on):
            return False
        if isinstance(exc, BaseExceptionGroup):
            return all(self.gives_up(each) for each in exc.exceptions)
        return self.retry_on is not None

    def delay_ms(self, attempt: int, exc: BaseException, complain: Complain = silent) -> int | None:
        """The wait after that attempt, or None where the job's row says it and SQL shall draw it.

        A function that raises, or returns what is no delay of 0 to 10 years, is complained of, and the back-off used instead.
        """
        if self.delay is not None and isinstance(exc, Exception):
            try:
                delay = self.delay(attempt, exc)
                if delay is not None:
                    return checked_delay("backoff", delay) // timedelta(milliseconds=1)
            except BaseException as problem:
                complain(problem)
        return self.drawn_ms(attempt)

    def drawn_ms(self, attempt: int) -> int | None:
        """The back-off after that attempt where its base is too long for the row's column."""
        if self.base * 1000 <= LONGEST_BASE_MS:
            return None
        return int(full_jitter(self.base, self.longest, attempt) * 1000)
