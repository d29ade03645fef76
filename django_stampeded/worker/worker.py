"""One worker: its threads, and the order in which they begin and end.

heartbeat    registers the worker, keeps it and its leases alive    a connection of its own
listener     hears of new jobs                                      a connection of its own
claimer      claims jobs and puts them on the desk                  a connection of its own
job threads  take them from the desk and run them                   Django's connections, if the job uses any
acker        records how they ended                                 a connection of its own
timekeeper   interrupts jobs that exceed their timeout              none

Threads that speak to the queue never run a user's code, and those that run it never speak to the queue: so a job can
delay other jobs but never a heartbeat, and the database can delay a claim but never a job.

The end goes the way a job goes. No more claims; what no thread has started is released at once; what runs gets the
grace period and is then released too, though its thread can't be stopped and its late result is refused; the acker
records what is left; and only then does the heartbeat take the worker off the list, for until then it vouches for what
is held.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from django_stampeded.process.board import Board
from django_stampeded.process.outage import Outage
from django_stampeded.process.wake import Wake
from django_stampeded.worker import messages
from django_stampeded.worker.clerks import LEAVE_S
from django_stampeded.worker.context import name_jobs_in_logs
from django_stampeded.worker.crew import Crew
from django_stampeded.worker.options import WorkerOptions
from django_stampeded.worker.outcomes import RELEASED

LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class EndReport:
    """How a worker ended: jobs released that no thread had started, jobs released while they ran, outcomes lost."""

    released: int = 0
    handed_back: int = 0
    unrecorded: int = 0


class Worker:
    """Runs jobs in threads of this process until it is stopped.

    Args:
        options: the queues, the number of threads and so on; the settings where None.
        bell: rung when the worker ends by itself, drained or refused by the database, so that whoever waits for that
            and for signals has one thing to wait for.
        outage: the process's voice about an absent database, shared with other roles.
        board: where the supervisor sees which jobs have started, where there is one.

    Example: `worker = Worker(); worker.start(); ...; worker.stop(); worker.join()`
    """

    def __init__(
        self,
        options: WorkerOptions | None = None,
        bell: Wake | None = None,
        outage: Outage | None = None,
        board: Board | None = None,
    ) -> None:
        self.options = options or WorkerOptions()
        self.bell = bell or Wake()
        self.outage = outage or Outage()
        self.board = board
        self.crew: Crew | None = None
        self.over = False
        """Whether it has nothing more to do: it was stopped, is drained, or the database refused it."""
        self._asked = False
        self._hurried = False
        self._at_once: Callable[[], bool] = lambda: False
        self._pid = 0

    def start(self) -> None:
        """Start the threads and return: connecting and registering is theirs, and they try for as long as it takes.

        The copy of a running worker in a forked child may be started too and is then another worker.
        """
        if self.is_running:
            raise RuntimeError("The worker runs already: stop and join it before starting it again.")
        name_jobs_in_logs()
        self.over = self._asked = self._hurried = False
        self._pid = os.getpid()
        self.crew = Crew(self.options, self.outage, self._end, self.bell.ring, self.board)
        self.crew.start()

    @property
    def is_running(self) -> bool:
        """Whether its threads run in this process. They do not survive a fork."""
        return self.crew is not None and self._pid == os.getpid()

    @property
    def is_registered(self) -> bool:
        """Whether the database knows it, so that it claims."""
        return self.crew is not None and self.crew.identity.worker_id is not None

    @property
    def stuck(self) -> int:
        """How many of its threads are lost to jobs that were given up and can't be ended."""
        return 0 if self.crew is None else self.crew.timekeeper.stuck

    @property
    def started(self) -> int:
        """How many jobs it has started."""
        return 0 if self.crew is None else self.crew.desk.started

    @property
    def refusal(self) -> Exception | None:
        """Why the database won't do (SchemaMismatch, ServerTooOld), None as long as it does."""
        return None if self.crew is None else self.crew.heartbeat.refusal

    def _end(self) -> None:
        self.over = True
        self.bell.ring()

    def retire(self) -> None:
        """Claim no more, release what has not started, and let what runs take its time. Returns at once; `join` follows."""
        if self.crew is not None and not self.crew.desk.closed:
            self._stop_claiming(self.crew, float("inf"))

    @property
    def is_idle(self) -> bool:
        """Whether no job runs here."""
        return self.crew is None or not self.crew.running()

    def stop(self) -> None:
        """Ask the worker to end, a second time: to end at once. Returns immediately; safe in a signal handler."""
        self._hurried = self._asked
        self._asked = True
        self._end()

    def join(self, at_once: Callable[[], bool] = lambda: False) -> EndReport:
        """See the end through and return what became of the jobs held.

        Takes as long as what runs, at most the grace period and a few seconds; less after a second `stop`, or as soon
        as `at_once` says so.
        """
        if not self.is_running or self.crew is None:
            return EndReport()
        self._asked = self.over = True
        self._at_once = at_once
        crew = self.crew
        deadline = monotonic() + self.options.grace_period
        released = 0 if crew.desk.closed else self._stop_claiming(crew, deadline)
        self._wait_while(lambda: bool(crew.running()), deadline)
        handed_back = self._hand_back(crew)
        # Outcomes that can't be recorded cost a second run, so a database that is away may take the whole grace period.
        self._wait_while(lambda: not crew.acker.idle, max(deadline, monotonic() + LEAVE_S))
        unrecorded = crew.leave(lambda: crew.end_threads(LEAVE_S))
        self.crew = None
        return EndReport(released, handed_back, unrecorded)

    def _stop_claiming(self, crew: Crew, deadline: float) -> int:
        crew.desk.closed = True
        crew.stop_claiming()
        released = crew.desk.release_waiting()
        messages.stopping(len(crew.running()), released, max(0.0, deadline - monotonic()))
        self._wait_while(crew.claimer.is_alive, monotonic() + LEAVE_S)
        return released

    def _hand_back(self, crew: Crew) -> int:
        left = [lease for lease in crew.running() if crew.desk.settle(lease, RELEASED)]
        messages.handed_back(left)
        return len(left)

    def _wait_while(self, condition: Callable[[], bool], until: float) -> None:
        while condition() and not self._hurried and not self._at_once() and monotonic() < until:
            self.bell.wait(LOOK_S)
