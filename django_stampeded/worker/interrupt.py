"""Ending a job in its thread, at its next bytecode, and never anything but that job.

Python lets one thread raise an exception in another, but not say where. A guard, one for each job thread, opens
only while a job's body runs: an interrupt is sent under its lock, and one that did not arrive before the body
returned is taken back. A body that is inside a call into C is interrupted when that returns, and cleaning up in the
job may be skipped by some versions of Python in tight loops: a last resort, as the documentation says.

So it goes by steps. A job that was cancelled or lost its lease is told first (its context says so) and interrupted a
little later; one whose time is up is interrupted at once. One that does not end then is given up: its failure goes on
record with what its thread was doing, and the thread counts as stuck until it comes back. A job in a process of its own
is killed instead.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import traceback
from collections.abc import Callable
from time import monotonic

from django_stampeded.process.wake import Wake
from django_stampeded.states import FailureKind
from django_stampeded.worker import messages
from django_stampeded.worker.failure_text import LONGEST, clean
from django_stampeded.worker.lease import Lease, WorkerDesk
from django_stampeded.worker.outcomes import PLAIN_POLICY, Failed, JobTimeout
from django_stampeded.worker.retry_policy import RetryPolicy

TELL_S = 2.0
"""So long may a job take to obey what its context says before it is interrupted."""
GIVE_UP_S = 5.0
"""So long may an interrupted job take to end before it is given up."""
_FRAMES = 12

_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc


class Guard:
    """Lets one interrupt through to the job that runs in a thread, and none to what runs after it."""

    __slots__ = ("deadline", "reason", "sent", "given_up", "policy", "_keeper", "_lock", "_thread", "_lease", "_kill")

    def __init__(self, keeper: Timekeeper | None = None) -> None:
        self.deadline: float | None = None
        self.reason: type[BaseException] = JobTimeout
        self.sent = False
        self.given_up = False
        self.policy = PLAIN_POLICY
        self._keeper = keeper
        self._lock = threading.Lock()
        self._thread = 0
        self._lease: Lease | None = None
        self._kill: Callable[[], object] | None = None

    @property
    def lease(self) -> Lease | None:
        """The lease whose job runs now."""
        return self._lease

    def open(
        self, lease: Lease, timeout: float | None, policy: RetryPolicy = PLAIN_POLICY, kill: Callable[[], object] | None = None
    ) -> None:
        """This thread begins to run the job of `lease`, for `timeout` seconds at most; `kill` ends it if it runs elsewhere.

        `policy` says when it runs again if that took too long.
        """
        with self._lock:
            self._thread = threading.get_ident()
            self._lease = lease
            self._kill = kill
            self.policy = policy
            self.reason = JobTimeout
            self.sent = False
            self.deadline = None if timeout is None else monotonic() + timeout
        self._expect()

    def close(self) -> None:
        """The job's body is over: nothing may be raised in this thread any more."""
        with self._lock:
            self.deadline = None
            self.given_up = False
            self._lease = None
            sent = self.sent and self._kill is None
        if sent:
            _raise_in(ctypes.c_ulong(self._thread), None)

    def tell(self, lease: Lease, exception: type[BaseException]) -> bool:
        """The job of `lease` is nobody's any more: `exception` follows unless it ends by itself. False when it isn't here."""
        with self._lock:
            if self._lease is not lease or self.sent:
                return False
            soon = monotonic() + (TELL_S if self._kill is None else 0.0)
            if self.deadline is None or soon < self.deadline:
                self.deadline, self.reason = soon, exception
        self._expect()
        return True

    def interrupt(self, lease: Lease, exception: type[BaseException]) -> bool:
        """Raise `exception` in the job of `lease`, from another thread. False when it doesn't run here, or was told."""
        with self._lock:
            if self._lease is not lease or self.sent:
                return False
            self.sent = True
            self.reason = exception
            self.deadline = monotonic() + GIVE_UP_S
            if self._kill is not None:
                self._kill()
            else:
                _raise_in(ctypes.c_ulong(self._thread), ctypes.py_object(exception))
            return True

    def give_up(self, lease: Lease) -> str | None:
        """Wait no longer for the end of the job of `lease`: what its thread is doing. None when it doesn't run here."""
        with self._lock:
            if self._lease is not lease:
                return None
            self.given_up = True
            self.deadline = None
            frame = sys._current_frames().get(self._thread)
            return "".join(traceback.format_stack(frame)[-_FRAMES:]) if frame else ""

    def _expect(self) -> None:
        deadline = self.deadline
        if deadline is not None and self._keeper is not None:
            self._keeper.expect(deadline)


class Timekeeper(threading.Thread):
    """Ends jobs that run longer than they may. Started by the first job that has a deadline.

    Its waits are by the monotonic clock. It talks to no database, so it is on time while that is away. `gave_up` is
    called when a thread is lost to a job that does not end.
    """

    def __init__(self, desk: WorkerDesk, gave_up: Callable[[], object] = lambda: None) -> None:
        super().__init__(name="stampeded-timekeeper", daemon=True)
        self.desk = desk
        self.gave_up = gave_up
        self.bell = Wake()
        self.stopping = False
        self._next = float("inf")
        self._starting = threading.Lock()

    @property
    def stuck(self) -> int:
        """How many threads are lost to jobs that were given up and have not come back."""
        return sum(thread.guard.given_up for thread in self.desk.crew)

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
        """Interrupt the jobs whose deadline is past at `now`, and give up those that did not end then. How many."""
        self._next = float("inf")
        told = 0
        for thread in self.desk.crew:
            guard = thread.guard
            lease, deadline = guard.lease, guard.deadline
            if lease is None or deadline is None:
                continue
            if deadline <= now:
                told += self._give_up(guard, lease) if guard.sent else guard.interrupt(lease, guard.reason)
                deadline = guard.deadline
            if deadline is not None:
                self._next = min(self._next, deadline)
        return told

    def _give_up(self, guard: Guard, lease: Lease) -> bool:
        stack = guard.give_up(lease)
        if stack is None:
            return False
        timed_out = guard.reason is JobTimeout
        kind = FailureKind.TIMED_OUT if timed_out else FailureKind.CANCELLED
        delay_ms = guard.policy.drawn_ms(lease.job.attempt) if timed_out else None
        ran = monotonic() - (lease.started_at or lease.claimed_at)
        error = f"{guard.reason.__name__}: after {ran:.1f} s it could not be interrupted; its thread was in\n{clean(stack)}"
        self.desk.settle(lease, Failed(kind, error[:LONGEST], delay_ms))
        messages.given_up(lease, stack)
        self.gave_up()
        return True

    def stop(self) -> None:
        """End the thread."""
        self.stopping = True
        self.bell.ring()
