"""The jobs this process holds, from their claim to the recording of their outcome, and the threads' shared desk.

Owns the hand-over between threads. The claimer puts leases on the desk, whoever runs jobs takes them (a worker's job
threads, the callers of a Puller), the acker records their outcomes and lets them go. A lease is in exactly one hand at a
time: whoever takes it off the queue of waiting ones has it, and whoever settles it first decides its outcome.

The containers are those whose single operations are atomic (deque, set), and bells wake whoever sleeps, so that a job
of a few microseconds is not charged for locks. Nothing here touches the database.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from contextlib import suppress
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from django_stampeded.functions import Ack, ClaimedJob
from django_stampeded.process.board import COMPLETED, PUT_OFF, Board, failed_as
from django_stampeded.process.wake import Wake
from django_stampeded.worker import claims
from django_stampeded.worker.outcomes import RELEASED, Completed, Failed, Outcome, Recorded
from django_stampeded.worker.progress import Progress, Reports

if TYPE_CHECKING:
    from django_stampeded.worker.job_thread import JobThread

MOST_UNRECORDED = 5_000
"""Outcomes that may wait for the database before we claim no more."""


class Lease:
    """One attempt of a job that this process claimed.

    `claimed_at` and `started_at` are monotonic seconds, the second None until a job thread takes it. `lost` is set once
    somebody else decided the job's fate, `cancelled` too if that was a cancellation. `record` is its place on the board
    that the supervisor sees, -1 where it has none. `progress` is what the job said last of how far it is, `reports` where
    that waits to be written, None where nobody writes it. `completes_itself` is set for a job whose completion commits
    with its work, `ending` while its own thread sees to that.
    """

    __slots__ = (
        *("job", "worker_id", "claimed_at", "started_at", "lost", "cancelled", "context", "record"),
        *("progress", "reports", "completes_itself", "ending", "_open"),
    )

    def __init__(self, job: ClaimedJob, worker_id: UUID, now: float) -> None:
        self.job = job
        self.worker_id = worker_id
        self.claimed_at = now
        self.started_at: float | None = None
        self.lost = False
        self.cancelled = False
        self.context: object | None = None
        self.record = -1
        self.progress: Progress | None = None
        self.reports: Reports | None = None
        self.completes_itself = False
        self.ending = False
        self._open = [True]

    @property
    def ack(self) -> Ack:
        """What the SQL functions want to see."""
        job = self.job
        return Ack(job.queue, job.id, job.attempt)

    def note(self, progress: Progress) -> None:
        """The job says how far it is."""
        self.progress = progress
        if self.reports is not None:
            self.reports.note(self)

    @property
    def settled(self) -> bool:
        """Whether its outcome is decided."""
        return not self._open

    def settle(self) -> bool:
        """Take the right to decide the outcome. True for the first who asks, of any threads."""
        try:
            self._open.pop()
        except IndexError:
            return False
        return True

    def end(self) -> bool:
        """As `settle`, for the thread that runs the job and records the outcome itself: the job still counts as running."""
        self.ending = True
        settled = self.settle()
        self.ending = settled
        return settled


def code_of(outcome: Outcome) -> int:
    """What the board has for a body that ended so."""
    if isinstance(outcome, Completed | Recorded):
        return COMPLETED
    return failed_as(outcome.kind) if isinstance(outcome, Failed) else PUT_OFF


class Sleeper(Protocol):
    """Whoever waits for a lease: a job thread, or the caller of a Puller. The bell wakes it."""

    bell: Wake
    is_parked: bool


class Desk:
    """What the threads share that claim jobs, run them and record their outcomes.

    Args:
        threads: how many jobs run at a time.
        board: where the supervisor sees which jobs have started, if there is one.

    A subclass says which leases run, and how many more to hold.
    """

    def __init__(self, threads: int, board: Board | None = None) -> None:
        self.threads = threads
        self.board = board
        self.waiting: deque[Lease] = deque()
        self.held: set[Lease] = set()
        self.outbox: deque[tuple[Lease, Outcome]] = deque()
        self.pace = claims.Pace()
        self.reports = Reports()
        self.parked: deque[Sleeper] = deque()
        self.for_claimer = Wake()
        self.for_acker = Wake()
        self.hungry = False
        """Whether there may be due jobs that only a lack of room kept us from claiming."""
        self.barred = False
        """Whether there are due jobs that the last claim did not get, perhaps for as many of theirs as are running here."""
        self.low = 0
        """With so few leases waiting, a hungry claimer wants to know."""
        self.closed = False

    def running(self) -> list[Lease]:
        """The leases whose jobs run now and are not given up."""
        raise NotImplementedError

    def vacancies(self, ahead: int) -> int:
        """How many more jobs to hold, where `ahead` of them may wait beyond those that run."""
        raise NotImplementedError

    def room(self) -> int:
        """How many more jobs to hold."""
        if self.closed or len(self.outbox) > MOST_UNRECORDED:
            return 0
        ahead = claims.ahead(self.pace.mean, self.threads)
        self.low = ahead // 2
        return 0 if len(self.waiting) > self.low else self.vacancies(ahead)

    @property
    def expects_more(self) -> bool:
        """Whether other outcomes will soon follow the first ones."""
        return self.hungry

    def observe(self, seconds: float) -> None:
        """A job took so long, and there is room for another one."""
        self.pace.observe(seconds)
        if self.hungry and len(self.waiting) <= self.low:
            self.for_claimer.ring()

    def held_by_queue(self) -> Counter[str]:
        """How many unsettled leases each queue has here."""
        return Counter(lease.job.queue for lease in list(self.held) if not lease.settled)

    def put(self, leases: Iterable[Lease]) -> None:
        """Leave claimed jobs for the job threads."""
        leases = list(leases)
        for lease in leases:
            lease.reports = self.reports
        self.held.update(leases)
        self.waiting.extend(leases)
        for _ in leases:
            if not self.wake_one():
                break

    def refuse(self, lease: Lease, outcome: Outcome) -> None:
        """Settle a claimed job that must not start."""
        self.held.add(lease)
        self.settle(lease, outcome)

    def wake_one(self) -> bool:
        """Wake one of those that wait, the one that began last. False when none does.

        Whoever takes a lease while others wait passes the ring on, for its own may have been meant for those.
        """
        try:
            sleeper = self.parked.pop()
        except IndexError:
            return False
        sleeper.is_parked = False
        sleeper.bell.ring()
        return True

    def unpark(self, sleeper: Sleeper) -> None:
        """One that was about to sleep found work after all."""
        sleeper.is_parked = False
        with suppress(ValueError):  # somebody rings it at this moment, which does no harm
            self.parked.remove(sleeper)

    def settle(self, lease: Lease, outcome: Outcome) -> bool:
        """Decide a lease's outcome and leave it for the acker. False when it was decided already."""
        if not lease.settle():
            return False
        self.leave(lease, outcome)
        return True

    def leave(self, lease: Lease, outcome: Outcome) -> None:
        """Leave the outcome of a lease for the acker. For whoever has settled it."""
        if lease.record >= 0 and self.board is not None:
            self.board.end(lease.record, code_of(outcome))
        self.outbox.append((lease, outcome))
        self.for_acker.ring()

    def let_go(self, leases: Iterable[Lease]) -> None:
        """Forget leases whose outcome is recorded, or nobody's any more."""
        leases = list(leases)
        self.held.difference_update(leases)
        if self.board is not None:
            for lease in leases:
                if lease.record >= 0:
                    self.board.free(lease.record)
                    lease.record = -1
        if self.hungry or self.closed or not self.held:
            self.for_claimer.ring()

    def release_waiting(self) -> int:
        """Hand back, uncharged, what no thread has started. How many."""
        released = 0
        while True:
            try:
                lease = self.waiting.popleft()
            except IndexError:
                return released
            released += self.settle(lease, RELEASED)

    def oldest_wait(self) -> float:
        """Seconds since the claim of the lease that waits longest for a thread, 0 if none waits."""
        try:
            return monotonic() - self.waiting[0].claimed_at
        except IndexError:
            return 0.0


class WorkerDesk(Desk):
    """The desk of a worker: job threads take the leases. `most_starts`: so many jobs may start in all, None for any number."""

    def __init__(self, threads: int, board: Board | None = None, most_starts: int | None = None) -> None:
        super().__init__(threads, board)
        self.most_starts = most_starts
        self.started = 0
        self._starts = count(1)
        self.crew: list[JobThread] = []
        self.late = 0
        """How many jobs ended after their outcome had been decided without them."""

    def running(self) -> list[Lease]:
        """The leases whose jobs run now and are not given up."""
        return [lease for thread in self.crew if (lease := thread.lease) and (lease.ending or not lease.settled)]

    def busy(self) -> int:
        """How many threads are not free for another job."""
        return sum(thread.lease is not None for thread in self.crew)

    def vacancies(self, ahead: int) -> int:
        """How many more jobs to hold, where `ahead` of them may wait beyond one for each free thread."""
        room = self.threads + ahead - len(self.waiting) - self.busy()
        return room if self.most_starts is None else min(room, self.most_starts - self.started - len(self.waiting))

    def start(self, lease: Lease) -> bool:
        """A thread is about to run the job of `lease`: says so on the board. False when no more jobs may start here."""
        self.started = number = next(self._starts)
        if self.most_starts is not None and number > self.most_starts:
            return False
        if self.board is not None:
            lease.record = self.board.start(lease.job.id)
        return True
