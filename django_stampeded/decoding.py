"""JSON values to what a parameter's type annotation asks for, exactly or not at all.

Pure; the way out is encoding.py. A value that does not fit raises Misfit with the reason: nothing is
guessed, so that no job runs with another argument than the one that was meant. Reasons name paths, never
values.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
import types
import typing
from collections import abc
from collections.abc import Callable, Collection
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum, Flag
from inspect import Parameter
from typing import Any
from uuid import UUID

from django.utils.dateparse import parse_duration

from django_stampeded.encoding import encode_value, safe_text
from django_stampeded.exceptions import InvalidArguments

Decoder = Callable[[Any], Any]


class Misfit(Exception):
    """A JSON value that does not fit its annotation. Each level adds its part of the path on the way up."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.parts: list[str] = []

    @property
    def path(self) -> str:
        """Where inside the argument the culprit is, "" for the argument itself."""
        return "".join(reversed(self.parts))


def parse(text: str) -> dict[str, Any]:
    """The JSON object in `text`. Raises Misfit for one that Python cannot read, such as 10,000 nested
    lists."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise Misfit("is nested too deep for Python's JSON reader") from None
    except ValueError:
        raise Misfit("is no JSON that Python can read") from None
    if not isinstance(value, dict):
        raise Misfit(f"is {_kind(value)}, not an object")
    return value


def decoder_for(annotation: Any) -> Decoder:
    """The function that turns a JSON value into what `annotation` says.

    Knows None, bool, int, float, str, datetime, date, time, timedelta, Decimal, UUID, enums, Literal,
    dataclasses, TypedDict, pydantic models, list, tuple, dict and their abstract kinds, Optional and
    unions, NewType, Annotated and type aliases. A value of any other annotation must already be an instance
    of it.

    Example: `decoder_for(datetime)("2030-01-01T00:00:00+00:00")`
    """
    if annotation in (Any, object, Parameter.empty):
        return _as_it_is
    if annotation is None:
        return _SCALARS[type(None)]
    if isinstance(annotation, typing.TypeVar):
        return decoder_for(annotation.__bound__ or Any)
    if isinstance(annotation, typing.NewType):
        return decoder_for(annotation.__supertype__)
    if sys.version_info >= (3, 12) and isinstance(annotation, typing.TypeAliasType):
        return decoder_for(annotation.__value__)
    origin = typing.get_origin(annotation) or annotation
    inner = typing.get_args(annotation)
    if origin is typing.Annotated:
        return decoder_for(inner[0])
    if origin is typing.Literal:
        return _literal(inner)
    if origin in (typing.Union, types.UnionType):
        return _union(inner)
    if isinstance(origin, type):
        return _class(origin, inner)
    raise Misfit(f"has an annotation that no JSON value decodes into ({annotation!r})")


def _class(cls: type, inner: tuple[Any, ...]) -> Decoder:
    if cls in _SCALARS:
        return _SCALARS[cls]
    if cls is tuple:
        return _tuple(inner)
    if cls in _LISTS:
        return _list(decoder_for(inner[0]) if inner else _as_it_is)
    if cls in _DICTS:
        return _dict(*(decoder_for(each) for each in inner)) if inner else _dict(_as_it_is, _as_it_is)
    if issubclass(cls, Enum):
        return _enum(cls)
    if typing.is_typeddict(cls):
        return functools.partial(_object, cls, dict)
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and issubclass(cls, pydantic.BaseModel):
        return functools.partial(_built, cls, cls.model_validate)  # type: ignore[attr-defined]
    if dataclasses.is_dataclass(cls):
        return functools.partial(_object, cls, cls)
    return functools.partial(_instance, cls)


def _as_it_is(value: Any) -> Any:
    return value


def _exactly(cls: type) -> Decoder:
    def decode(value: Any) -> Any:
        if type(value) is not cls:
            raise Misfit(f"must be {_KINDS[cls]}, not {_kind(value)}")
        return value

    return decode


def _integer(value: Any) -> int:
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is not int:
        raise Misfit(f"must be a whole number, not {_kind(value)}")
    return value


def _float(value: Any) -> float:
    if type(value) not in (int, float):
        raise Misfit(f"must be a number, not {_kind(value)}")
    try:
        return float(value)
    except OverflowError:
        raise Misfit("must be a number, not one too large for a float") from None


def _decimal(value: Any) -> Decimal:
    if type(value) is float and len(repr(value).strip("-0").replace(".", "")) > 15:
        raise Misfit("must be the text of a decimal: as a JSON number it has lost digits")
    if type(value) is not str and type(value) not in (int, float):
        raise Misfit(f"must be the text of a decimal, not {_kind(value)}")
    try:
        number = Decimal(value if type(value) is str else repr(value))
    except InvalidOperation:
        raise Misfit("must be the text of a decimal, which this is not") from None
    if not number.is_finite():
        raise Misfit("must be a finite decimal")
    return number


def _from_text(word: str, read: Callable[[str], Any]) -> Decoder:
    def decode(value: Any) -> Any:
        if type(value) is not str:
            raise Misfit(f"must be {word}, not {_kind(value)}")
        try:
            result = read(value)
        except (ValueError, OverflowError):
            result = None
        if result is None:
            raise Misfit(f"must be {word}, which this text is not")
        return result

    return decode


def _enum(cls: type[Enum]) -> Decoder:
    # By the text of the encoded value: so 1 is not True, and members whose values are dates are found too.
    members = {_spelled(member.value): member for member in cls}

    def decode(value: Any) -> Enum:
        found = members.get(_spelled(value))
        if found is not None:
            return found
        if issubclass(cls, Flag) and type(value) is int:
            return _built(cls, cls, value)
        raise Misfit(f"must be the value of a {cls.__name__}, which this is not")

    return decode


def _literal(allowed: tuple[Any, ...]) -> Decoder:
    choices = {_spelled(each): each for each in allowed}

    def decode(value: Any) -> Any:
        try:
            return choices[_spelled(value)]
        except KeyError:
            raise Misfit("must be one of the values that its Literal annotation lists") from None

    return decode


def _spelled(value: Any) -> str | None:
    try:
        return encode_value(value, path="")
    except InvalidArguments:
        return None


def _union(members: tuple[Any, ...]) -> Decoder:
    """First the member of exactly the JSON value's own type, then the others as written, text last.

    So `int | float` keeps 5.0 a float, and `str | datetime` makes a datetime of what is one.
    """
    exact = {each: _SCALARS[each] for each in members if each in (bool, int, float, type(None))}
    tries = [decoder_for(each) for each in members if each is not str and each not in exact]
    tries += [decoder for each, decoder in exact.items() if each in (int, float)]
    if str in members:
        tries.append(_SCALARS[str])

    def decode(value: Any) -> Any:
        if type(value) in exact:
            return exact[type(value)](value)
        for decoder in tries:
            try:
                return decoder(value)
            except Misfit:
                continue
        raise Misfit("fits none of the types of its union")

    return decode


def _list(decode_item: Decoder) -> Decoder:
    def decode(value: Any) -> list[Any]:
        if type(value) is not list:
            raise Misfit(f"must be a list, not {_kind(value)}")
        out: list[Any] = []
        try:
            for item in value:
                out.append(decode_item(item))
        except Misfit as misfit:
            misfit.parts.append(f"[{len(out)}]")
            raise
        return out

    return decode


def _tuple(inner: tuple[Any, ...]) -> Decoder:
    if not inner or inner[-1] is ...:
        listed = _list(decoder_for(inner[0]) if inner else _as_it_is)
        return lambda value: tuple(listed(value))
    decoders = [decoder_for(each) for each in inner]

    def decode(value: Any) -> tuple[Any, ...]:
        if type(value) is not list or len(value) != len(decoders):
            raise Misfit(f"must be a list of {len(decoders)} values")
        return tuple(_at(f"[{i}]", decoder, value[i]) for i, decoder in enumerate(decoders))

    return decode


def _dict(decode_key: Decoder, decode_item: Decoder) -> Decoder:
    def decode(value: Any) -> dict[Any, Any]:
        if type(value) is not dict:
            raise Misfit(f"must be an object, not {_kind(value)}")
        return {_at(_dotted(key), decode_key, key): _at(_dotted(key), decode_item, item) for key, item in value.items()}

    return decode


def _at(part: str, decode_item: Decoder, item: Any) -> Any:
    try:
        return decode_item(item)
    except Misfit as misfit:
        misfit.parts.append(part)
        raise


def _dotted(key: str) -> str:
    return f".{safe_text(key, 64)}"


def _object(cls: type, build: Callable[..., Any], value: Any) -> Any:
    """A dataclass instance or a TypedDict from a JSON object with exactly its fields."""
    if type(value) is not dict:
        raise Misfit(f"must be an object, not {_kind(value)}")
    decoders, required = _members(cls)
    for name in value:
        if name not in decoders:
            raise Misfit(f"has the key {safe_text(name, 64)!r}, which {cls.__name__} does not")
    for name in required:
        if name not in value:
            raise Misfit(f"lacks the key {name!r}, which {cls.__name__} needs")
    members = {name: _at(_dotted(name), decoders[name], item) for name, item in value.items()}
    return _built(cls, functools.partial(build, **members))


@functools.lru_cache(maxsize=1024)
def _members(cls: Any) -> tuple[dict[str, Decoder], list[str]]:
    """The decoder of each field and the names of those that must be there; worked out once, when first
    needed."""
    hints = resolved(cls)
    if typing.is_typeddict(cls):
        return {name: decoder_for(hint) for name, hint in hints.items()}, sorted(cls.__required_keys__)
    fields = [each for each in dataclasses.fields(cls) if each.init]
    missing = dataclasses.MISSING
    required = [each.name for each in fields if each.default is missing and each.default_factory is missing]
    return {each.name: decoder_for(hints[each.name]) for each in fields}, required


def resolved(owner: Any, names: Collection[str] | None = None) -> dict[str, Any]:
    """The annotations of a class or function as objects, all or those of `names`.

    Raises Misfit when one of them names what is not there at run time.
    """
    annotations = owner
    if names is not None:
        # Only these: what the context's or the result's annotation names may be imported for type checkers alone.
        found = {name: hint for name, hint in owner.__annotations__.items() if name in names}
        annotations = types.SimpleNamespace(__annotations__=found, __type_params__=())
    try:
        return typing.get_type_hints(annotations, globalns=getattr(owner, "__globals__", None))
    except (NameError, TypeError, AttributeError) as exc:
        raise Misfit(
            f"has annotations that do not resolve ({exc}): import what they name at run time, not under TYPE_CHECKING"
        ) from None


def _built(cls: type, build: Callable[..., Any], *values: Any) -> Any:
    try:
        return build(*values)
    except Exception as exc:
        raise Misfit(f"cannot be made into a {cls.__name__} ({type(exc).__name__})") from exc


def _instance(cls: type, value: Any) -> Any:
    try:
        fits = isinstance(value, cls)
    except TypeError:  # a protocol that cannot be checked at run time
        fits = False
    if not fits:
        raise Misfit(f"is {_kind(value)}, which is no {cls.__name__} and cannot be decoded into one")
    return value


def _datetime(text: str) -> datetime:
    if len(text) <= 10:  # a mere date, which fromisoformat would take for midnight
        raise ValueError
    return datetime.fromisoformat(text)


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), type(value).__name__)


_KINDS = {
    type(None): "null",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}

_SCALARS: dict[Any, Decoder] = {
    type(None): _exactly(type(None)),
    bool: _exactly(bool),
    str: _exactly(str),
    int: _integer,
    float: _float,
    Decimal: _decimal,
    datetime: _from_text("an ISO 8601 date with time", _datetime),
    date: _from_text("an ISO 8601 date", date.fromisoformat),
    time: _from_text("an ISO 8601 time of day", time.fromisoformat),
    timedelta: _from_text("an ISO 8601 duration", parse_duration),
    UUID: _from_text("a UUID", UUID),
}

_LISTS = {list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable}
_DICTS = {dict, abc.Mapping, abc.MutableMapping}
