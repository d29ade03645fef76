"""How the worker's own connections read what hand-made rows may hold: nothing in a row can break the claim of others.

A claim is committed before its rows are read, so an argument nested 10,000 levels deep, or a time before the year 1,
must not raise while a batch is read: the whole batch would be claimed and known to nobody. JSON stays as it came until
the job's own thread decodes it, which spares the claimer that work too.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg import adapt, pq
from psycopg.abc import Buffer

_decode = json.JSONDecoder().decode


class RawJson(bytes):
    """The text of a jsonb value, not yet decoded."""

    __slots__ = ()


def loaded(value: Any) -> Any:
    """The value of a RawJson; any other value as it is.

    Raises ValueError or RecursionError for what Python can't read.
    """
    return _decode(value.decode()) if isinstance(value, RawJson) else value


class _RawJsonLoader(adapt.Loader):
    def load(self, data: Buffer) -> RawJson:
        return RawJson(data)


_Strict = psycopg.adapters.get_loader(psycopg.adapters.types["timestamptz"].oid, pq.Format.TEXT)


class _LenientTimestamptzLoader(adapt.Loader):
    """Infinity and years that Python does not know become the first moment that it does."""

    def __init__(self, oid: int, context: Any = None) -> None:
        super().__init__(oid, context)
        assert _Strict is not None
        self._strict = _Strict(oid, context)

    def load(self, data: Buffer) -> datetime:
        try:
            return self._strict.load(data)
        except (psycopg.DataError, ValueError):
            return datetime.min.replace(tzinfo=UTC)


def read_leniently(connection: psycopg.Connection[Any]) -> None:
    """Make a connection read jsonb unseen and any timestamptz without an error."""
    connection.adapters.register_loader("jsonb", _RawJsonLoader)
    connection.adapters.register_loader("timestamptz", _LenientTimestamptzLoader)
