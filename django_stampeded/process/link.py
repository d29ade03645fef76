"""One raw connection of ours to the database of an alias: opened when used, dropped when broken, opened again.

Owns how we connect and how an error is read: is the connection gone, may the same statement be tried again, or is it
something else? Django's own connections belong to the threads that run jobs, and are not touched here.

Every such connection is in autocommit and prepares nothing, so that it works through a pooler that hands each
transaction to another server connection. Only the listener needs a session of its own, and it notices when it has none.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Any

import psycopg
from django.db import connections
from psycopg import sql

Cursor = psycopg.Cursor[Any]
Connection = psycopg.Connection[Any]

# A peer that vanished without a word (a pulled cable, a dropped NAT entry) is noticed in about 30 s.
_DEFAULTS: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}

# Errors after which the same words may be said again on the same connection: a deadlock or a serialization failure
# (40), a row that moved to another partition meanwhile (55000), a lock or a statement that took too long.
_AGAIN = frozenset({"40001", "40P01", "55000", "55P03", "57014"})
# A server that shuts down (57P0x) or turned read-only by a failover (25006) is as good as gone: another connection may
# reach its successor.
_LOST = frozenset({"25006", "57P01", "57P02", "57P03", "57P04", "57P05"})


class Trouble(Enum):
    """What an error of the database asks for."""

    LOST = "lost"
    """The connection: drop it, wait a little, connect again."""
    AGAIN = "again"
    """Nothing but another try."""
    OTHER = "other"
    """A look by somebody: trying again would meet the same error."""


def trouble(exc: BaseException) -> Trouble:
    """What an exception met while talking to the database asks for.

    Example: `trouble(psycopg.errors.DeadlockDetected()) is Trouble.AGAIN`
    """
    if not isinstance(exc, psycopg.Error):
        return Trouble.LOST if isinstance(exc, OSError) else Trouble.OTHER
    state = exc.sqlstate or ""
    if state in _AGAIN:
        return Trouble.AGAIN
    # Class 08 is a broken connection, 53 a server short of something (connections, memory, disk): both pass.
    if state in _LOST or state[:2] in ("08", "53"):
        return Trouble.LOST
    if not state and isinstance(exc, psycopg.OperationalError | psycopg.InterfaceError):
        return Trouble.LOST
    return Trouble.OTHER


def parameters(alias: str, role: str) -> dict[str, Any]:
    """How to connect to the database of a Django alias; what the project says in OPTIONS wins over our defaults.

    Raises ImproperlyConfigured as Django does when the alias is not a usable one.
    """
    wrapper = connections[alias]
    given: dict[str, Any] = wrapper.get_connection_params()
    for ours in ("cursor_factory", "context", "prepare_threshold", "autocommit"):
        given.pop(ours, None)
    return {"application_name": f"stampeded {role}", **_DEFAULTS, **given}


class Link:
    """A connection that comes back.

    Args:
        alias: the alias in DATABASES.
        role: who uses it, shown as its application_name where the project gives none.

    `on_open`, where set, is called with each connection before its first use.
    One thread uses a link; `shut` may be called from another one.
    """

    def __init__(self, alias: str, role: str) -> None:
        self.alias = alias
        self.role = role
        self.on_open: Callable[[Connection], None] | None = None
        self._connection: Connection | None = None

    def connection(self) -> Connection:
        """The open connection; connects first where there is none. Raises psycopg.Error when it can't."""
        if self._connection is None or self._connection.closed:
            self._connection = self._connect()
        return self._connection

    def cursor(self) -> Cursor:
        """A cursor on the open connection, as `connection` opens it."""
        return self.connection().cursor()

    def _connect(self) -> Connection:
        opened = psycopg.connect(**parameters(self.alias, self.role), autocommit=True, prepare_threshold=None)
        opened.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # of explicit transactions, whatever the role's default
        role = connections[self.alias].settings_dict["OPTIONS"].get("assume_role")
        if role:
            opened.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
        if self.on_open is not None:
            self.on_open(opened)
        return opened

    @property
    def is_open(self) -> bool:
        """Whether there is a connection that is not known to be broken."""
        return self._connection is not None and not self._connection.closed

    def drop(self) -> None:
        """Close the connection, whatever state it is in; the next use opens another one."""
        gone, self._connection = self._connection, None
        if gone is not None:
            with suppress(psycopg.Error, OSError):  # it may be broken: that is why we drop it
                gone.close()

    def shut(self) -> None:
        """End a wait of the thread that uses this connection, from another thread: it meets a closed connection.

        Closing the socket's two directions is safe under a reader; closing the connection object is not.
        """
        held = self._connection
        if held is None or held.closed:
            return
        # What may go wrong here is that it was closed meanwhile, which is what we wanted.
        with suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(held.fileno())) as twin:
            twin.shutdown(socket.SHUT_RDWR)
