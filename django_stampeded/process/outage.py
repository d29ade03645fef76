"""One voice about a database that is away: the first failure in full, then a count now and then, the return once.

All loops of a process share one Outage, so that five threads that miss the same database are not five times as loud.
What a loop does about it (dropping its connection, waiting) is loop.py's.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable

FIRST_DELAY = 0.1
LONGEST_DELAY = 5.0
REPEAT_S = 60.0

logger = logging.getLogger("django_stampeded.process")


def delay(failures: int, uniform: Callable[[float, float], float] = random.uniform) -> float:
    """Seconds to wait before the next try after so many failures in a row: doubling, capped, half of it at random.

    The jitter keeps a fleet of workers from calling on a server all at once when it returns.
    """
    longest = min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(failures, 32))
    return uniform(longest / 2, longest)


class Outage:
    """What the loops of one process know about a database that does not answer. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._since: float | None = None
        self._said = 0.0
        self._count = 0

    @property
    def ongoing(self) -> bool:
        """Whether the database is away as far as this process knows."""
        return self._since is not None

    def failed(self, role: str, exc: BaseException, wait: float) -> None:
        """A loop could not reach the database and tries again in `wait` seconds."""
        with self._lock:
            now = self._clock()
            if self._since is None:
                self._since = self._said = now
                self._count = 1
                logger.warning(
                    "The database does not answer the %s (%s). Trying again in %.1f s, and so on until it does.",
                    role,
                    _line(exc),
                    wait,
                )
                return
            self._count += 1
            if now - self._said >= REPEAT_S:
                self._said = now
                logger.warning(
                    "The database is still away after %.0f s and %d tries (%s). Trying on.",
                    now - self._since,
                    self._count,
                    _line(exc),
                )

    def over(self, role: str) -> None:
        """A loop reached the database again."""
        with self._lock:
            if self._since is None:
                return
            logger.info("The database answers the %s again after %.1f s.", role, self._clock() - self._since)
            self._since = None


def _line(exc: BaseException) -> str:
    return " ".join(str(exc).split())[:300] or type(exc).__name__
