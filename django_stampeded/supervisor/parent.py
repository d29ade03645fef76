"""The loop of the parent: starts children, notices their ends, passes on what it is told, and ends when they have ended.

It has one thread for this, which waits for signals and for its children's words and never for a database; what a dead
child left there is settler.py's. A seat is a place for one child after the other. The child in seat 1 has the
maintenance; the others start once it is ready, so that a database that won't do is reported once.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

from django_stampeded.process.line import AT_ONCE, LEAVING, READY, RECYCLED, REFUSED, RELIEVED, STOP, STOPPED
from django_stampeded.supervisor import messages
from django_stampeded.supervisor.child import ChildProcess, exit_status, how_it_ended
from django_stampeded.supervisor.pacing import Pacing
from django_stampeded.supervisor.settler import Estate, Settler

SLACK_S = 15.0
"""So much longer than the grace period may an orderly end take, for a slow database, before the children are killed."""
HURRY_S = 10.0
LEAVE_S = 5.0
SILENT_BEATS = 2
"""A child that misses so many beats has somebody beat for it."""
NEVER = float("inf")


class Stop(Protocol):
    """What the outside wants: `count` signals so far, and the exit `status` that they ask for."""

    count: int

    @property
    def status(self) -> int:
        """128 + the signal's number where the end is to be at once, else 0."""
        ...


@dataclass(frozen=True, kw_only=True)
class Orders:
    """What a supervisor is to do.

    Args:
        command: what each child executes.
        processes: how many of them.
        alias: the alias in DATABASES that dead children's jobs are settled in.
        grace_period: seconds that running jobs get to end.
        heartbeat_interval: seconds between two beats of a child.
        drain: whether children end when nothing is due, and are not replaced then.
        changed: asked now and then, it names a file for whose sake all children are to be replaced, None for none.
    """

    command: Sequence[str]
    processes: int
    alias: str
    grace_period: float
    heartbeat_interval: float = 5.0
    drain: bool = False
    changed: Callable[[], str | None] | None = None


@dataclass
class Seat:
    """A place for one child, and for those that are leaving it."""

    number: int
    child: ChildProcess | None = None
    leaving: list[ChildProcess] = field(default_factory=list)
    start_at: float = 0.0
    pacing: Pacing = field(default_factory=Pacing)

    @property
    def children(self) -> list[ChildProcess]:
        """All that live."""
        return [*self.leaving, *([self.child] if self.child else [])]


class Supervisor:
    """Runs the children until it is told to stop, or they have all drained the queues.

    Example: `Supervisor(Orders(command=[...], processes=4, alias="default", grace_period=30), stop).run()`
    """

    def __init__(self, orders: Orders, stop: Stop) -> None:
        self.orders = orders
        self.stop = stop
        self.seats = [Seat(number) for number in range(1, orders.processes + 1)]
        self.settler = Settler(orders.alias)
        self._selector = selectors.DefaultSelector()
        self._open = False
        self._stopping = False
        self._hurried = False
        self._refused = False
        self._kill_at = NEVER
        self._stood_in_at = 0.0
        self._silent: list[ChildProcess] = []

    def run(self) -> int:
        """See everything through; returns the exit status. To be called in the main thread."""
        self.settler.start()
        with self._woken_by_signals():
            while True:
                self._collect()
                self._obey()
                self._fill_seats()
                if not any(seat.children for seat in self.seats) and not any(seat.start_at < NEVER for seat in self.seats):
                    break
                self._listen()
        self.settler.stop()
        self.settler.join(LEAVE_S)
        return self.stop.status or int(self._refused)

    @contextmanager
    def _woken_by_signals(self) -> Iterator[None]:
        """While this lasts, a signal ends a wait: also that of a child that ended."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        handler = signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(ours, selectors.EVENT_READ)
        try:
            yield
        finally:
            signal.signal(signal.SIGCHLD, handler)
            signal.set_wakeup_fd(before)
            self._selector.close()
            ours.close()
            theirs.close()

    def _listen(self) -> None:
        for key, _ in self._selector.select(max(0.0, self._next_moment() - monotonic())):
            if isinstance(key.data, ChildProcess):
                self._hear(key.data)
            else:
                with suppress(BlockingIOError):
                    key.fileobj.recv(4096)  # type: ignore[union-attr]

    def _next_moment(self) -> float:
        """When something is to be done even if nothing happens."""
        now = monotonic()
        moments = [now + (1.0 if self.orders.changed else self.orders.heartbeat_interval), self._kill_at]
        for seat in self.seats:
            if seat.child is None and (self._open or seat.number == 1):
                moments.append(seat.start_at)
            if seat.pacing.quick:
                moments.append(now + 1.0)
        return min(moments)

    def _hear(self, child: ChildProcess) -> None:
        said = child.heard()
        if not said:
            self._selector.unregister(child.line)  # it closed its end: its death is on the way
        seat = self.seats[child.number - 1]
        if READY in said:
            child.is_ready = self._open = True
            for old in seat.leaving:
                old.say(RELIEVED)
        if LEAVING in said and child is seat.child and not self._stopping:
            self._succeed(seat)
        if REFUSED in said:
            self._refused = True

    def _succeed(self, seat: Seat) -> None:
        """Start a successor; the child in the seat leaves when that is ready."""
        if seat.child is not None:
            seat.leaving.append(seat.child)
            seat.child = None
            seat.start_at = monotonic()

    def _collect(self) -> None:
        """Take note of every process that ended. As process 1 of a container we inherit those that nobody waits for."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            for seat in self.seats:
                for child in seat.children:
                    if child.pid == pid:
                        self._ended(seat, child, os.waitstatus_to_exitcode(status))

    def _ended(self, seat: Seat, child: ChildProcess, code: int) -> None:
        with suppress(KeyError):
            self._hear(child)
            self._selector.unregister(child.line)
        child.ended(code)
        if child is seat.child:
            seat.child = None
        else:
            seat.leaving.remove(child)
        orderly = child.board.ended_orderly and code in (0, RECYCLED, STOPPED)
        if not child.board.is_settled:
            error = f"The worker process (pid {child.pid}) {how_it_ended(code)} while it ran this job."
            self.settler.take(Estate(child.board.worker_ids, child.board.records(), error, exit_status(code)))
        child.close()
        self._decide(seat, child, code, orderly)

    def _decide(self, seat: Seat, child: ChildProcess, code: int, orderly: bool) -> None:
        """Whether and when the seat gets another child."""
        if self._refused:
            self._begin_to_stop()
        if self._stopping:
            seat.start_at = NEVER
            if not orderly and not self._refused:
                messages.died_stopping(child.number, child.pid, how_it_ended(code))
        elif orderly:
            messages.ended(child.number, child.pid)
            if seat.child is None and seat.start_at < monotonic():
                is_over = code == STOPPED or (self.orders.drain and code == 0)
                seat.start_at = NEVER if is_over else monotonic()
                if self.orders.drain and code == 0 and not self._open:
                    self._open = True
        else:
            self._died(seat, child, how_it_ended(code))

    def _died(self, seat: Seat, child: ChildProcess, how: str) -> None:
        now = monotonic()
        delay = seat.pacing.died(now - child.started_at)
        if seat.child is None:
            seat.start_at = now + delay
        if seat.pacing.in_trouble:
            messages.keep_dying(child.number, seat.pacing.quick, how, delay)
            self.settler.alarm({"role": "supervisor", "children": "keep dying", "deaths": seat.pacing.quick, "last": how})
        else:
            messages.died(child.number, child.pid, how, delay)

    def _obey(self) -> None:
        """Do what the signals so far ask for, and what time asks for."""
        now = monotonic()
        if self.stop.count and not self._stopping:
            self._begin_to_stop()
        if self.stop.count > 1 and not self._hurried:
            self._hurried = True
            self._kill_at = now + HURRY_S
            self._tell(AT_ONCE)
        if now >= self._kill_at:
            self._kill_at = NEVER
            children = [child for seat in self.seats for child in seat.children]
            messages.killing(len(children))
            for child in children:
                child.kill()
        self._stand_in(now)
        if not self._stopping:
            self._look_after(now)

    def _stand_in(self, now: float) -> None:
        """Beat for children that live and don't get to it themselves, so that nobody takes their jobs for abandoned."""
        interval = self.orders.heartbeat_interval
        if now < self._stood_in_at + interval:
            return
        self._stood_in_at = now
        silent = [child for seat in self.seats for child in seat.children if child.is_silent(SILENT_BEATS * interval)]
        for child in silent:
            if child not in self._silent:
                messages.silent(child.number, child.pid)
        self._silent = silent
        if silent:
            self.settler.beat_for([worker_id for child in silent if (worker_id := child.board.worker_id)])

    def _look_after(self, now: float) -> None:
        changed = self.orders.changed() if self.orders.changed else None
        if changed:
            messages.reloading(changed)
        for seat in self.seats:
            if seat.child is not None and seat.pacing.recovered(now - seat.child.started_at):
                messages.recovered(seat.number)
                if not any(each.pacing.in_trouble for each in self.seats):
                    self.settler.alarm(None)
            if changed:
                seat.start_at = min(seat.start_at, now)
                self._succeed(seat)

    def _begin_to_stop(self) -> None:
        if self._stopping:
            return
        self._stopping = True
        self._kill_at = monotonic() + self.orders.grace_period + SLACK_S
        for seat in self.seats:
            seat.start_at = NEVER
        messages.stopping(sum(len(seat.children) for seat in self.seats))
        self._tell(STOP)

    def _tell(self, word: bytes) -> None:
        for seat in self.seats:
            for child in seat.children:
                child.say(word)

    def _fill_seats(self) -> None:
        now = monotonic()
        for seat in self.seats:
            if seat.child is None and now >= seat.start_at and (self._open or seat.number == 1):
                self._start(seat)

    def _start(self, seat: Seat) -> None:
        try:
            seat.child = ChildProcess(self.orders.command, seat.number)
        except OSError as exc:
            delay = seat.pacing.died(0.0) or 1.0
            seat.start_at = monotonic() + delay
            messages.not_started(seat.number, exc, delay)
            return
        self._selector.register(seat.child.line, selectors.EVENT_READ, seat.child)
        messages.started(seat.number, seat.child.pid)
