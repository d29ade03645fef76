"""One process: its roles, the signals that end it and the status it exits with.

Owns which roles run together and how a stop request reaches them. What each role does, and how it ends, is its own; how
several such processes are watched over is supervisor/'s.

Exit statuses: 0 after an orderly end, also when jobs had to be released because the grace period was over, and when
everything is drained; 128 + the signal's number after a second signal; line.RECYCLED when a child wants to be replaced,
line.STOPPED when an operator asked it to stop.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FrameType

from django_stampeded.conf import settings
from django_stampeded.maintenance.batcher import Batcher
from django_stampeded.maintenance.counter import Counter
from django_stampeded.maintenance.declarer import Declarer
from django_stampeded.maintenance.expirer import Expirer
from django_stampeded.maintenance.planner import Planner
from django_stampeded.maintenance.pruner import OccurrencePruner, Pruner, ResultPruner
from django_stampeded.maintenance.reaper import Reaper
from django_stampeded.maintenance.sampler import Sampler
from django_stampeded.maintenance.scheduler import Scheduler
from django_stampeded.maintenance.service import Maintenance, Service
from django_stampeded.process.line import AT_ONCE, LEAVING, READY, RECYCLED, REFUSED, RELIEVED, STOPPED, Child
from django_stampeded.process.outage import Outage
from django_stampeded.process.retirement import Retirement
from django_stampeded.process.wake import Wake
from django_stampeded.worker import django_connections
from django_stampeded.worker.options import WorkerOptions
from django_stampeded.worker.worker import Worker

logger = logging.getLogger("django_stampeded.process")

WAIT_S = 3600.0
LOOK_S = 0.5
LEAVE_S = 1.0
TERMINATING = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """What the outside wants: nothing yet, an orderly end (one signal), or an end at once (two).

    Installed before anything else, so that a request at any moment from then on is honoured, also as process 1 of a
    container, where the kernel drops a signal that nobody handles. The handlers only count and ring, for they run
    between two bytecodes of the main thread, whatever locks that one holds.
    """

    def __init__(self) -> None:
        self.bell = Wake()
        self.count = 0
        self.signal = 0
        self.relieved = False
        self._most = 2

    def install(self) -> StopRequest:
        """Handle SIGTERM and SIGINT from now on. To be called in the main thread."""
        for number in TERMINATING:
            signal.signal(number, self._note)
        os.register_at_fork(before=_hold_signals, after_in_parent=_let_signals, after_in_child=_as_before)
        return self

    def obey(self, child: Child) -> None:
        """Take orders from the parent of this process from now on; it alone may say that the end is to be at once.

        A signal is then an orderly end however often it comes, for a terminal or a service manager sends it to every
        process there is, and the parent passes it on as well.
        """
        self._most = 1
        child.line.listen(self._hear)

    def _hear(self, word: bytes) -> None:
        if word == RELIEVED:
            self.relieved = True
        else:
            self.count = max(self.count, 2 if word == AT_ONCE else 1)
        self.bell.ring()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count = max(self.count, min(self.count + 1, self._most))
        self.signal = number
        self.bell.ring()

    @property
    def status(self) -> int:
        """The exit status that the signals so far ask for."""
        return 128 + self.signal if self.count > 1 else 0


_held = threading.local()


def _hold_signals() -> None:
    """A signal between the fork and `_as_before` would meet our handler in the child, and Python forgets it there."""
    _held.mask = signal.pthread_sigmask(signal.SIG_BLOCK, TERMINATING)


def _let_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _held.mask)


def _as_before() -> None:
    """A child that a job forks is no worker: it must end when it is told to, as `multiprocessing` expects."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _let_signals()


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Which roles one process has.

    Args:
        worker: how its worker is to work, None for no worker.
        maintenance: whether it fires schedules, reaps, expires, plans, prunes and folds.
        alias: the alias in DATABASES that maintenance works on.
        max_jobs: the process ends after so many jobs, None for never.
        max_rss: the process ends once it occupies so many MiB of memory, None for never.
    """

    worker: WorkerOptions | None = field(default_factory=WorkerOptions)
    maintenance: bool = True
    alias: str = field(default_factory=lambda: settings.DATABASE)
    max_jobs: int | None = None
    max_rss: int | None = None


def services() -> Sequence[Service]:
    """The maintenance services, as the settings want them."""
    return [
        Declarer(),
        Scheduler(),
        Reaper(settings.DEAD_AFTER),
        Expirer(),
        Batcher(),
        Planner(),
        Pruner(settings.COMPLETED_RETENTION, settings.DISCARDED_RETENTION),
        OccurrencePruner(),
        ResultPruner(),
        Counter(),
        Sampler(),
    ]


class Process:
    """The roles of this process while they run. `bell` is rung by whatever there is to look at; `child` is what ties the
    process to a parent, if it has one.

    Example: `Process(Roles(), stop.bell).run(stop)`
    """

    def __init__(self, roles: Roles, bell: Wake, child: Child | None = None) -> None:
        self.bell = bell
        self.child = child
        outage = Outage()
        board = None if child is None else child.board
        self.worker = Worker(roles.worker, bell, outage, board) if roles.worker is not None else None
        self.retirement = Retirement(roles.max_jobs, roles.max_rss, has_successor=child is not None)
        self._told_ready = False
        self._stopped = False
        self.maintenance: Maintenance | None = None
        if roles.maintenance:
            settle_s = 2 * settings.HEARTBEAT_INTERVAL
            self.maintenance = Maintenance(roles.alias, services(), outage, settle_s, ended=bell.ring)

    def run(self, stop: StopRequest) -> int:
        """Run the roles until a signal, or until they end by themselves; returns the exit status.

        Raises SchemaMismatch or ServerTooOld when the database is not one to work with.
        """
        if self.maintenance is not None:
            self.maintenance.start()
        if self.worker is not None:
            self.worker.start()
        else:
            logger.info("This process has the maintenance alone and runs no jobs.")
        retired = self._work(stop)
        refusal = self.refusal
        if refusal is not None:
            self._say(REFUSED)
        self._end(stop)
        if self.child is not None:
            self.child.board.end_orderly()
        if refusal is not None:
            raise refusal
        if self.child is not None and not stop.count:
            return RECYCLED if retired else STOPPED if self._stopped else 0
        return stop.status

    def _work(self, stop: StopRequest) -> bool:
        """Wait until the process is to end. Whether that is because it was replaced, or must be."""
        retirement = self.retirement
        while not stop.count and not self.over:
            self.bell.wait(LOOK_S if retirement.watches else WAIT_S)
            worker = self.worker
            if worker is None:
                if stop.relieved:
                    return False
                continue
            if worker.stop_requested:
                self._stop_worker(worker, stop)
                continue
            if worker.is_registered and not self._told_ready:
                self._told_ready = True
                self._say(READY)
            if retirement.wants(worker.started, worker.stuck):
                logger.info("This process is to be replaced: %s.", retirement.reason)
                self._say(LEAVING)
            if stop.relieved or retirement.is_due(worker.started):
                self._retire(worker, stop)
                return not stop.count
        return False

    def _retire(self, worker: Worker, stop: StopRequest) -> None:
        """Let what runs here end in its own time, unless somebody gets impatient."""
        worker.retire()
        while not stop.count and not worker.is_idle:
            self.bell.wait(LOOK_S)

    def _stop_worker(self, worker: Worker, stop: StopRequest) -> None:
        """End the worker as a signal would; the process goes on where it has the maintenance."""
        goes_on = "; the maintenance goes on" if self.maintenance is not None else ""
        logger.info("This worker was asked to stop by an operator: it ends its jobs and claims no more%s.", goes_on)
        worker.stop()
        worker.join(lambda: stop.count > 1)
        self._stopped = True
        if self.maintenance is not None:
            self.worker = None

    def _say(self, word: bytes) -> None:
        if self.child is not None:
            self.child.line.say(word)

    @property
    def refusal(self) -> Exception | None:
        """Why the database won't do, None as long as it does."""
        for role in (self.worker, self.maintenance):
            if role is not None and role.refusal is not None:
                return role.refusal
        return None

    @property
    def over(self) -> bool:
        """Whether the process has ended by itself."""
        return self.refusal is not None or (self.worker is not None and self.worker.over)

    def _end(self, stop: StopRequest) -> None:
        if self.maintenance is not None:
            self.maintenance.stop()
        if self.worker is not None:
            self.worker.stop()
            self.worker.join(lambda: stop.count > 1)
        if self.maintenance is not None:
            self.maintenance.join(LEAVE_S)


def run(roles: Roles, stop: StopRequest, child: Child | None = None) -> int:
    """Run the roles of this process until it is to end; returns its exit status.

    Raises SchemaMismatch or ServerTooOld when the database is not one to work with.

    Example: `run(Roles(maintenance=False), StopRequest().install())`
    """
    if stop.count:
        return stop.status
    django_connections.keep_open()
    return Process(roles, stop.bell, child).run(stop)
