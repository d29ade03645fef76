"""The threads that run jobs: each takes the next lease off the desk, runs it and leaves its outcome there.

They talk to no queue and wait for no database of ours, so that a job's end is never held up by recording the last one.
"""

from __future__ import annotations

import logging
import threading
from time import monotonic

from django_stampeded.process.wake import Wake
from django_stampeded.worker import django_connections, messages
from django_stampeded.worker.execution import Recipes, perform
from django_stampeded.worker.interrupt import Guard, Timekeeper
from django_stampeded.worker.lease import Desk, Lease
from django_stampeded.worker.outcomes import RELEASED

logger = logging.getLogger("django_stampeded.worker")


class JobThread(threading.Thread):
    """One of the threads of a desk."""

    def __init__(self, number: int, desk: Desk, recipes: Recipes, keeper: Timekeeper) -> None:
        super().__init__(name=f"stampeded-job-{number}", daemon=True)
        self.desk = desk
        self.recipes = recipes
        self.guard = Guard(keeper)
        self.bell = Wake()
        self.lease: Lease | None = None
        self.is_parked = False
        self.stopping = False

    def run(self) -> None:
        """Take leases and run them until stopped; sleep while there are none."""
        waiting = self.desk.waiting
        try:
            while not self.stopping:
                try:
                    lease = waiting.popleft()
                except IndexError:
                    self._rest()
                else:
                    if waiting and self.desk.parked:
                        self.desk.wake_one()
                    self.run_one(lease)
        finally:
            django_connections.close_all()

    def run_one(self, lease: Lease) -> None:
        """Run the job of one lease and leave its outcome on the desk. Nothing that happens in it ends the thread."""
        desk = self.desk
        if desk.closed or not desk.start(lease):
            desk.settle(lease, RELEASED)
            return
        self.lease = lease
        begin = monotonic()
        try:
            if django_connections.in_use():
                django_connections.before_job()
            outcome = perform(lease, self.recipes, self.guard)
            if not desk.settle(lease, outcome):
                desk.late += 1
                messages.late(lease, desk.late)
        except BaseException:
            logger.exception("The thread of job %s met an error of ours; the job is released.", lease.job.id)
            desk.settle(lease, RELEASED)
        finally:
            self.lease = None
            self._tidy()
        desk.pace.observe(monotonic() - begin)
        if desk.hungry and len(desk.waiting) <= desk.low:
            desk.for_claimer.ring()

    def _tidy(self) -> None:
        if django_connections.in_use():
            try:
                django_connections.after_job()
            except Exception:
                logger.warning("A database connection of a job could not be tidied up and is closed.", exc_info=True)
                django_connections.close_all()

    def _rest(self) -> None:
        """Sleep until the desk has something. Parked first and looked once more, so that nothing is missed."""
        desk = self.desk
        if not self.is_parked:
            self.is_parked = True
            desk.parked.append(self)
        if desk.waiting or self.stopping:
            desk.unpark(self)
            return
        if django_connections.in_use():
            if self.bell.wait(django_connections.IDLE_CLOSE_S):
                return
            django_connections.close_idle()
        self.bell.wait(3600.0)

    def stop(self) -> None:
        """End the thread once its job is over."""
        self.stopping = True
        self.bell.ring()
