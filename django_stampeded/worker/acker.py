"""The thread that records how jobs ended, many in one transaction.

It keeps what it could not record: after a lost connection the same outcomes are sent again, and the attempt guard in
SQL makes sure that none counts twice and none counts for a lease that others have taken back. An outcome that the
database refuses for what it is must not hold up the others, so a refused batch is sent again one by one; nor must one whose
row is locked, as that of a job which was given up while its transaction is open: it is tried again later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic, sleep
from typing import Any
from uuid import UUID

from psycopg.errors import LockNotAvailable

from django_stampeded import batch_functions, functions
from django_stampeded.process.link import Cursor, Trouble, trouble
from django_stampeded.process.loop import Loop
from django_stampeded.process.outage import Outage
from django_stampeded.worker import messages
from django_stampeded.worker.guards import Guards
from django_stampeded.worker.lease import Desk, Lease
from django_stampeded.worker.outcomes import Completed, Failed, Outcome, Recorded, Released, Snoozed

MOST_AT_ONCE = 1_000
LINGER_S = 0.004
"""While there is a backlog, wait so long for company: one commit then records dozens of jobs."""

LOCK_WAIT_S = 0.5
"""So long may a row be locked that an outcome goes to; then that outcome is set aside, and the others are recorded."""
LOCKED_AGAIN_S = 3.0
"""After so long, what was set aside is tried again."""

Entry = tuple[Lease, Outcome]


@dataclass(frozen=True, slots=True)
class AckReport:
    """One round: how many outcomes were recorded, and the leases that were no longer ours."""

    recorded: int
    refused: Sequence[Lease] = ()


class Acker(Loop):
    """Records outcomes from the desk's outbox; `look_soon` is called when some of the jobs are to run again later, or when
    their end may have made way for others; `guards` hears of them all."""

    def __init__(self, alias: str, outage: Outage, desk: Desk, look_soon: Callable[[], None], guards: Guards) -> None:
        super().__init__("acker", alias, outage)
        self.desk = desk
        self.guards = guards
        self.look_soon = look_soon
        self.wake = desk.for_acker
        self.batch: list[Entry] = []
        self.locked: list[Entry] = []
        self._look_again = 0.0
        self._sent_before = False

    @property
    def unrecorded(self) -> int:
        """How many outcomes are left to record."""
        return len(self.batch) + len(self.desk.outbox) + len(self.locked)

    @property
    def idle(self) -> bool:
        """Whether there is nothing left to record."""
        return not self.unrecorded

    def cycle(self) -> None:
        """Wait for outcomes, then record those that are there."""
        if not self.batch and not self.desk.outbox:
            self.wake.wait(self._look_again - monotonic() if self.locked else 3600.0)
            if self.desk.expects_more and not self.stopping:
                sleep(LINGER_S)
        self.run_once()

    def run_once(self) -> AckReport:
        """Record what the outbox holds, at most MOST_AT_ONCE outcomes."""
        outbox, batch = self.desk.outbox, self.batch
        if self.locked and monotonic() >= self._look_again:
            # By themselves: with one that is locked still, others would be recorded one by one again.
            batch += self.locked
            self.locked = []
        else:
            while outbox and len(batch) < MOST_AT_ONCE:
                batch.append(outbox.popleft())
        if not batch:
            return AckReport(0)
        refused = self._record(batch)
        for lease in refused:
            unsure = self._sent_before or lease.ending  # of the latter, the commit broke
            lease.lost = lease.lost or not unsure
            (messages.result_unsure(lease) if unsure else messages.lease_lost(lease, late=True))
        report = AckReport(len(batch) - len(refused), refused)
        self._tell_breakers(batch, refused)
        # Before the leases are let go: a worker that drains ends once it holds none, and a callback is a job for it.
        self._finish({lease.job.batch_id for lease, _ in batch if lease.job.batch_id is not None})
        self.desk.let_go([lease for lease, _ in batch])
        if self.desk.barred or any(isinstance(outcome, Failed | Snoozed) for _, outcome in batch):
            self.look_soon()
        self.batch = []
        self._sent_before = False
        return report

    def _finish(self, batches: set[UUID]) -> None:
        """After the commit, see whether batches have finished; maintenance, which looks too, is only a second later."""
        if not batches:
            return
        try:
            with self.link.connection().transaction():
                batch_functions.finish_batches(self.link.cursor(), sorted(batches))
        except Exception as exc:  # the outcomes are on record; a connection that broke is noticed at its next use
            messages.batches_left(exc)

    def _tell_breakers(self, batch: Sequence[Entry], refused: Sequence[Lease]) -> None:
        """After the commit, tell the circuit breakers; one that is lost costs them some sight, and no job anything."""
        try:
            self.guards.report(self.link, batch, refused)
        except Exception as exc:
            messages.breakers_unreported(exc)

    def _record(self, batch: Sequence[Entry]) -> list[Lease]:
        if all(isinstance(outcome, Recorded) for _, outcome in batch):
            return []
        connection = self.link.connection()
        try:
            if all(isinstance(outcome, Recorded | Completed) and not _has_result(outcome) for _, outcome in batch):
                return _together(
                    connection.cursor(), batch, Completed, partial(functions.complete_many, lock_wait_s=LOCK_WAIT_S)
                )
            return self._record_patiently(batch)
        except Exception as exc:
            if trouble(exc) is not Trouble.OTHER and not _is_locked(exc):
                self._sent_before = True
                raise
            return self._record_each(batch)

    def _record_patiently(self, batch: Sequence[Entry]) -> list[Lease]:
        with self.link.connection().transaction():
            cur = self.link.cursor()
            functions.limit_lock_wait(cur, LOCK_WAIT_S)
            return record(cur, batch)

    def _record_each(self, batch: Sequence[Entry]) -> list[Lease]:
        """One by one: whatever is wrong with one outcome stays with that one."""
        refused: list[Lease] = []
        for entry in list(batch):
            try:
                refused += self._record_patiently([entry])
            except Exception as exc:
                if _is_locked(exc):
                    self._set_aside(entry)
                elif trouble(exc) is not Trouble.OTHER:
                    self._sent_before = True
                    raise
                else:
                    entry[0].lost = True
                    messages.unrecordable(entry[0], exc)
        return refused

    def _set_aside(self, entry: Entry) -> None:
        self.batch.remove(entry)
        self.locked.append(entry)
        self._look_again = monotonic() + LOCKED_AGAIN_S

    def closing(self) -> None:
        """Record what is left, as far as the database answers."""
        while not self.idle:
            if not self.batch and not self.desk.outbox:
                sleep(max(0.0, self._look_again - monotonic()))
            self.run_once()


def record(cur: Any, batch: Sequence[Entry]) -> list[Lease]:
    """Send outcomes to the database by `cur`; returns the leases that were no longer their worker's.

    Completions and releases go together, a statement for each worker id; failures go one by one, since each one's
    next state is decided by itself. Raises the driver's errors.
    """
    refused = _together(cur, batch, Completed, functions.complete_many)
    _store_results(cur, batch, refused)
    refused += _together(cur, batch, Released, functions.release_many)
    for lease, outcome in batch:
        if isinstance(outcome, Snoozed):
            if not functions.snooze(cur, lease.ack, lease.worker_id, outcome.delay_ms):
                refused.append(lease)
        elif isinstance(outcome, Failed):
            kind, error = outcome.kind.value, outcome.error
            result = functions.fail(cur, lease.ack, lease.worker_id, kind, error, outcome.delay_ms, outcome.exit_status)
            if result is None:
                refused.append(lease)
            else:
                messages.failed(lease, outcome, result)
    return refused


def _store_results(cur: Cursor, batch: Sequence[Entry], refused: Sequence[Lease]) -> None:
    lost = {lease.ack for lease in refused}
    kept = [
        batch_functions.Returned(lease.job.queue, lease.job.id, outcome.result, outcome.keep_s)
        for lease, outcome in batch
        if isinstance(outcome, Completed) and outcome.result is not None and lease.ack not in lost
    ]
    if kept:
        batch_functions.store_results(cur, kept)


def _is_locked(exc: Exception) -> bool:
    return isinstance(exc, LockNotAvailable)


def _has_result(outcome: Outcome) -> bool:
    return isinstance(outcome, Completed) and outcome.result is not None


Many = Callable[[Cursor, UUID, Sequence[functions.Ack]], set[UUID]]


def _together(cur: Cursor, batch: Sequence[Entry], kind: type[Outcome], send: Many) -> list[Lease]:
    by_worker: dict[UUID, list[Lease]] = defaultdict(list)
    for lease, outcome in batch:
        if type(outcome) is kind:
            by_worker[lease.worker_id].append(lease)
    refused: list[Lease] = []
    for worker_id, leases in by_worker.items():
        done = send(cur, worker_id, [lease.ack for lease in leases])
        if len(done) < len(leases):
            refused += [lease for lease in leases if lease.job.id not in done]
    return refused
