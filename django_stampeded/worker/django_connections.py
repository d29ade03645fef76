"""Django's own connections in the job threads: kept between jobs, checked, cleaned up, and closed when there is no need.

A request of Django ends by closing what is stale; so does a job. But with CONN_MAX_AGE at its default of 0 each job
would open a connection of its own, so while a thread is busy its connections stay open, and after a while without work
they are closed. A health check before each job would cost a round trip; looking whether the server hung up costs
nothing, so the round trip is left to connections that rested for a while.
"""

from __future__ import annotations

import logging
import select
from contextlib import suppress
from threading import get_ident
from time import monotonic
from typing import Any

import psycopg
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from psycopg.pq import TransactionStatus

REST_S = 5.0
"""A connection unused for so long is asked whether it still works before its next use."""
IDLE_CLOSE_S = 10.0
"""A thread without work for so long closes its connections, where the project did not ask to keep them."""

TOLD = (
    *(b"search_path", b"TimeZone", b"DateStyle", b"client_encoding"),
    *(b"session_authorization", b"default_transaction_read_only"),
)
"""Settings of a session of which the server tells each change unasked, so that comparing them costs no round trip."""

logger = logging.getLogger("django_stampeded.worker")

_connected: set[int] = set()


def _note(connection: BaseDatabaseWrapper, **_: Any) -> None:
    _connected.add(get_ident())
    connection.stampeded_state = _state(connection.connection)  # type: ignore[attr-defined]


def _state(connection: Any) -> tuple[Any, ...] | None:
    """What a job may change about a connection behind Django's back, None where that is no connection of psycopg's."""
    if not isinstance(connection, psycopg.Connection) or connection.closed:
        return None
    told = [connection.pgconn.parameter_status(name) for name in TOLD]
    return (*told, connection.autocommit, connection.isolation_level, connection.read_only, connection.deferrable)


_RECEIVER = "django_stampeded.worker.django_connections"
connection_created.connect(_note, dispatch_uid=_RECEIVER)


def keep_open() -> None:
    """Let this process's threads keep their connections between jobs. For a process that does nothing else.

    What the project says wins: an alias with an age of its own keeps it, and one with a pool must not have any.
    """
    connection_created.disconnect(dispatch_uid=_RECEIVER)
    connection_created.connect(_note, dispatch_uid=_RECEIVER)  # last: what the project's receivers set is no job's doing
    for alias in connections:
        settings = connections.settings[alias]
        if settings["CONN_MAX_AGE"] == 0 and not settings["OPTIONS"].get("pool"):
            settings["CONN_MAX_AGE"] = None
            settings["CONN_HEALTH_CHECKS"] = True
            settings["STAMPEDED_CLOSES_IDLE"] = True


def in_use(thread: int | None = None) -> bool:
    """Whether this thread, or the one of that ident, opened a connection of Django's. Costs next to nothing."""
    return (thread or get_ident()) in _connected


def before_job() -> None:
    """Make sure that a connection that broke meanwhile is replaced and not handed to the job."""
    for wrapper in connections.all(initialized_only=True):
        if wrapper.connection is not None and _may_be_broken(wrapper):
            wrapper.health_check_done = False  # type: ignore[attr-defined]


def after_job() -> list[str]:
    """Leave no transaction, no settings, no broken connection and no worn-out one to the next job. Raises nothing.

    Returns the aliases on which the job had left a transaction open: what it did there is rolled back.
    """
    left_open = []
    for wrapper in connections.all(initialized_only=True):
        try:
            if _tidy(wrapper):
                left_open.append(wrapper.alias)
        except Exception:
            logger.warning("A database connection of a job could not be tidied up and is closed.", exc_info=True)
            discard(wrapper)
    return left_open


def _tidy(wrapper: BaseDatabaseWrapper) -> bool:
    """Prepare a connection for the next job, or give it up. Whether a transaction was open that Django knows nothing of."""
    wrapper.queries_log.clear()  # as after a request: with DEBUG, Django keeps thousands of statements a connection
    if wrapper.in_atomic_block:
        discard(wrapper)  # an interrupt struck inside atomic() and left it half-way
        return False
    if _is_altered(wrapper):
        left_open: bool = wrapper.connection.pgconn.transaction_status != TransactionStatus.IDLE
        with suppress(psycopg.Error):
            wrapper.connection.close()  # itself, or a pool would hand it to somebody else
        discard(wrapper)
        return left_open
    wrapper.close_if_unusable_or_obsolete()
    if wrapper.connection is not None:
        wrapper.health_check_done = True  # type: ignore[attr-defined]
        wrapper.stampeded_used_at = monotonic()  # type: ignore[attr-defined]
    return False


def _is_altered(wrapper: BaseDatabaseWrapper) -> bool:
    """Whether the job has left a transaction open, or set something of the session, by statements that Django doesn't see.

    The next job would work in that transaction, which nobody commits, or with those settings.
    """
    state = _state(wrapper.connection)
    if state is None:
        return False
    idle = wrapper.connection.pgconn.transaction_status == TransactionStatus.IDLE
    return not idle or state != getattr(wrapper, "stampeded_state", state)


def close_idle() -> None:
    """Close the connections of a thread that has nothing to do, but those that the project wants kept."""
    for wrapper in connections.all(initialized_only=True):
        if wrapper.settings_dict.get("STAMPEDED_CLOSES_IDLE"):
            wrapper.close()
    if all(wrapper.connection is None for wrapper in connections.all(initialized_only=True)):
        _connected.discard(get_ident())


def close_all() -> None:
    """The thread ends: close everything."""
    if in_use():
        for wrapper in connections.all(initialized_only=True):
            discard(wrapper)
        _connected.discard(get_ident())


def discard(wrapper: BaseDatabaseWrapper) -> None:
    """Close a connection whatever state it is in, and forget its wrapper with that state."""
    try:
        wrapper.close()
    except Exception:
        pass  # what matters is that nobody uses it again
    finally:
        del connections[wrapper.alias]


def _may_be_broken(wrapper: BaseDatabaseWrapper) -> bool:
    """Whether the server said something unasked for, such as good-bye, or the connection rested for long."""
    if monotonic() - getattr(wrapper, "stampeded_used_at", 0.0) > REST_S:
        return True
    try:
        poller = select.poll()
        poller.register(wrapper.connection.fileno(), select.POLLIN)
        return bool(poller.poll(0))
    except Exception:
        return True  # not a connection that we can look at, or one that is closed: let Django ask it
