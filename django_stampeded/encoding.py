"""Python values to JSON text that PostgreSQL stores as jsonb, or one clear refusal and nothing written.

Pure. The way back is decoding.py; which arguments a task takes is for arguments.py. A refusal names the path
of the culprit (`args.rows[3]`) and never its value, for it ends up in logs.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Collection
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from types import NoneType
from typing import Any
from uuid import UUID

from django.utils.duration import duration_iso_string
from django.utils.functional import Promise

from django_stampeded.exceptions import InvalidArguments

MAX_BYTES = 1_048_576
"""The most bytes that a job's arguments, or its meta, may take."""

MAX_DEPTH = 64
"""The deepest nesting. JSON readers of other languages stop at 64 to 128 levels; every worker can read this."""

_write = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode

# Scalars that the JSON writer renders just as jsonb gives them back; only their characters need a look.
_AS_THEY_ARE = frozenset({str, int, bool, NoneType})

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class _Refused(Exception):
    """What is wrong with a value. Each level that it passes on its way up adds its own part of the path."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.parts: list[str] = []


def encode(value: dict[str, Any], *, path: str = "args", limit: int = MAX_BYTES) -> str:
    """The JSON text of a dict with string keys.

    `path` is what refusals call it; `limit` is its largest size in bytes. Raises InvalidArguments for what
    JSON or PostgreSQL cannot hold, for nesting deeper than MAX_DEPTH, and for too large a text.

    Example: `encode({"path": "a.csv"}) == '{"path":"a.csv"}'`
    """
    for key, item in value.items():
        if type(item) not in _AS_THEY_ARE or type(key) is not str:
            return encode_value(value, path=path, limit=limit)
    try:
        text = _write(value)
        size = len(text) if text.isascii() else len(text.encode())
    except ValueError:
        return encode_value(value, path=path, limit=limit)
    if size > limit or "\\u0000" in text:
        return encode_value(value, path=path, limit=limit)
    return text


def encode_value(value: Any, *, path: str, limit: int = MAX_BYTES) -> str:
    """The JSON text of any value: a step's result, a checkpoint, one argument.

    Accepts what JSON has, tuples (they become lists), datetime, date, time, timedelta, Decimal, UUID, enum
    members (by value), dataclass instances and pydantic models (by field), and lazy translations (resolved
    in the language of the moment). `path` and `limit` and the errors are those of `encode`.
    """
    try:
        text = _write(plain(value))
    except _Refused as refusal:
        where = path + "".join(reversed(refusal.parts))
        raise InvalidArguments(f"{where} {refusal.reason}.", argument=where) from None
    size = len(text.encode())
    if size > limit:
        raise too_large(path, size, limit)
    return text


def too_large(path: str, size: int, limit: int) -> InvalidArguments:
    """The error for a value that takes `size` bytes where `limit` are allowed."""
    return InvalidArguments(
        f"{path} takes {size} bytes as JSON, more than the {limit} allowed: "
        "keep the data in a table or a file and pass its id or path.",
        argument=path,
    )


def canonical(text: str, names: Collection[str] | None = None) -> str:
    """The JSON object in `text`, or its members of `names`, in a spelling that only an equal one has.

    The order of keys makes no difference; 1 and 1.0 differ, as do a member that is null and one that is not there.
    """
    value = json.loads(text)
    if names is not None:
        value = {name: value[name] for name in names if name in value}
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def safe_text(text: str, limit: int) -> str:
    """`text` as PostgreSQL can store it: at most `limit` characters, NULs and lone surrogates as U+FFFD.

    Example: `safe_text("a\\x00b", 4000) == "a\\ufffdb"`
    """
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return _UNSTORABLE.sub("\ufffd", text)


def plain(value: Any, depth: int = 0) -> Any:
    """`value` made of dict, list, str, int, float, bool and None alone."""
    kind = type(value)
    if kind is str:
        return _text(value)
    if kind is int:
        return _integer(value)
    if kind is bool or value is None:
        return value
    if depth > MAX_DEPTH:
        raise _Refused(f"is nested deeper than {MAX_DEPTH} levels: pass a flatter value")
    for base, convert in _CONVERSIONS:
        if isinstance(value, base):
            return convert(value, depth)
    if is_dataclass(value) and not isinstance(value, type):
        return _object({each.name: getattr(value, each.name) for each in fields(value) if each.init}, depth)
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and isinstance(value, pydantic.BaseModel):
        return _object(value.model_dump(mode="json"), depth)
    raise _Refused(_why_not(value))


def _object(value: dict[Any, Any], depth: int) -> dict[str, Any]:
    out = {}
    for key, item in value.items():
        if not isinstance(key, str) or isinstance(key, Enum):
            raise _Refused(f"has a key of type {type(key).__name__}: make the keys of an object text")
        try:
            out[_text(key)] = plain(item, depth + 1)
        except _Refused as refusal:
            refusal.parts.append(f".{safe_text(key, 64)}")
            raise
    return out


def _array(value: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
    out: list[Any] = []
    try:
        for item in value:
            out.append(plain(item, depth + 1))
    except _Refused as refusal:
        refusal.parts.append(f"[{len(out)}]")
        raise
    return out


def _text(value: str) -> str:
    if "\x00" in value:
        raise _Refused("contains a NUL character, which PostgreSQL cannot store: remove it")
    try:
        value.isascii() or value.encode()
    except UnicodeEncodeError:
        raise _Refused(
            "contains a lone surrogate, which is no valid text: decode the bytes it came from with errors='replace'"
        ) from None
    return str(value)


def _integer(value: int) -> int:
    # Longer ones could not be read back: sys.get_int_max_str_digits() is 4300 unless changed, a bit is
    # 0.301 digits.
    if value.bit_length() > 14_000:
        raise _Refused("is a whole number of more than 4200 digits: pass it as text")
    return int(value)


def _float(value: float) -> float | int:
    if not math.isfinite(value):
        raise _Refused("is NaN or infinite, which JSON cannot hold: pass None or a text instead")
    number = float(value)
    if abs(number) >= 1e16:
        # jsonb gives 1e16 back as the digits 10000000000000000, which any reader takes for an integer.
        # Sending it as one makes a job that never saw the database (tests) get the same type as one that
        # did.
        return int(number)
    return number or 0.0  # jsonb has no negative zero


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise _Refused("is NaN or infinite, which JSON cannot hold: pass None or a text instead")
    return str(value)


def _moment(value: datetime | date) -> str:
    # The base class's isoformat, since a subclass may print more (pandas prints nanoseconds); and pandas'
    # "not a time", which is a datetime too, is the one that differs from itself.
    if value != value:
        raise _Refused("is not a time: pass None instead")
    return datetime.isoformat(value) if isinstance(value, datetime) else date.isoformat(value)


def _time(value: time) -> str:
    if value.tzinfo is not None:
        raise _Refused("is a time of day with a time zone, which has no meaning without a date: pass a datetime")
    return time.isoformat(value)


_CONVERSIONS: tuple[tuple[type, Callable[[Any, int], Any]], ...] = (
    (Enum, lambda value, depth: plain(value.value, depth)),
    (str, lambda value, depth: _text(value)),
    (int, lambda value, depth: _integer(value)),
    (float, lambda value, depth: _float(value)),
    (dict, _object),
    (list, _array),
    (tuple, _array),
    (datetime, lambda value, depth: _moment(value)),
    (date, lambda value, depth: _moment(value)),
    (time, lambda value, depth: _time(value)),
    (timedelta, lambda value, depth: duration_iso_string(value)),
    (Decimal, lambda value, depth: _decimal(value)),
    (UUID, lambda value, depth: str(value)),
    (Promise, lambda value, depth: _text(str(value))),
)


def _why_not(value: Any) -> str:
    name = type(value).__name__
    if hasattr(type(value), "_meta") and hasattr(value, "pk"):
        return f"is a {name} model instance, which may change before the job runs: pass its id instead"
    if isinstance(value, set | frozenset):
        return f"is a {name}, which JSON cannot hold: pass a list"
    if isinstance(value, bytes | bytearray | memoryview):
        return f"is {name}, which JSON cannot hold: pass text, such as base64, or the path of a file"
    return f"is of type {name}, which JSON cannot hold: pass text, numbers, lists or dicts"
