"""The threads of one worker, made for each other: those that speak to the queue, and those that run jobs.

Owns the latter's wiring. When they start and in which order they end is worker.py's.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from django_stampeded import registry
from django_stampeded.exceptions import LeaseLost
from django_stampeded.process.board import Board
from django_stampeded.process.outage import Outage
from django_stampeded.worker import messages
from django_stampeded.worker.clerks import Clerks
from django_stampeded.worker.execution import Recipes
from django_stampeded.worker.identity import Identity
from django_stampeded.worker.interrupt import Timekeeper
from django_stampeded.worker.isolation import Isolation
from django_stampeded.worker.job_thread import JobThread
from django_stampeded.worker.lease import Lease, WorkerDesk
from django_stampeded.worker.options import WorkerOptions
from django_stampeded.worker.outcomes import JobCancelled


class Crew(Clerks):
    """One worker's desk and threads, and its identity. `ended` is called when it ends by itself, drained or refused,
    `known` when it is registered or has lost a thread to a job; on `board` its supervisor sees which jobs have started."""

    def __init__(
        self,
        options: WorkerOptions,
        outage: Outage,
        ended: Callable[[], None],
        known: Callable[[], object] = lambda: None,
        board: Board | None = None,
    ) -> None:
        self.desk = WorkerDesk(options.threads, board, options.max_jobs)
        about = {"tasks": sorted(registry.names())}
        super().__init__(options, outage, self.desk, Identity(board, known), about, self._tell, ended)
        self.timekeeper = Timekeeper(self.desk, known)
        self.isolation = Isolation(options.alias)
        recipes = Recipes(options.alias, self.isolation)
        self.desk.crew = [JobThread(n, self.desk, recipes, self.timekeeper, self.guards) for n in range(1, options.threads + 1)]

    def start(self) -> None:
        """Start them all. The timekeeper starts with the first job that has a timeout."""
        for task in registry.every():
            if task.time_limit is not None and task.time_limit >= task.expire_seconds:
                messages.unsafe_timeout(task.time_limit, task.expire_seconds, task.name)
        for thread in self.desk.crew:
            thread.start()
        super().start()

    def running(self) -> list[Lease]:
        """The leases whose jobs run now."""
        return self.desk.running()

    def end_threads(self, seconds: float) -> int:
        """Let idle job threads end, waiting for them up to `seconds`. How many still run a job."""
        until = monotonic() + seconds
        self.timekeeper.stop()
        for thread in self.desk.crew:
            thread.stop()
        for thread in self.desk.crew:
            if thread.lease is None:
                thread.join(max(0.0, until - monotonic()))
        self.isolation.close()
        return sum(thread.is_alive() for thread in self.desk.crew)

    def _tell(self, lease: Lease) -> None:
        for thread in self.desk.crew:
            if thread.guard.tell(lease, JobCancelled if lease.cancelled else LeaseLost):
                return
