"""The thread that runs the maintenance services of a process, each at its own interval, on a connection of its own.

Owns the timing. The next run of a service starts one interval after the last one started, or right after it ended
where it took longer than that: a slow server makes maintenance slower, never rare. Lateness is logged, and a stop is
obeyed between two batches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Protocol

from django_stampeded.process.loop import Loop
from django_stampeded.process.outage import REPEAT_S, Outage
from django_stampeded.schema import check_schema

logger = logging.getLogger("django_stampeded.maintenance")

LATE_BY_S = 5.0
"""A run that starts later than this is worth a line in the log."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one run did: how many rows it dealt with, and whether there are more for another batch."""

    done: int = 0
    more: bool = False


class Service(Protocol):
    """One kind of upkeep."""

    name: str
    interval: float
    """Seconds from one start to the next."""

    def run_once(self, cur: Any) -> Report:
        """Do one batch by `cur`, a cursor in autocommit. Raises the driver's errors."""
        ...


@dataclass(slots=True)
class Turn:
    """When a service runs next, in monotonic seconds."""

    service: Service
    due: float
    since: float = field(default=0.0)


def next_due(started: float, ended: float, interval: float) -> float:
    """When the next run starts. Pure.

    Example: `next_due(0, 1, 10) == 10; next_due(0, 15, 10) == 15`
    """
    return max(started + interval, ended)


class Maintenance(Loop):
    """Runs services in turn until stopped.

    Args:
        alias: the alias in DATABASES.
        services: what to run.
        outage: the process's voice about an absent database.
        settle_s: after a lost connection, how long to wait: others may have been cut off too, and must beat again
            before anybody calls them dead.
        ended: called when it ends because the database won't do.
    """

    def __init__(
        self,
        alias: str,
        services: Sequence[Service],
        outage: Outage,
        settle_s: float = 0.0,
        ended: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__("maintenance", alias, outage)
        self.settle_s = settle_s
        self.ended = ended
        self._checked = False
        self._clock = clock
        now = clock()
        self.turns = [Turn(service, now) for service in services]
        self._warned: dict[str, float] = {}

    def cycle(self) -> None:
        """Sleep until a service is due, then run it."""
        if not self._checked:
            check_schema(self.link.cursor())
            self._checked = True
        turn = min(self.turns, key=lambda each: each.due)
        self.wake.wait(turn.due - self._clock())
        if not self.stopping and self._clock() >= turn.due:
            self.run_turn(turn)

    def run_once(self) -> dict[str, Report]:
        """One batch of every service, whether due or not: what tests and tools call."""
        return {turn.service.name: turn.service.run_once(self.link.cursor()) for turn in self.turns}

    def run_turn(self, turn: Turn) -> Report:
        """Run one batch of a service and say when it runs next: soon when there is more, or else by its interval."""
        started = self._clock()
        self._report_lateness(turn, started)
        try:
            report = turn.service.run_once(self.link.cursor())
        except BaseException:
            turn.due = started + turn.service.interval  # the others get their turn before this one fails again
            raise
        ended = self._clock()
        turn.due = ended if report.more else next_due(started, ended, turn.service.interval)
        if report.done:
            logger.debug("The %s dealt with %d rows in %.2f s.", turn.service.name, report.done, ended - started)
        return report

    def _report_lateness(self, turn: Turn, now: float) -> None:
        late = now - turn.due
        if late < max(LATE_BY_S, turn.service.interval):
            return
        if now - self._warned.get(turn.service.name, float("-inf")) >= REPEAT_S:
            self._warned[turn.service.name] = now
            logger.warning(
                "The %s runs %.0f s late, as maintenance takes long on this server. It runs as soon as it can; "
                "look for what slows the database down.",
                turn.service.name,
                late,
            )

    def refuse(self, exc: Exception) -> None:
        """The schema or the server is the wrong one: nothing that we could do about it."""
        super().refuse(exc)
        self.ended()

    def broken(self) -> None:
        """After an outage nothing runs for a while, so that every worker can beat before one is called dead."""
        later = self._clock() + self.settle_s
        for turn in self.turns:
            turn.due = max(turn.due, later)
