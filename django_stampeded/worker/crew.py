"""The threads of one worker, made for each other: who tells whom what.

Owns the wiring. When they start and in which order they end is worker.py's.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from django_stampeded import registry
from django_stampeded.exceptions import LeaseLost
from django_stampeded.process.board import Board
from django_stampeded.process.loop import Loop
from django_stampeded.process.outage import Outage
from django_stampeded.worker import messages
from django_stampeded.worker.acker import Acker
from django_stampeded.worker.claimer import Claimer
from django_stampeded.worker.execution import Recipes
from django_stampeded.worker.heartbeat import Heartbeat
from django_stampeded.worker.identity import Identity
from django_stampeded.worker.interrupt import Timekeeper
from django_stampeded.worker.isolation import Isolation
from django_stampeded.worker.job_thread import JobThread
from django_stampeded.worker.lease import Desk, Lease
from django_stampeded.worker.listener import Listener
from django_stampeded.worker.options import WorkerOptions
from django_stampeded.worker.outcomes import JobCancelled


class Crew:
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
        self.options = options
        self.desk = Desk(options.threads, board, options.max_jobs)
        self.identity = Identity(board, known)
        self.timekeeper = Timekeeper(self.desk, known)
        self.heartbeat = Heartbeat(options, outage, self.desk, self.identity, self._tell, ended)
        self.claimer = Claimer(options, outage, self.desk, self.identity, self.heartbeat.hurry, ended)
        self.acker = Acker(options.alias, outage, self.desk, self.claimer.look_soon)
        self.listener = Listener(options, outage, self.claimer.heard, self._say)
        self.isolation = Isolation(options.alias)
        recipes = Recipes(options.alias, self.isolation)
        self.desk.crew = [JobThread(n, self.desk, recipes, self.timekeeper) for n in range(1, options.threads + 1)]

    @property
    def loops(self) -> list[Loop]:
        """The threads that speak to the queue."""
        return [self.heartbeat, self.claimer, self.acker, self.listener]

    def start(self) -> None:
        """Start them all. The timekeeper starts with the first job that has a timeout."""
        for task in registry.every():
            if task.time_limit is not None and task.time_limit >= task.expire_seconds:
                messages.unsafe_timeout(task.time_limit, task.expire_seconds, task.name)
        listens = self.options.listen and not self.options.drain
        if not listens:
            self._say("off")
        for thread in self.desk.crew:
            thread.start()
        for loop in self.loops:
            if listens or loop is not self.listener:
                loop.start()

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

    def _say(self, status: str) -> None:
        self.claimer.listening = status == "listening"
        self.heartbeat.say(status)

    def _tell(self, lease: Lease) -> None:
        for thread in self.desk.crew:
            if thread.guard.tell(lease, JobCancelled if lease.cancelled else LeaseLost):
                return
