"""The thread that claims: one connection, all queues of the worker, as many jobs as there is room for.

It sleeps until something is worth a look: a notification, a slot that became free while there was a backlog, the next
job that falls due, or the poll interval. What to claim is decided in claims.py; here it is done.

An idle worker asks one read-only question a second: when is the next job due? It claims only when the answer is "now",
so that waiting costs no transaction ids, no locks and next to no time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from uuid import UUID

from django_stampeded import functions
from django_stampeded.process.link import Cursor
from django_stampeded.process.loop import Loop
from django_stampeded.process.outage import Outage
from django_stampeded.worker import claims, messages
from django_stampeded.worker.advice import Advice
from django_stampeded.worker.guards import Guards
from django_stampeded.worker.identity import Identity
from django_stampeded.worker.lease import Desk, Lease
from django_stampeded.worker.options import WorkerOptions
from django_stampeded.worker.raw_json import read_leniently

LOOK_AHEAD_S = 1.0
"""Nobody announces a job of the future, so while we listen the next one is looked up so often, however long the poll
interval."""
PATIENCE_S = 1.0
"""Claimed jobs that wait longer for a thread go back, so that another worker can run them."""
NEVER_S = 3600.0


@dataclass(frozen=True, slots=True)
class ClaimReport:
    """One look: how many jobs were asked for and claimed, and whether more are due that there was no room for."""

    asked: int = 0
    claimed: int = 0
    full: bool = False


NOTHING = ClaimReport()


class Claimer(Loop):
    """Claims jobs for the desk's threads.

    `short_lease` is told the shortest expire_seconds of each claim; `drained` is called when nothing is left to run,
    if the options say to drain. `guards` are asked which of the claimed jobs may start.
    """

    def __init__(
        self,
        options: WorkerOptions,
        outage: Outage,
        desk: Desk,
        identity: Identity,
        short_lease: Callable[[int], None],
        drained: Callable[[], None],
        guards: Guards,
    ) -> None:
        super().__init__("claimer", options.alias, outage)
        self.link.on_open = read_leniently
        self.options = options
        self.desk = desk
        self.identity = identity
        self.short_lease = short_lease
        self.drained = drained
        self.guards = guards
        self.wake = desk.for_claimer
        self.listening = False
        self._spell = claims.Spell()
        self._deep: frozenset[str] = frozenset()
        self._full = False
        self._crowded = False
        self._turn = 0
        self._advice = Advice(deaf=options.drain)
        self._known: list[str] = list(options.selection.queues or ())
        self._listed_at: float | None = None
        self._heard: set[str] = set()
        self._heard_anything = True
        self._look_at = 0.0
        self._claims_as: UUID | None = None
        self._unsure: UUID | None = None

    def heard(self, queue: str | None) -> None:
        """A queue has due jobs, or (None) any may have: look at once. Callable from any thread."""
        if queue is None:
            self._heard_anything = True
        elif self.options.selection.includes(queue):
            self._heard.add(queue)
        else:
            return
        self.wake.ring()

    def look_soon(self) -> None:
        """A job was put off, or made way: find out when the next one is due. Callable from any thread."""
        self._look_at = 0.0
        self.wake.ring()

    def cycle(self) -> None:
        """Look once, then sleep until it is worth looking again."""
        self.run_once()
        if self._crowded or not (self._heard or self._heard_anything):
            self.wake.wait(self._rest())

    def run_once(self) -> ClaimReport:
        """Claim what there is room for, if anything is due."""
        worker_id = self.identity.wait(0.5)
        desk = self.desk
        if worker_id is None or self.stopping:
            return NOTHING
        if desk.oldest_wait() > PATIENCE_S:
            self._give_back()
        cur = self.link.cursor()
        self._settle_in(cur, worker_id)
        desk.hungry = True  # first, so that a slot that becomes free from here on is not missed
        self._crowded = desk.room() <= 0
        if self._crowded:
            return NOTHING
        last_look = self.options.drain and not desk.held
        if last_look:
            self._heard_anything = True
        report = self._look(cur, worker_id)
        if last_look and not report.claimed:
            self.drained()
        return report

    def _look(self, cur: Cursor, worker_id: UUID) -> ClaimReport:
        heard = self._take_heard()
        if self._heard_anything or self._may_ask_again():
            if self._heard_anything:
                self._heard_anything, self._listed_at, self._look_at = False, None, 0.0
            if self._is_stale(heard):
                self._list_queues(cur)
            return self._claim(cur, worker_id, self._known)
        if heard:
            return self._claim(cur, worker_id, sorted(heard))
        self.desk.hungry = bool(self._deep)
        self._full = False
        if monotonic() < self._look_at:
            return NOTHING
        until_due = self._until_due(cur)
        if until_due > 0:
            self._look_at = monotonic() + min(until_due, self._spell.next_look(self._longest()))
            return NOTHING
        # Both before the claim: a job that ends meanwhile may make way, and brings the next look forward.
        self.desk.barred = True
        self._look_at = monotonic() + self.options.poll_interval
        report = self._claim(cur, worker_id, self._known)
        if report.claimed:
            self.desk.barred, self._look_at = False, 0.0
        # Else it is due and not to be had: its queue is paused, or has as many running as it may.
        return report

    def _take_heard(self) -> set[str]:
        """The queues named since the last look. One by one, since the listener may name another at any moment."""
        heard: set[str] = set()
        while self._heard:
            heard.add(self._heard.pop())
        return heard

    def _may_ask_again(self) -> bool:
        """Whether a queue that had more than it gave may give more: not while we hold as many of it as its bound allows."""
        bounds = self.options.selection.bounds
        if not bounds or not self._deep:
            return bool(self._deep)
        held = self.desk.held_by_queue()
        return any(queue not in bounds or held[queue] < bounds[queue] for queue in self._deep)

    def _claim(self, cur: Cursor, worker_id: UUID, queues: Sequence[str]) -> ClaimReport:
        desk, bounds = self.desk, self.options.selection.bounds
        held = desk.held_by_queue() if bounds else {}
        self._turn += 1
        advice = self._advice
        advice.refresh(cur)
        self._deep -= advice.held
        asked = claims.plan(
            advice.followed(queues),
            turn=self._turn,
            room=desk.room(),
            bounds=bounds,
            held=held,
            deep=self._deep,
            rushed=advice.rushed,
        )
        if asked is None:  # no queue has work, or we hold as many of each as its bound allows
            desk.hungry = bool(self._deep)
            self._full = False
            self._announce(cur, worker_id, full=False)
            return NOTHING
        jobs = self._send(cur, worker_id, asked)
        self._deep = claims.deep_queues(asked, Counter(job.queue for job in jobs), self._deep)
        desk.hungry = bool(self._deep)
        self._full = full = claims.came_full(asked, self._deep)
        if self._announce(cur, worker_id, full) or (jobs and not full and queues is self._known):
            self._look_at = monotonic()
        return ClaimReport(asked.limit, len(jobs), full)

    def _announce(self, cur: Cursor, worker_id: UUID, full: bool) -> bool:
        """Tell enqueuers if a claim changes whether we need waking. Whether we do from now on."""
        waiting = self._spell.claimed(full)
        if waiting is not None:
            functions.set_waiting(cur, worker_id, waiting)
        return bool(waiting)

    def _send(self, cur: Cursor, worker_id: UUID, asked: claims.Plan) -> Sequence[functions.ClaimedJob]:
        self._unsure = worker_id
        jobs = functions.claim(cur, asked.queues, worker_id, asked.limit, asked.limits)
        refused = self.guards.admit(cur, jobs)
        self._unsure = None
        if jobs:
            now = monotonic()
            leases = [Lease(job, worker_id, now) for job in jobs]
            for lease in leases if refused else ():
                if lease.job.id in refused:
                    self.desk.refuse(lease, refused[lease.job.id])
            self.desk.put(lease for lease in leases if lease.job.id not in refused)
            if self.desk.closed:
                self.desk.release_waiting()
            self.short_lease(min(job.expire_seconds for job in jobs))
        return jobs

    def _settle_in(self, cur: Cursor, worker_id: UUID) -> None:
        """After a new registration nothing is announced yet; after a broken claim, find what it may have claimed."""
        if self._claims_as != worker_id:
            self._claims_as = worker_id
            self._spell = claims.Spell()
        if self._unsure is None:
            return
        known = {lease.job.id for lease in list(self.desk.held)}
        orphans = [ack for ack in functions.held(cur, self._unsure) if ack.id not in known]
        if orphans:
            functions.release_many(cur, self._unsure, orphans)
            messages.orphans_released(len(orphans))
        self._unsure = None

    def broken(self) -> None:
        """The connection is gone: look as soon as there is another one."""
        self._heard_anything = True

    def _give_back(self) -> None:
        """The threads are stuck in jobs longer than we thought: let others have what waits behind them."""
        waited = self.desk.oldest_wait()
        self.desk.pace.slow_down(waited)
        messages.stuck_released(self.desk.release_waiting(), waited)

    def _rest(self) -> float:
        """Seconds to sleep if nothing rings."""
        desk = self.desk
        return claims.rest(
            stuck=self._crowded or bool(desk.waiting and not desk.parked),
            full=self._full,
            room=desk.room() if self._full else 0,
            until_look=self._look_at - monotonic(),
            quiet=self._longest(),
            poll=self.options.poll_interval,
            patience=PATIENCE_S,
        )

    def _longest(self) -> float:
        """Seconds between two looks when all is quiet."""
        return min(LOOK_AHEAD_S, self.options.poll_interval) if self.listening else self.options.poll_interval

    def _until_due(self, cur: Cursor) -> float:
        """Seconds until the next job of our queues is due; 0 or less where one is."""
        if self.options.selection.queues is None:
            self._list_queues(cur)
        due = functions.next_due(cur, self._known) if self._known else None
        return NEVER_S if due is None else due

    def _is_stale(self, heard: set[str]) -> bool:
        """Whether to ask again which queues have work, for the worker of every queue: `heard` are some that do."""
        if self.options.selection.queues is not None:
            return False
        if self._listed_at is None or not (self._deep | heard).issubset(self._known):
            return True
        return monotonic() - self._listed_at >= min(LOOK_AHEAD_S, self.options.poll_interval)

    def _list_queues(self, cur: Cursor) -> None:
        self._known = self.options.selection.among(functions.queues_with_work(cur))
        self._deep = self._deep.intersection(self._known)  # a queue without work has no more to give
        self._listed_at = monotonic()
