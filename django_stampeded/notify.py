"""The channel on which an install notifies its workers.

Owns the listening side's statements. When a notification is sent is decided in SQL (notify_due, notify_inserted).
"""

from __future__ import annotations

from typing import Any

from psycopg import sql


def channel(cur: Any) -> str:
    """The name of this install's channel: `<schema>.stampeded_insert`, shortened where that wouldn't fit."""
    cur.execute("SELECT stampeded_channel()")
    name: str = cur.fetchone()[0]
    return name


def listen(cur: Any, name: str) -> None:
    """Starts to listen; the connection must be in autocommit and not behind a pooler that pools transactions."""
    cur.execute(sql.SQL("LISTEN {}").format(sql.Identifier(name)))


def probe(cur: Any, name: str, payload: str) -> None:
    """Sends a notification on the channel `name`, to see whether it arrives where we listen to that."""
    cur.execute("SELECT pg_notify(%s, %s)", [name, payload])
