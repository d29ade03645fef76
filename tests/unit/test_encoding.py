"""Python values to JSON text: what is stored, what is refused and how."""

import json
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from uuid import UUID

import numpy
import pytest
from django.contrib.auth.models import User
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy

from django_stampeded.encoding import MAX_BYTES, MAX_DEPTH, canonical, encode, encode_value, safe_text
from django_stampeded.exceptions import InvalidArguments


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Word(StrEnum):
    YES = "yes"


@dataclass
class Line:
    sku: str
    price: Decimal
    tags: list[str] = field(default_factory=list)
    computed: int = field(init=False, default=0)


Pair = namedtuple("Pair", "left right")


class Nanoseconds(datetime):
    """Prints more than the base class, as pandas' timestamps do."""

    def isoformat(self, *args):
        return super().isoformat(*args) + "789"


class NotATime(datetime):
    """Differs from itself, as pandas' NaT does."""

    def __ne__(self, other):
        return True

    __hash__ = datetime.__hash__


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (-2.5, -2.5),
        ("Zażółć 😀", "Zażółć 😀"),
        ("\\u0000", "\\u0000"),
        (mark_safe("<b>"), "<b>"),
        ([1, [2]], [1, [2]]),
        ((1, 2), [1, 2]),
        (Pair(1, "b"), [1, "b"]),
        (OrderedDict(a=1), {"a": 1}),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Word.YES, "yes"),
        (datetime(2030, 1, 2, 3, 4, 5, 678901, UTC), "2030-01-02T03:04:05.678901+00:00"),
        (datetime(2030, 1, 2), "2030-01-02T00:00:00"),
        (date(2030, 1, 2), "2030-01-02"),
        (time(3, 4, 5, 6), "03:04:05.000006"),
        (timedelta(days=1, microseconds=5), "P1DT00H00M00.000005S"),
        (Decimal("1.10"), "1.10"),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (Line("a", Decimal("2.50"), ["x"]), {"sku": "a", "price": "2.50", "tags": ["x"]}),
        (gettext_lazy("yes"), "yes"),
        (numpy.float64(1.5), 1.5),
        (Nanoseconds(2030, 1, 2, 3, 4, 5, 123456), "2030-01-02T03:04:05.123456"),
    ],
)
def test_a_value_is_stored_as_plain_json(value, stored):
    assert json.loads(encode({"x": value})) == {"x": stored}
    assert json.loads(encode({"x": [value]})) == {"x": [stored]}
    assert json.loads(encode_value(value, path="result")) == stored


@pytest.mark.parametrize(
    ("value", "where", "what"),
    [
        (float("nan"), "args.x", "NaN or infinite"),
        (float("inf"), "args.x", "NaN or infinite"),
        (numpy.float64("inf"), "args.x", "NaN or infinite"),
        (Decimal("NaN"), "args.x", "NaN or infinite"),
        (Decimal("sNaN"), "args.x", "NaN or infinite"),
        ([1, {"a": [0.0, float("nan")]}], "args.x[1].a[1]", "NaN or infinite"),
        ("a\x00b", "args.x", "NUL character"),
        (["a", "\x00"], "args.x[1]", "NUL character"),
        ({"\x00": 1}, "args.x.\ufffd", "NUL character"),
        ("\ud800", "args.x", "lone surrogate"),
        ({"a": "b\udcff"}, "args.x.a", "lone surrogate"),
        ({1: "a"}, "args.x", "key of type int"),
        ({None: "a"}, "args.x", "key of type NoneType"),
        ({Word.YES: "a"}, "args.x", "key of type Word"),
        ({1, 2}, "args.x", "pass a list"),
        (frozenset(), "args.x", "pass a list"),
        (b"abc", "args.x", "base64"),
        (object(), "args.x", "type object"),
        (len, "args.x", "which JSON cannot hold"),
        (1j, "args.x", "type complex"),
        (numpy.int64(3), "args.x", "type int64"),
        (NotATime(2030, 1, 2), "args.x", "not a time"),
        (time(1, tzinfo=UTC), "args.x", "time zone"),
        pytest.param(10**4300, "args.x", "whole number", id="huge"),
        (User(username="ann"), "args.x", "pass its id instead"),
        ([User(username="ann")], "args.x[0]", "pass its id instead"),
        (User, "args.x", "which JSON cannot hold"),
        (Line, "args.x", "which JSON cannot hold"),
        (Line("a", Decimal("inf")), "args.x.price", "NaN or infinite"),
    ],
)
def test_what_json_or_postgresql_cannot_hold_is_refused_with_its_path(value, where, what):
    with pytest.raises(InvalidArguments) as caught:
        encode({"ok": 1, "x": value})
    assert caught.value.argument == where
    assert str(caught.value).startswith(f"{where} ")
    assert what in str(caught.value)
    assert str(caught.value).endswith(".")


def test_nesting_is_limited():
    def nested(levels):
        value = 1
        for _ in range(levels):
            value = [value]
        return value

    assert encode({"x": nested(MAX_DEPTH)})
    with pytest.raises(InvalidArguments, match="nested deeper than 64 levels: pass a flatter value"):
        encode({"x": nested(MAX_DEPTH + 1)})
    with pytest.raises(InvalidArguments, match="nested deeper than 64 levels"):
        encode({"x": nested(100_000)})


def test_a_structure_that_contains_itself_is_refused():
    loop = {}
    loop["again"] = loop
    with pytest.raises(InvalidArguments, match="nested deeper"):
        encode({"x": loop})


@pytest.mark.parametrize("value", ["secret-" + "x" * MAX_BYTES, ["secret-" + "é" * (MAX_BYTES // 2)]])
def test_a_value_larger_than_a_mebibyte_is_refused_without_showing_it(value):
    with pytest.raises(InvalidArguments, match=r"^args takes \d+ bytes as JSON, more than the 1048576 allowed") as caught:
        encode({"x": value})
    assert "secret" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", ["s3cret\x00", {"s3cret", 1}, b"s3cret", [float("nan"), "s3cret"], {1: "s3cret"}])
def test_a_refusal_never_shows_the_value(value):
    with pytest.raises(InvalidArguments) as caught:
        encode({"x": value})
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_smaller_limit_can_be_given():
    assert encode_value("é", path="step 'a'", limit=4) == '"é"'
    with pytest.raises(InvalidArguments, match="step 'a' takes 5 bytes as JSON, more than the 4 allowed"):
        encode_value("éa", path="step 'a'", limit=4)


@pytest.mark.parametrize(("value", "text"), [(1e16, "1" + "0" * 16), (-1e22, "-1" + "0" * 22), (-0.0, "0.0")])
def test_floats_that_jsonb_would_give_back_otherwise_are_written_so_at_once(value, text):
    assert encode({"x": value}) == f'{{"x":{text}}}'
    assert float(text) == value


def test_a_key_that_is_no_text_is_refused_on_the_outside_too():
    with pytest.raises(InvalidArguments, match="args has a key of type int"):
        encode({1: 2})


@pytest.mark.parametrize(
    ("text", "limit", "safe"),
    [
        ("plain", 10, "plain"),
        ("a\x00b", 10, "a\ufffdb"),
        ("\ud800 \udfff", 10, "\ufffd \ufffd"),
        ("😀", 1, "😀"),
        ("abcdef", 4, "abc…"),
        ("", 4, ""),
    ],
)
def test_any_text_is_made_fit_for_the_database(text, limit, safe):
    assert safe_text(text, limit) == safe


def test_making_a_huge_text_fit_costs_no_more_than_what_is_kept():
    assert len(safe_text("\x00" * 50_000_000, 4000)) == 4000


def test_the_canonical_spelling_ignores_the_order_of_keys_and_nothing_else():
    assert canonical('{"b":[1,{"d":1,"c":2}],"a":1}') == canonical('{"a":1,"b":[1,{"c":2,"d":1}]}')
    spellings = ["{}", '{"a":1}', '{"a":1.0}', '{"a":"1"}', '{"a":true}', '{"a":null}', '{"a":[1,2]}', '{"a":[2,1]}']
    assert len({canonical(each) for each in spellings}) == len(spellings)


def test_the_canonical_spelling_of_some_members_leaves_out_the_others():
    assert canonical('{"a":1,"b":2}', ["a"]) == canonical('{"a":1,"c":3}', ["a"]) == '{"a":1}'
    assert canonical('{"b":2}', ["a"]) == "{}"


def test_a_pydantic_model_is_stored_by_its_own_json_form():
    pydantic = pytest.importorskip("pydantic")
    Order = pydantic.create_model("Order", id=(int, ...), when=(datetime, ...), ratio=(float, 0.5))
    order = Order(id=3, when=datetime(2030, 1, 2, tzinfo=UTC))
    assert json.loads(encode({"x": order})) == {"x": {"id": 3, "when": "2030-01-02T00:00:00Z", "ratio": 0.5}}
    with pytest.raises(InvalidArguments, match=r"args\.x\.ratio is NaN"):
        encode({"x": Order(id=3, when=datetime(2030, 1, 2, tzinfo=UTC), ratio=float("nan"))})
