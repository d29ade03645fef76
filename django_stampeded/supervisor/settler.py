"""Deals with what dead children left in the database, in a thread of the parent, so that a database that does not answer
never keeps it from watching the living. It also beats for a child whose jobs let no other thread of it run.

It connects only while there is something to settle, tries for as long as it takes, and looks a second time a little
later: a claim that was under way when the child died may have been carried out by the server after the first look.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any
from uuid import UUID

from django_stampeded import functions
from django_stampeded.process import board
from django_stampeded.process.link import Trouble, trouble
from django_stampeded.process.loop import Loop
from django_stampeded.process.outage import Outage
from django_stampeded.supervisor import messages
from django_stampeded.worker.identity import node_name

AGAIN_S = 3.0
LOCK_WAIT_S = 2.0
"""A session of the dead child may hold its rows a little longer than it lived."""
MOST_REFUSALS = 5


@dataclass(frozen=True, slots=True)
class Estate:
    """What a dead child left: its ids, its board's records, and its end in words and as an exit status."""

    worker_ids: Sequence[UUID]
    records: Mapping[UUID, int]
    error: str
    exit_status: int


class Settler(Loop):
    """Settles estates, and keeps the alarm that children keep dying on record while there is one."""

    def __init__(self, alias: str, outage: Outage | None = None) -> None:
        super().__init__("supervisor", alias, outage or Outage())
        self._waiting: deque[tuple[float, bool, Estate]] = deque()
        self._silent: Sequence[UUID] = ()
        self._alarm: dict[str, Any] | None = None
        self._told: dict[str, Any] | None = None
        self._id: UUID | None = None
        self._refusals = 0

    def take(self, estate: Estate) -> None:
        """Settle this as soon as the database answers. Callable from any thread."""
        self._waiting.appendleft((0.0, True, estate))
        self.wake.ring()

    def alarm(self, about: dict[str, Any] | None) -> None:
        """Put on record, for the admin and `stampeded health`, that children keep dying; None: that they don't any more."""
        self._alarm = about
        self.wake.ring()

    def beat_for(self, worker_ids: Sequence[UUID]) -> None:
        """Beat for children that live and can't do it themselves. Callable from any thread."""
        self._silent = worker_ids
        self.wake.ring()

    def cycle(self) -> None:
        """Settle one estate that is due, or wait for one."""
        silent, self._silent = self._silent, ()
        for worker_id in silent:
            functions.heartbeat(self.link.cursor(), worker_id)
        if self._alarm != self._told:
            self._put_on_record(self._alarm)
        if not self._waiting or self._waiting[0][0] > monotonic():
            self.link.drop()
            self.wake.wait(self._waiting[0][0] - monotonic() if self._waiting else 3600.0)
            return
        self.run_once()

    def run_once(self) -> None:
        """Settle the first estate there is."""
        entry = self._waiting[0]
        _, first, estate = entry
        try:
            settle(self.link.connection(), estate)
        except Exception as exc:
            if trouble(exc) is not Trouble.OTHER or self._refusals < MOST_REFUSALS:
                self._refusals += trouble(exc) is Trouble.OTHER
                raise
            messages.gave_up(exc)
            first = False
        self._refusals = 0
        self._waiting.remove(entry)
        if first and not self.stopping:
            self._waiting.append((monotonic() + AGAIN_S, False, estate))

    def _put_on_record(self, about: dict[str, Any] | None) -> None:
        cur = self.link.cursor()
        if about is None:
            if self._id is not None:
                functions.deregister_worker(cur, self._id)
                self._id = None
        elif self._id is None or not functions.heartbeat(cur, self._id):
            self._id = functions.register_worker(cur, node_name(), os.getpid(), [], about)
            functions.set_waiting(cur, self._id, False)  # it claims nothing, so nobody needs to notify it
        else:
            functions.describe_worker(cur, self._id, about)
        self._told = about

    def closing(self) -> None:
        """Settle what is left, as far as the database answers; what can't be settled now is the reaper's."""
        while self._waiting:
            self.run_once()
        if self._id is not None:
            self._put_on_record(None)


def settle(connection: Any, estate: Estate) -> None:
    """Settle one estate, all or nothing. Raises the driver's errors.

    What ended before the child did is recorded as it ended, what ran fails as worker_exited, and the rest is released.
    """
    jobs: list[functions.Settled] = []
    late = 0
    with connection.transaction():
        cur = connection.cursor()
        functions.limit_lock_wait(cur, LOCK_WAIT_S)
        for worker_id in estate.worker_ids:
            late += _record(cur, worker_id, estate)
            started = [job_id for job_id, code in estate.records.items() if code == board.STARTED]
            jobs += functions.settle_worker(cur, worker_id, started, estate.error, estate.exit_status)
    if late:
        messages.recorded_late(late)
    messages.settled(jobs)


def _record(cur: Any, worker_id: UUID, estate: Estate) -> int:
    """Record the outcomes that are known. How many."""
    ended = [(ack, code) for ack in functions.held(cur, worker_id) if (code := estate.records.get(ack.id, 0)) > board.STARTED]
    done = functions.complete_many(cur, worker_id, [ack for ack, code in ended if code == board.COMPLETED])
    recorded = len(done)
    for ack, code in ended:
        kind = board.kind_of(code)
        if kind is not None:
            error = f"It failed, and before the reason could be recorded its worker ended. {estate.error}"
            recorded += functions.fail(cur, ack, worker_id, kind.value, error, exit_status=estate.exit_status) is not None
    return recorded
