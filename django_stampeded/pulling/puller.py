"""The public Puller: gives a program jobs to run by itself, one lease each.

Owns the calls and their errors. Claiming, heartbeats, limits and the recording of outcomes are the worker's own parts.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator
from datetime import timedelta
from time import monotonic
from types import TracebackType
from typing import Any

from django.db import connections

from django_stampeded.columns import is_name
from django_stampeded.conf import settings
from django_stampeded.exceptions import InvalidOption, PullerClosed
from django_stampeded.pulling.lease import Lease
from django_stampeded.pulling.session import Session
from django_stampeded.results import seconds_of
from django_stampeded.worker.lease import Lease as Held
from django_stampeded.worker.options import WorkerOptions
from django_stampeded.worker.outcomes import of_bad_arguments
from django_stampeded.worker.raw_json import loaded
from django_stampeded.worker.selection import Selection

NO_END_S = float("inf")


class Puller:
    """Pulls jobs for code of your own, from any number of threads. To the queue it is one worker.

    Args:
        queues: a name or several, None for every queue that has work.
        max_leases: how many jobs it holds at a time, 1 to 1,000, those that no call has been given yet included. It claims
            for calls that wait, and ahead of them where jobs are short.
        using: a database alias; the setting DATABASE when None.

    It registers with its first `next`, or when it is entered, and takes its intervals from the settings. Call `close`, or use
    it as a context manager; one that is forgotten, or open when the interpreter ends, is closed as by `close()`. It does not
    survive a fork: the child needs another one. Raises InvalidOption for what is none of these.

    Example:
        with Puller(queues=["pdf"]) as puller:
            for lease in puller:
                with lease:
                    lease.complete(render(**lease.args))
    """

    def __init__(self, queues: str | Iterable[str] | None = None, *, max_leases: int = 8, using: str | None = None) -> None:
        if not isinstance(max_leases, int) or isinstance(max_leases, bool) or not 1 <= max_leases <= 1000:
            raise InvalidOption("max_leases must be a whole number from 1 to 1000.")
        alias = using or settings.DATABASE
        if connections[alias].vendor != "postgresql":
            raise InvalidOption(f"using must be the alias of a PostgreSQL database, which {alias!r} is not.")
        self._options = WorkerOptions(selection=Selection(_names(queues)), threads=max_leases, alias=alias)
        self._session: Session | None = None
        self._stopped = False
        self._starting = threading.Lock()

    def next(self, timeout: timedelta | float | None = None) -> Lease | None:
        """The next job, waiting for one if need be. Callable from any thread, and from many at once.

        `timeout` is seconds or a timedelta, None for as long as it takes. Returns None when there is none by then. Raises
        PullerClosed once the Puller is stopped or closed, and in a forked process; SchemaMismatch and ServerTooOld for a
        database that won't do.

        Example: `lease = puller.next(timeout=5)`
        """
        session = self._begun()
        until = monotonic() + _seconds(timeout)
        while True:
            held = session.desk.take(until - monotonic())
            if held is not None:
                lease = self._decoded(held, session)
                if lease is not None:
                    return lease
            elif session.refusal is not None:
                raise session.refusal
            elif session.desk.closed:
                raise _closed()
            elif timeout is not None and monotonic() >= until:
                return None

    def __iter__(self) -> Iterator[Lease]:
        """One lease after the other, until the Puller is stopped or closed."""
        while True:
            try:
                lease = self.next()
            except PullerClosed:
                if self._session is not None:
                    self._session.check_process()
                return
            if lease is not None:
                yield lease

    def stop(self) -> None:
        """Gives no more leases: loops over it end, calls of `next` raise PullerClosed. The leases given out live on until
        `close`. Returns at once; safe in a signal handler."""
        self._stopped = True
        if self._session is not None:
            self._session.desk.close()

    def close(self, grace: timedelta | float = 0.0) -> None:
        """Stops, hands back what no call was given, and ends the leases given out that have no outcome within `grace`
        (seconds or a timedelta): those jobs go back as interruptions. Returns when that is on record.

        Closing again, and closing the copy in a forked process, does nothing.
        """
        self.stop()
        if self._session is not None:
            self._session.close(_seconds(grace))

    def __enter__(self) -> Puller:
        self._begun()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def _begun(self) -> Session:
        session = self._session
        if session is not None:
            session.check_process()
        if self._stopped:
            raise _closed()
        if session is not None:
            return session
        with self._starting:
            if self._session is None:
                self._session = Session(self._options)
                weakref.finalize(self, self._session.abandon).atexit = False  # which session.py sees to, and waits for
            return self._session

    def _decoded(self, held: Held, session: Session) -> Lease | None:
        """The lease for the caller; None for a job whose JSON Python can't read, which is discarded."""
        try:
            for text in (held.job.args, held.job.meta, held.job.checkpoint):
                loaded(text)
        except (ValueError, RecursionError) as exc:
            session.desk.settle(held, of_bad_arguments(exc))
            return None
        return Lease(held, session, self)

    def __repr__(self) -> str:
        return f"<Puller {self._options.selection} of {self._options.alias}>"


def _names(queues: Any) -> tuple[str, ...] | None:
    if queues is None:
        return None
    names = (queues,) if isinstance(queues, str) else tuple(dict.fromkeys(queues))
    if not names or not all(map(is_name, names)):
        raise InvalidOption("queues must be names of 1 to 255 characters, or None for every queue.")
    return names


def _seconds(timeout: timedelta | float | None) -> float:
    return NO_END_S if timeout is None else seconds_of(timeout)


def _closed() -> PullerClosed:
    return PullerClosed("This Puller is closed: make a new one to pull more jobs.")
