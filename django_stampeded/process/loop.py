"""A thread that repeats one piece of work until it is told to stop, and that nothing but that ends.

Owns what happens around the work: reconnecting after a lost connection, trying again after a passing error, reporting
and going on after any other. The work itself, `cycle`, belongs to each kind of loop; it talks to the queue and never
runs a job's code.
"""

from __future__ import annotations

import logging
import threading
import time

from django_stampeded.exceptions import SchemaMismatch, ServerTooOld
from django_stampeded.process.link import Link, Trouble, trouble
from django_stampeded.process.outage import REPEAT_S, Outage, delay
from django_stampeded.process.wake import Wake

logger = logging.getLogger("django_stampeded.process")


class Loop(threading.Thread):
    """The thread of one role.

    Args:
        role: its name in logs, in the thread's name and at the server.
        alias: the alias in DATABASES of its own connection.
        outage: the process's shared voice about a database that is away.

    A subclass writes `cycle`: one round, which ends soon after `stopping` turns true.
    """

    def __init__(self, role: str, alias: str, outage: Outage) -> None:
        super().__init__(name=f"stampeded-{role}", daemon=True)
        self.role = role
        self.link = Link(alias, role)
        self.outage = outage
        self.wake = Wake()
        self.stopping = False
        self.refusal: Exception | None = None
        self.failures = 0
        self._unreported = 0
        self._reported: float | None = None

    def cycle(self) -> None:
        """One round of the work."""
        raise NotImplementedError

    def closing(self) -> None:
        """What is left to do once, at the end. An error is reported and ends it."""

    def broken(self) -> None:
        """The connection was lost in the middle of a round: forget what hung on it."""

    def refuse(self, exc: Exception) -> None:
        """The database will not do until somebody acts: keeps the reason and ends the loop."""
        self.refusal = exc
        self.stopping = True

    def stop(self) -> None:
        """Ask the loop to end. Returns at once; callable from any thread."""
        self.stopping = True
        self.wake.ring()

    def run(self) -> None:
        """Repeat `cycle` until stopped, whatever happens in it."""
        while not self.stopping:
            try:
                self.cycle()
                self.failures = 0
                if self.link.is_open:  # a round that asked for nothing heard no answer either
                    self.outage.over(self.role)
            except (SchemaMismatch, ServerTooOld) as exc:
                self.refuse(exc)
            except Exception as exc:
                self._survive(exc)
            except BaseException as exc:  # even SystemExit must not end a loop without a word
                self._survive(exc)
        try:
            self.closing()
        except Exception as exc:
            logger.warning("The %s could not leave in order: %s", self.role, exc)
        finally:
            self.link.drop()

    def _survive(self, exc: BaseException) -> None:
        self.failures += 1
        kind = trouble(exc)
        if kind is Trouble.AGAIN:
            logger.debug("The %s met a passing error and tries again: %s", self.role, exc)
            self.wake.wait(min(delay(self.failures - 1), 1.0))
            return
        self.link.drop()
        self.broken()
        if self.stopping:
            return
        wait = delay(self.failures - 1)
        if kind is Trouble.LOST:
            self.outage.failed(self.role, exc, wait)
        else:
            self._report(exc, wait)
        self.pause(wait)

    def _report(self, exc: BaseException, wait: float) -> None:
        """An error nobody foresaw: in full the first time, then a count once a minute."""
        now = time.monotonic()
        if self._reported is not None and now - self._reported < REPEAT_S:
            self._unreported += 1
            return
        logger.error(
            "The %s met an error it did not expect and goes on in %.1f s (%d more since the last report).",
            self.role,
            wait,
            self._unreported,
            exc_info=exc,
        )
        self._reported, self._unreported = now, 0

    def pause(self, seconds: float) -> None:
        """Sleep for the whole of `seconds` unless stopped: rings that mean work must not undo a back-off."""
        until = time.monotonic() + seconds
        while not self.stopping and (left := until - time.monotonic()) > 0:
            self.wake.wait(left)
