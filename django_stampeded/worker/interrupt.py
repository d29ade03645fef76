"""Interrupting a job in its thread, at its next bytecode, and never anything but that job.

Python lets one thread raise an exception in another, but not say where. A guard, one for each job thread, opens
only while a job's body runs: an interrupt is sent under its lock, and one that did not arrive before the body
returned is taken back. A body that is inside a call into C is interrupted when that returns, and cleaning up in the
job may be skipped by some versions of Python in tight loops: a last resort, as the documentation says.
"""

from __future__ import annotations

import ctypes
import threading
from time import monotonic

from django_stampeded.process.wake import Wake
from django_stampeded.worker.lease import Desk, Lease
from django_stampeded.worker.outcomes import JobTimeout

_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc


class Guard:
    """Lets one interrupt through to the job that runs in a thread, and none to what runs after it."""

    __slots__ = ("deadline", "_keeper", "_lock", "_thread", "_lease", "_sent")

    def __init__(self, keeper: Timekeeper | None = None) -> None:
        self.deadline: float | None = None
        self._keeper = keeper
        self._lock = threading.Lock()
        self._thread = 0
        self._lease: Lease | None = None
        self._sent = False

    @property
    def lease(self) -> Lease | None:
        """The lease whose job runs now."""
        return self._lease

    def open(self, lease: Lease, timeout: float | None) -> None:
        """This thread begins to run the job of `lease`, for `timeout` seconds at most."""
        with self._lock:
            self._thread = threading.get_ident()
            self._lease = lease
            self._sent = False
        if timeout is not None and self._keeper is not None:
            self.deadline = monotonic() + timeout
            self._keeper.expect(self.deadline)

    def close(self) -> None:
        """The job's body is over: nothing may be raised in this thread any more."""
        self.deadline = None
        with self._lock:
            self._lease = None
            sent = self._sent
        if sent:
            _raise_in(ctypes.c_ulong(self._thread), None)

    def interrupt(self, lease: Lease, exception: type[BaseException]) -> bool:
        """Raise `exception` in the job of `lease`, from another thread. False when it doesn't run here, or was told."""
        with self._lock:
            if self._lease is not lease or self._sent:
                return False
            self._sent = True
            _raise_in(ctypes.c_ulong(self._thread), ctypes.py_object(exception))
            return True


class Timekeeper(threading.Thread):
    """Ends jobs that run longer than their task's timeout. Started by the first job that has one.

    Its waits are by the monotonic clock. It talks to no database, so it is on time while that is away.
    """

    def __init__(self, desk: Desk) -> None:
        super().__init__(name="stampeded-timekeeper", daemon=True)
        self.desk = desk
        self.bell = Wake()
        self.stopping = False
        self.stuck = 0
        self._next = float("inf")
        self._starting = threading.Lock()

    def expect(self, deadline: float) -> None:
        """A job that is running must be over by then (monotonic seconds)."""
        if deadline < self._next:
            self._next = deadline
            with self._starting:
                if not self.is_alive() and not self.stopping:
                    self.start()
            self.bell.ring()

    def run(self) -> None:
        """Sleep until the earliest deadline, interrupt what is past its own, and so on."""
        while not self.stopping:
            self.bell.wait(self._next - monotonic())
            self.run_once(monotonic())

    def run_once(self, now: float) -> int:
        """Interrupt the jobs whose deadline is past at `now`. How many."""
        self._next = float("inf")
        told = 0
        for thread in self.desk.crew:
            guard = thread.guard
            lease, deadline = guard.lease, guard.deadline
            if lease is None or deadline is None:
                continue
            if deadline <= now:
                told += guard.interrupt(lease, JobTimeout)
            elif deadline < self._next:
                self._next = deadline
        return told

    def stop(self) -> None:
        """End the thread."""
        self.stopping = True
        self.bell.ring()
