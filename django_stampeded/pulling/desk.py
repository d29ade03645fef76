"""The desk of a Puller: its callers take the leases and wait until the outcomes they give are on record.

Owns how many jobs to hold for callers that come and go. It claims for those that wait, and ahead of them only what recent
jobs show to be gone in an instant, since a job that no caller asks for is one that nobody else can run.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic

from django_stampeded.process.wake import Wake
from django_stampeded.worker.lease import Desk, Lease
from django_stampeded.worker.outcomes import RELEASED, Outcome

LOOK_S = 1.0
ASKED_S = 1.0
"""So long a caller that left with empty hands is expected to ask again, and a job is claimed for it."""


class Caller:
    """One call that waits for a lease."""

    __slots__ = ("bell", "is_parked")

    def __init__(self) -> None:
        self.bell = Wake()
        self.is_parked = False


class PullDesk(Desk):
    """A desk that holds `threads` leases at most, those that wait for a caller included."""

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self.out: set[Lease] = set()
        self.ended = False
        """Whether nobody records outcomes any more."""
        self._unrecorded: dict[Lease, Wake] = {}
        self._asked_at: float | None = None

    def running(self) -> list[Lease]:
        """The leases that callers have and gave no outcome yet."""
        return [lease for lease in list(self.out) if not lease.settled]

    def vacancies(self, ahead: int) -> int:
        """How many more jobs to hold, where `ahead` of them may wait beyond one for each caller."""
        callers = len(self.parked)
        if not callers and self._asked_at is not None and monotonic() - self._asked_at < ASKED_S:
            callers = 1
        return min(self.threads - len(self.out), callers + ahead) - len(self.waiting)

    @property
    def expects_more(self) -> bool:
        """Whether other outcomes will soon follow: not for a lone caller, which waits until the first one is on record."""
        return self.hungry and bool(self.out)

    def take(self, seconds: float) -> Lease | None:
        """The next lease for the calling thread, waiting for one up to `seconds`; None after that, or once closed."""
        caller = Caller()
        until = monotonic() + seconds
        lease = None
        try:
            while lease is None and not self.closed:
                lease = self._first() or self._parked(caller)
                if lease is None and not caller.bell.wait(until - monotonic()) and monotonic() >= until:
                    break
        finally:  # an interrupted wait, too, must leave nobody parked that no longer waits
            self.unpark(caller)
        if lease is None:
            lease = self._first()  # the ring for it may have come to us in the last moment
            self._asked_at = monotonic()
        return lease

    def _parked(self, caller: Caller) -> Lease | None:
        """Wait for a ring from here on. A lease that came just before, which rang for nobody."""
        if not caller.is_parked:
            caller.is_parked = True
            self.parked.append(caller)
        lease = self._first()
        if lease is None and self.hungry:
            self.for_claimer.ring()
        return lease

    def _first(self) -> Lease | None:
        try:
            lease = self.waiting.popleft()
        except IndexError:
            return None
        lease.started_at = monotonic()
        self.out.add(lease)
        if self.closed:
            self.out.discard(lease)
            self.settle(lease, RELEASED)
            return None
        if self.waiting and self.parked:
            self.wake_one()
        return lease

    def settle(self, lease: Lease, outcome: Outcome) -> bool:
        """Decide a lease's outcome and leave it for the acker. False when it was decided already."""
        if not super().settle(lease, outcome):
            return False
        if lease in self.out:
            self.out.discard(lease)
            self.observe(monotonic() - (lease.started_at or lease.claimed_at))
        return True

    def wait_for_record(self, lease: Lease) -> None:
        """Wait until the outcome of a lease that was settled is on record, or known to be refused, which `lost` then says."""
        bell = self._unrecorded[lease] = Wake()
        while lease in self.held and not bell.wait(LOOK_S):
            if self.ended:
                lease.lost = True
                break
        self._unrecorded.pop(lease, None)

    def let_go(self, leases: Iterable[Lease]) -> None:
        """Forget leases whose outcome is recorded, or nobody's any more, and tell those that wait for that."""
        leases = list(leases)
        super().let_go(leases)
        for lease in leases:
            bell = self._unrecorded.pop(lease, None)
            if bell is not None:
                bell.ring()

    def close(self) -> None:
        """Give out no more leases, and send those away that wait for one."""
        self.closed = True
        while self.wake_one():
            pass
