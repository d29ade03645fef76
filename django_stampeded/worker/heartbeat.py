"""The thread that keeps this worker alive in the eyes of the others: its registration, its beat, its jobs' leases.

It has a connection of its own and runs no user code, so that neither a busy pool nor a job that computes for a minute
can keep it from beating. It is also the one that learns of leases that were lost or cancelled, and passes that on, and
that writes what the jobs say of their progress, since it is awake anyway.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any
from uuid import UUID

import django

from django_stampeded import functions
from django_stampeded.process.link import Cursor, Trouble, trouble
from django_stampeded.process.loop import Loop
from django_stampeded.process.outage import Outage
from django_stampeded.schema import check_schema
from django_stampeded.states import RUNNING, State
from django_stampeded.worker import messages, progress
from django_stampeded.worker.identity import Identity
from django_stampeded.worker.lease import Desk, Lease
from django_stampeded.worker.options import WorkerOptions

LOOK_S = 1.0
"""A cancellation reaches a running job within so many seconds."""
BEATS_PER_LEASE = 4
"""How often a running job is touched within its expire_seconds, where that is short."""


@dataclass(frozen=True, slots=True)
class BeatReport:
    """One round: the id that beat, how many jobs were touched, and the leases found lost."""

    worker_id: UUID
    touched: int
    lost: Sequence[Lease] = ()


class Heartbeat(Loop):
    """Registers the worker, beats for it and touches its jobs.

    `about` is what else is on record about the worker; `tell` is called with each running lease that was cancelled
    elsewhere or is lost; `refused` when the database won't do.
    """

    def __init__(
        self,
        options: WorkerOptions,
        outage: Outage,
        desk: Desk,
        identity: Identity,
        about: Mapping[str, Any],
        tell: Callable[[Lease], object],
        refused: Callable[[], None],
    ) -> None:
        super().__init__("heartbeat", options.alias, outage)
        self.options = options
        self.desk = desk
        self.identity = identity
        self.about = about
        self.tell = tell
        self.refused = refused
        self.status = "starting"
        self.leave_row = False
        self.stop_requested = False
        self._due: float | None = None
        self._told_status: str | None = None
        self._checked = False

    def cycle(self) -> None:
        """Beat, then sleep until the next beat is due, or a lease that is shorter needs one."""
        self.identity.tick()
        if self._due is not None:
            while (left := self._due - monotonic()) > 0 and not self.stopping:
                if not self.wake.wait(min(left, LOOK_S)):
                    self.look()
                self.report(monotonic())
                self.identity.tick()
            if self.stopping:
                return
            late = monotonic() - self._due
            if late > self.options.heartbeat_interval:
                messages.late_beat(late, self.options.dead_after)
        self.run_once()
        self._due = monotonic() + self._interval()

    def run_once(self) -> BeatReport:
        """Register where needed, beat, and touch what runs for a while."""
        cur = self.link.cursor()
        if not self._checked:
            check_schema(cur)
            self._checked = True
        worker_id = self.identity.worker_id
        if worker_id is None:
            worker_id = self._register(cur)
            messages.registered(worker_id, self.options.selection, self.options.threads)
        elif (heard := functions.heartbeat(cur, worker_id)) is None:
            before, worker_id = worker_id, self._register(cur)
            messages.registered_anew(before, worker_id)
        elif heard.stop_requested and not self.stop_requested:
            self.stop_requested = True
            self.identity.known()
        if self.status != self._told_status:
            status = self.status
            functions.describe_worker(cur, worker_id, {"notifications": status})
            self._told_status = status
        return self._touch(cur, worker_id)

    def _register(self, cur: Cursor) -> UUID:
        options = self.options
        about = {
            "threads": options.threads,
            "poll_interval": options.poll_interval,
            "notifications": self.status,
            "except_queues": sorted(options.selection.excluded),
            "python": platform.python_version(),
            "django": django.get_version(),
            **self.about,
        }
        self._told_status = self.status
        worker_id = functions.register_worker(cur, self.identity.hostname, self.identity.pid, options.selection.label, about)
        self.identity.take(worker_id)
        return worker_id

    def _touch(self, cur: Cursor, worker_id: UUID) -> BeatReport:
        """Touch the leases that are not brand-new; mark those that are no longer ours."""
        before = monotonic() - self._interval() / 2
        due = [lease for lease in list(self.desk.held) if not lease.settled and lease.claimed_at < before]
        lost: list[Lease] = []
        for owner in {lease.worker_id for lease in due}:
            asked = [lease for lease in due if lease.worker_id == owner and not lease.lost]
            ours = functions.touch_many(cur, owner, [lease.ack for lease in asked])
            lost += [lease for lease in asked if lease.job.id not in ours and not lease.settled]
        if lost:
            self._tell_lost(lost, functions.states(cur, [lease.ack for lease in lost]))
        return BeatReport(worker_id, len(due), lost)

    def look(self) -> None:
        """Between two beats, see whether a job that has been running for a while was cancelled: a read of its row."""
        before = monotonic() - LOOK_S
        leases = [lease for lease in self.desk.running() if not lease.lost and (lease.started_at or before) < before]
        if not leases:
            return
        states = functions.states(self.link.cursor(), [lease.ack for lease in leases])
        self._tell_lost([lease for lease in leases if states.get(lease.job.id) not in RUNNING], states)

    def report(self, now: float, last: bool = False) -> int:
        """Write what jobs have said of their progress, where it is time to. Returns of how many; a beat is worth more, so
        nothing but a lost connection is raised."""
        taken = self.desk.reports.take(now, last)
        if not taken:
            return 0
        try:
            return progress.write(self.link.cursor(), taken)
        except Exception as exc:
            kind = trouble(exc)
            if kind is Trouble.OTHER:
                messages.progress_dropped(exc)
                return 0
            self.desk.reports.put_back(taken)
            if kind is Trouble.LOST:
                raise
            return 0

    def _tell_lost(self, lost: Sequence[Lease], states: Mapping[UUID, str]) -> None:
        for lease in lost:
            ended = lease.completes_itself and states.get(lease.job.id) == State.COMPLETED
            if lease.settled or ended:
                continue  # its job ended while we asked, which is why the row was no longer running
            lease.cancelled = states.get(lease.job.id) == State.CANCELLED
            lease.lost = True
            messages.lease_lost(lease, late=False)
            self.tell(lease)

    def _interval(self) -> float:
        """Seconds between two beats now: the setting, or less while a lease that is short is held."""
        shortest = min((lease.job.expire_seconds for lease in list(self.desk.held)), default=None)
        interval = self.options.heartbeat_interval
        return interval if shortest is None else min(interval, shortest / BEATS_PER_LEASE)

    def refuse(self, exc: Exception) -> None:
        """The schema or the server is the wrong one: nothing that we could do about it."""
        super().refuse(exc)
        self.refused()

    def hurry(self, expire_seconds: int) -> None:
        """A lease as short as that was claimed: be sure to beat in time for it."""
        soon = monotonic() + expire_seconds / BEATS_PER_LEASE
        if self._due is not None and soon < self._due:
            self._due = soon
            self.wake.ring()

    def say(self, status: str) -> None:
        """Put on record how notifications reach this worker: `listening`, `polling only`, `off`."""
        if status != self.status:
            self.status = status
            self._due = monotonic()
            self.wake.ring()

    def closing(self) -> None:
        """Write the last progress, then take the worker off the list, unless outcomes are left that its row answers for."""
        if self.link.is_open:
            self.report(monotonic(), last=True)
        worker_id = self.identity.worker_id
        if worker_id is not None and self.link.is_open and not self.leave_row:
            functions.deregister_worker(self.link.cursor(), worker_id)
            self.identity.leave()
        self.identity.take(None)
