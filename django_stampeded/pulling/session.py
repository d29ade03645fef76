"""A Puller's registered run: its desk, the threads that speak to the queue for it, and its end.

Owns what must happen when nobody calls close() any more, for the garbage collector, the interpreter's end and a fork ask
nobody. Nothing here refers to the Puller, so that one that is forgotten can be collected while the threads run.
"""

from __future__ import annotations

import atexit
import os
import threading
from time import monotonic
from weakref import WeakSet

from django_stampeded.exceptions import PullerClosed
from django_stampeded.process.outage import Outage
from django_stampeded.process.wake import Wake
from django_stampeded.pulling.desk import PullDesk
from django_stampeded.states import FailureKind
from django_stampeded.worker import messages
from django_stampeded.worker.clerks import LEAVE_S, Clerks
from django_stampeded.worker.identity import Identity
from django_stampeded.worker.lease import Lease
from django_stampeded.worker.options import WorkerOptions
from django_stampeded.worker.outcomes import Failed

LOOK_S = 0.02


class Session:
    """From the registration of a Puller to its end. Starts at once; connecting and registering is its threads' business."""

    def __init__(self, options: WorkerOptions) -> None:
        self.alias = options.alias
        self.desk = PullDesk(options.threads)
        self._pid = os.getpid()
        self._ending = threading.Lock()
        self._idle = Wake()
        identity = Identity(known=self._obey)
        self.clerks = Clerks(options, Outage(), self.desk, identity, {"puller": True}, lambda lease: None, self.desk.close)
        self.clerks.start()
        _open.add(self)

    @property
    def refusal(self) -> Exception | None:
        """Why the database won't do (SchemaMismatch, ServerTooOld), None as long as it does."""
        return self.clerks.heartbeat.refusal

    @property
    def is_here(self) -> bool:
        """Whether its threads run in this process. They do not survive a fork."""
        return self._pid == os.getpid()

    def check_process(self) -> None:
        """Raises PullerClosed in a process that was forked from the one that it belongs to."""
        if not self.is_here:
            raise PullerClosed(
                f"This Puller and its leases belong to process {self._pid}, from which this one was forked: "
                "make another Puller here."
            )

    def _obey(self) -> None:
        """The heartbeat knows something new of our row: an operator may have asked us to stop."""
        if self.clerks.heartbeat.stop_requested:
            self.desk.close()

    def drop(self, lease: Lease, why: str) -> bool:
        """The lease has no outcome and nobody to give it one: an interruption. Never waits, for the garbage collector calls.

        False when it has an outcome.
        """
        return self.is_here and self.desk.settle(lease, Failed(FailureKind.WORKER_EXITED, why))

    def close(self, grace: float) -> None:
        """End: no more claims, what no caller has seen is released, what callers have gets `grace` seconds and is then an
        interruption. Returns when that is on record, or the database did not answer. The second of two calls waits for the
        first."""
        if not self.is_here:
            return
        with self._ending:
            if self.desk.ended:
                return
            desk, clerks = self.desk, self.clerks
            desk.close()
            clerks.stop_claiming()
            messages.stopping(len(desk.running()), desk.release_waiting(), grace)
            clerks.claimer.join(LEAVE_S)
            self._wait_while_leases_are_out(grace)
            for lease in desk.running():
                lease.lost = self.drop(lease, "Its Puller was closed before the lease had an outcome.")
            self._record_the_rest()
            clerks.leave()
            desk.ended = True
            _open.discard(self)

    def _wait_while_leases_are_out(self, seconds: float) -> None:
        until = monotonic() + seconds
        while self.desk.running() and monotonic() < until:
            self._idle.wait(LOOK_S)

    def _record_the_rest(self) -> None:
        until = monotonic() + LEAVE_S
        while not self.clerks.acker.idle and monotonic() < until:
            self._idle.wait(LOOK_S)

    def abandon(self) -> None:
        """The Puller is forgotten: close in a thread of its own, for whoever collects garbage may be one of ours."""
        self.desk.close()
        if self.is_here:
            threading.Thread(target=self.close, args=(0.0,), name="stampeded-puller-end", daemon=True).start()


_open: WeakSet[Session] = WeakSet()


@atexit.register
def _close_all() -> None:
    """The interpreter ends: hand back what is held."""
    for session in list(_open):
        session.close(0.0)
