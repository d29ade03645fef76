"""The threads that run jobs: each takes the next lease off the desk, runs it and leaves its outcome there.

They talk to no queue and wait for no database of ours, so that a job's end is never held up by recording the last one.
"""

from __future__ import annotations

import asyncio
import threading
from time import monotonic

from asgiref.sync import async_to_sync, sync_to_async

from django_stampeded.process.wake import Wake
from django_stampeded.worker import django_connections, messages
from django_stampeded.worker.coroutines import perform_async
from django_stampeded.worker.execution import Recipes, perform
from django_stampeded.worker.guards import Guards
from django_stampeded.worker.interrupt import Guard, Timekeeper
from django_stampeded.worker.lease import Lease, WorkerDesk
from django_stampeded.worker.outcomes import RELEASED, Outcome, of_error_of_ours

LINGER_S = 0.005


class JobThread(threading.Thread):
    """One of the threads of a desk."""

    def __init__(self, number: int, desk: WorkerDesk, recipes: Recipes, keeper: Timekeeper, guards: Guards) -> None:
        super().__init__(name=f"stampeded-job-{number}", daemon=True)
        self.desk = desk
        self.recipes = recipes
        self.guard = Guard(keeper)
        self.guards = guards
        self.bell = Wake()
        self.lease: Lease | None = None
        self.is_parked = False
        self.stopping = False

    def run(self) -> None:
        """Take leases and run them until stopped; sleep while there are none."""
        waiting = self.desk.waiting
        try:
            while not self.stopping:
                try:
                    lease = waiting.popleft()
                except IndexError:
                    self._rest()
                else:
                    if waiting and self.desk.parked:
                        self.desk.wake_one()
                    if self.recipes.are_async(lease.job.task):
                        self._run_coroutines(lease)
                    else:
                        self.run_one(lease)
        finally:
            django_connections.close_all()

    def run_one(self, lease: Lease) -> None:
        """Run the job of one lease and leave its outcome on the desk. Nothing that happens in it ends the thread."""
        if not self._begin(lease):
            return
        begin = monotonic()
        try:
            if django_connections.in_use():
                django_connections.before_job()
            self._settle(lease, perform(lease, self.recipes, self.guard))
        except BaseException as exc:
            self._fail(lease, exc)
        finally:
            self.lease = None
            if django_connections.in_use():
                self._tidy(lease)
        self.desk.observe(monotonic() - begin)

    def _run_coroutines(self, lease: Lease) -> None:
        """Run the job of a lease, an async one, and those async ones that follow, on one event loop."""
        try:
            async_to_sync(self._serve)(lease)
        except BaseException as exc:
            self._fail(self.lease or lease, exc)
        finally:
            self.lease = None

    async def _serve(self, first: Lease) -> None:
        lease: Lease | None = first
        while lease is not None:
            await self._run_one_async(lease)
            lease = self._next_coroutine()
            if lease is None and self.desk.hungry and not self.desk.waiting:
                await asyncio.sleep(LINGER_S)  # the next claim is on its way, and another loop would cost more
                lease = self._next_coroutine()

    async def _run_one_async(self, lease: Lease) -> None:
        """As run_one, on the event loop; what concerns connections is done in this thread itself."""
        if not self._begin(lease):
            return
        begin = monotonic()
        try:
            if django_connections.in_use(self.ident):
                await sync_to_async(django_connections.before_job)()
            self._settle(lease, await perform_async(lease, self.recipes, self.guard))
        except Exception as exc:
            self._fail(lease, exc)
        self.lease = None
        if django_connections.in_use(self.ident):
            await sync_to_async(self._tidy)(lease)
        self.desk.observe(monotonic() - begin)

    def _next_coroutine(self) -> Lease | None:
        """The next lease if its job is async; any other one stays where it is."""
        waiting = self.desk.waiting
        if self.stopping:
            return None
        try:
            lease = waiting.popleft()
        except IndexError:
            return None
        if not self.recipes.are_async(lease.job.task):
            waiting.appendleft(lease)
            return None
        if waiting and self.desk.parked:
            self.desk.wake_one()
        return lease

    def _begin(self, lease: Lease) -> bool:
        """Start a lease; False when no job may start any more, or this one must not since its breaker is open."""
        refusal = self.guards.refusal(lease.job)
        if refusal is not None:
            self.desk.settle(lease, refusal)
            return False
        if self.desk.closed or not self.desk.start(lease):
            self.desk.settle(lease, RELEASED)
            return False
        self.lease = lease
        return True

    def _settle(self, lease: Lease, outcome: Outcome) -> None:
        desk = self.desk
        if lease.ending:
            desk.leave(lease, outcome)
        elif not desk.settle(lease, outcome):
            desk.late += 1
            messages.late(lease, desk.late)

    def _fail(self, lease: Lease, exc: BaseException) -> None:
        """An error outside of the body. It costs an attempt all the same: handed back, the job would meet it again at once."""
        outcome = of_error_of_ours(exc)
        if lease.ending:
            self.desk.leave(lease, outcome)  # SQL refuses it where the job has completed
        else:
            self.desk.settle(lease, outcome)
        messages.error_of_ours(lease, exc)

    def _tidy(self, lease: Lease) -> None:
        for alias in django_connections.after_job():
            messages.left_open(lease, alias)

    def _rest(self) -> None:
        """Sleep until the desk has something. Parked first and looked once more, so that nothing is missed."""
        desk = self.desk
        if not self.is_parked:
            self.is_parked = True
            desk.parked.append(self)
        if desk.waiting or self.stopping:
            desk.unpark(self)
            return
        if django_connections.in_use():
            if self.bell.wait(django_connections.IDLE_CLOSE_S):
                return
            django_connections.close_idle()
        self.bell.wait(3600.0)

    def stop(self) -> None:
        """End the thread once its job is over."""
        self.stopping = True
        self.bell.ring()
