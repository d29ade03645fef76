"""Arguments through the database and back: equal, and of the types that the annotations say."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from django_stampeded import InvalidArguments, task
from django_stampeded.arguments import from_text
from django_stampeded.encoding import encode
from tests.enqueue.shop import keep

pytestmark = pytest.mark.django_db


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Line:
    sku: str
    price: Decimal
    due: date | None = None


class Address(BaseModel):
    city: str
    since: date
    rating: Decimal | None = None


@task(name="shop.typed")
def typed(
    moment: datetime,
    day: date,
    clock: time,
    span: timedelta,
    price: Decimal,
    key: UUID,
    colour: Colour,
    line: Line,
    pair: tuple[int, str],
    ratio: float,
    by_key: dict[str, UUID | None],
    many: list[Line | None],
    when: date | datetime | int | None,
    address: Address,
    addresses: dict[str, list[Address]],
) -> None: ...


def at_its_offset(moment):
    """The same with a fixed offset, as it comes back: a local time that a clock change skips or repeats equals no other."""
    return moment.replace(tzinfo=timezone(moment.utcoffset()))


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
finite = st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | finite | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)
decimals = st.decimals(allow_nan=False, allow_infinity=False)
lines = st.builds(Line, texts, decimals, st.none() | st.dates())
addresses = st.builds(Address, city=texts, since=st.dates(), rating=st.none() | st.decimals(0, 5, places=1))
arguments = st.fixed_dictionaries(
    {
        "moment": st.datetimes() | st.datetimes(timezones=st.timezones() | st.just(UTC)).map(at_its_offset),
        "day": st.dates(),
        "clock": st.times(),
        "span": st.timedeltas(),
        "price": decimals,
        "key": st.uuids(),
        "colour": st.sampled_from(Colour),
        "line": lines,
        "pair": st.tuples(st.integers(-(10**30), 10**30), texts),
        "ratio": finite,
        "by_key": st.dictionaries(texts, st.none() | st.uuids(), max_size=3),
        "many": st.lists(st.none() | lines, max_size=3),
        "when": st.none() | st.dates() | st.datetimes() | st.integers(-(10**30), 10**30),
        "address": addresses,
        "addresses": st.dictionaries(texts, st.lists(addresses, max_size=2), max_size=2),
    }
)
# One transaction for all examples of a test: they only add rows.
in_one_transaction = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


def stored(job) -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT args::text FROM stampeded_jobs WHERE queue = %s AND id = %s", [job.queue, job.id])
        return from_text(cursor.fetchone()[0])


def shape(value):
    """The value with the type of each of its parts, so that 1 and 1.0 and True differ."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value]
    return type(value), value


@in_one_transaction
@given(args=st.dictionaries(texts, plain, max_size=4))
def test_what_the_database_gives_back_is_what_a_job_without_database_gets(args):
    without = from_text(encode(args))
    assert without == args
    assert shape(stored(keep.enqueue(**args))) == shape(without)
    assert shape(stored(keep.enqueue_many([args])[0])) == shape(without)


@in_one_transaction
@given(args=arguments)
def test_annotated_arguments_come_back_equal_and_of_their_types(args):
    decoded = typed.signature.decode(stored(typed.enqueue(**args)))
    assert decoded == args
    assert [type(value) for value in decoded.values()] == [type(args[name]) for name in decoded]


def test_without_annotation_a_tuple_is_a_list_and_a_date_is_text():
    args = stored(keep.enqueue(x=(1, date(2030, 1, 2))))
    assert keep.signature.decode(args) == {"x": [1, "2030-01-02"]}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("{}", "Task 'shop.typed' is missing "),
        ('{"extra": 1}', "Task 'shop.typed' is missing "),
        ('{"x":' + "[" * 3000 + "]" * 3000 + "}", "args is nested too deep|Task 'shop.typed' is missing"),
    ],
)
def test_a_row_made_by_hand_that_does_not_fit_is_refused_in_the_worker(args, message):
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO stampeded_jobs (queue, task, args) VALUES ('q', 'shop.typed', %s::jsonb) RETURNING args::text",
            [args],
        )
        (text,) = cursor.fetchone()
    with pytest.raises(InvalidArguments, match=message):
        typed.signature.decode(from_text(text))
