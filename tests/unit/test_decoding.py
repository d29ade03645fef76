"""JSON values to what annotations ask for: exactly, or not at all."""

import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, IntFlag
from typing import Annotated, Any, Literal, NewType, NotRequired, Optional, TypedDict, TypeVar, Union
from uuid import UUID

import pytest

from django_stampeded.decoding import Misfit, decoder_for, parse


class Colour(Enum):
    RED = "red"
    DAY = date(2030, 1, 2)
    ONE = 1


class Level(IntEnum):
    HIGH = 3


class Rights(IntFlag):
    READ = 1
    WRITE = 2


class Options(TypedDict):
    path: str
    limit: NotRequired[int]


@dataclass
class Line:
    sku: str
    price: Decimal = Decimal(0)
    computed: int = field(init=False, default=7)


@dataclass
class Node:
    value: int
    children: "list[Node]" = field(default_factory=list)


@dataclass
class Span:
    start: date
    end: date

    def __post_init__(self):
        if self.end < self.start:
            raise ValueError("the end comes before the start")


UserId = NewType("UserId", int)
Bounded = TypeVar("Bounded", bound=int)
NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)
ID = UUID(int=5)


@pytest.mark.parametrize(
    ("annotation", "value", "decoded"),
    [
        (Any, [1], [1]),
        (object, None, None),
        (None, None, None),
        (bool, True, True),
        (int, 3, 3),
        (int, 3.0, 3),
        (float, 3, 3.0),
        (float, 2.5, 2.5),
        (str, "a", "a"),
        (Decimal, "1.10", Decimal("1.10")),
        (Decimal, 3, Decimal(3)),
        (Decimal, 12.5, Decimal("12.5")),
        (datetime, "2030-01-02T12:00:00+00:00", NOON),
        (datetime, "2030-01-02T12:00:00Z", NOON),
        (datetime, "2030-01-02T12:00:00", datetime(2030, 1, 2, 12)),
        (date, "2030-01-02", date(2030, 1, 2)),
        (time, "03:04:05.000006", time(3, 4, 5, 6)),
        (timedelta, "P1DT00H00M00.000005S", timedelta(days=1, microseconds=5)),
        (UUID, str(ID), ID),
        (Colour, "red", Colour.RED),
        (Colour, "2030-01-02", Colour.DAY),
        (Colour, 1, Colour.ONE),
        (Level, 3, Level.HIGH),
        (Rights, 3, Rights.READ | Rights.WRITE),
        (Literal["a", 1], 1, 1),
        (list, [1, "a"], [1, "a"]),
        (list[int], [1, 2], [1, 2]),
        (Sequence[date], ["2030-01-02"], [date(2030, 1, 2)]),
        (tuple, [1, "a"], (1, "a")),
        (tuple[int, ...], [1, 2], (1, 2)),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[()], [], ()),
        (dict, {"a": 1}, {"a": 1}),
        (dict[str, UUID], {"a": str(ID)}, {"a": ID}),
        (dict[UUID, int], {str(ID): 1}, {ID: 1}),
        (Mapping[str, int], {"a": 1}, {"a": 1}),
        (Optional[date], None, None),  # noqa: UP045
        (date | None, "2030-01-02", date(2030, 1, 2)),
        (Union[int, float], 5.0, 5.0),  # noqa: UP007
        (int | float, 5, 5),
        (float | int, 5, 5),
        (bool | int, True, True),
        (int | bool, 1, 1),
        (str | datetime, "2030-01-02T12:00:00Z", NOON),
        (str | datetime, "tomorrow", "tomorrow"),
        (datetime | date, "2030-01-02", date(2030, 1, 2)),
        (list[int] | int, [1], [1]),
        (float | None, 3, 3.0),
        (int | None, 3.0, 3),
        (UserId, 3, 3),
        (Bounded, 3, 3),
        (Annotated[int, "positive"], 3, 3),
        (Options, {"path": "a"}, {"path": "a"}),
        (Options, {"path": "a", "limit": 3}, {"path": "a", "limit": 3}),
        (Line, {"sku": "a"}, Line("a")),
        (Line, {"sku": "a", "price": "2.50"}, Line("a", Decimal("2.50"))),
        (list[Line], [{"sku": "a"}], [Line("a")]),
        (Node, {"value": 1, "children": [{"value": 2}]}, Node(1, [Node(2)])),
        (Hashable, "a", "a"),
    ],
)
def test_a_value_that_fits_becomes_what_the_annotation_says(annotation, value, decoded):
    result = decoder_for(annotation)(value)
    assert result == decoded
    assert type(result) is type(decoded)


@pytest.mark.parametrize(
    ("annotation", "value", "path", "reason"),
    [
        (None, 1, "", "must be null, not a whole number"),
        (bool, 1, "", "must be true or false"),
        (int, True, "", "must be a whole number, not true or false"),
        (int, "3", "", "must be a whole number, not text"),
        (int, 3.5, "", "must be a whole number, not a number"),
        (int, None, "", "must be a whole number, not null"),
        (float, "2.5", "", "must be a number"),
        (float, True, "", "must be a number"),
        (float, 10**400, "", "too large"),
        (str, 3, "", "must be text"),
        (Decimal, "NaN", "", "finite"),
        (Decimal, "1,5", "", "must be the text of a decimal"),
        (Decimal, 0.1234567890123456, "", "lost digits"),
        (Decimal, True, "", "must be the text of a decimal"),
        (datetime, "2030-01-02", "", "date with time"),
        (datetime, 1700000000, "", "date with time, not a whole number"),
        (date, "2030-01-02T00:00:00", "", "ISO 8601 date"),
        (time, "25:00", "", "time of day"),
        (timedelta, "soon", "", "duration"),
        (UUID, "5", "", "UUID"),
        (Colour, "blue", "", "Colour"),
        (Colour, True, "", "Colour"),
        (Colour, [["red"]], "", "Colour"),
        (Rights, 3.5, "", "Rights"),
        (Literal["a", 1], True, "", "Literal"),
        (list[int], [1, "a"], "[1]", "must be a whole number"),
        (list[int], "12", "", "must be a list"),
        (list[list[int]], [[1], [2, None]], "[1][1]", "must be a whole number"),
        (tuple[int, str], [1], "", "a list of 2 values"),
        (tuple[int, str], [1, 2], "[1]", "must be text"),
        (dict[str, int], {"a": "b"}, ".a", "must be a whole number"),
        (dict[UUID, int], {"a": 1}, ".a", "UUID"),
        (dict[str, int], [1], "", "must be an object"),
        (date | None, "soon", "", "none of the types"),
        (Options, {"limit": 3}, "", "lacks the key 'path'"),
        (Options, {"path": "a", "more": 1}, "", "has the key 'more'"),
        (Line, {"price": "1"}, "", "lacks the key 'sku'"),
        (Line, {"sku": "a", "computed": 1}, "", "has the key 'computed'"),
        (list[Line], [{"sku": "a"}, {"sku": 1}], "[1].sku", "must be text"),
        (Node, {"value": 1, "children": [{"value": "x"}]}, ".children[0].value", "must be a whole number"),
        (Span, {"start": "2030-01-02", "end": "2030-01-01"}, "", "cannot be made into a Span (ValueError)"),
        (set[int], [1], "", "is a list, which is no set"),
        (bytes, "a", "", "is text, which is no bytes"),
        (Callable[[], None], "a", "", "is text, which is no Callable"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_path_and_the_reason(annotation, value, path, reason):
    with pytest.raises(Misfit) as caught:
        decoder_for(annotation)(value)
    assert caught.value.path == path
    assert reason in caught.value.reason


def test_a_misfit_never_shows_the_value():
    for annotation in (int, date, UUID, Decimal, Colour, list[int], Line, date | None, Literal["a"]):
        with pytest.raises(Misfit) as caught:
            decoder_for(annotation)("s3cret")
        assert "s3cret" not in str(caught.value)


def test_the_error_of_a_constructor_is_kept_as_the_cause():
    with pytest.raises(Misfit) as caught:
        decoder_for(Span)({"start": "2030-01-02", "end": "2030-01-01"})
    assert str(caught.value.__cause__) == "the end comes before the start"


def test_an_annotation_that_names_nothing_at_run_time_is_a_misfit():
    @dataclass
    class Broken:
        x: "NotImported"  # noqa: F821

    with pytest.raises(Misfit, match="import what they name at run time"):
        decoder_for(Broken)({"x": 1})


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type aliases are a statement from Python 3.12 on")
def test_a_type_alias_stands_for_what_it_names():
    scope = {"date": date}
    exec("type Day = date", scope)
    assert decoder_for(scope["Day"])("2030-01-02") == date(2030, 1, 2)


def test_a_pydantic_model_validates_the_value_itself():
    pydantic = pytest.importorskip("pydantic")
    Order = pydantic.create_model("Order", id=(int, ...), when=(datetime, ...))
    assert decoder_for(Order)({"id": 3, "when": "2030-01-02T12:00:00Z"}) == Order(id=3, when=NOON)
    with pytest.raises(Misfit, match="cannot be made into a Order"):
        decoder_for(Order)({"id": "x"})


def test_json_that_python_cannot_read_is_a_misfit():
    assert parse('{"a": [1.5, null]}') == {"a": [1.5, None]}
    for text, reason in [
        ('{"a":' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deep"),
        ('{"a":' + "9" * 5000 + "}", "no JSON that Python can read"),
        ("nonsense", "no JSON"),
        ("[1]", "is a list, not an object"),
    ]:
        with pytest.raises(Misfit, match=reason):
            parse(text)
