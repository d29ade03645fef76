"""A doorbell between threads: one thread waits, any number ring, rings that meet a ringing bell cost next to nothing.

Owns only that. A Condition would allocate a lock at each wait, and an Event has to be cleared by hand between two
waits, which is where wake-ups get lost.
"""

from __future__ import annotations

import threading


class Wake:
    """A binary semaphore for one waiting thread.

    A ring before the wait is not lost: the next wait returns at once. Several rings count as one.

    Example: `bell = Wake(); bell.ring(); assert bell.wait(1.0)`
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self) -> None:
        """Wake the waiting thread, or let its next wait return at once. Callable from any thread."""
        lock = self._lock
        if lock.locked():
            try:  # noqa: SIM105 - a hot path, where suppress() would cost more than all the rest
                lock.release()
            except RuntimeError:
                pass  # another thread rang in between: one ring is as good as two

    def wait(self, timeout: float) -> bool:
        """Wait until somebody rings, at most `timeout` seconds (monotonic). Whether somebody did."""
        return self._lock.acquire(timeout=min(max(timeout, 0.0), 3600.0))
