"""What cannot be stored is refused with one clear error, with nothing written and nothing of the value shown."""

import re
from datetime import UTC, time
from decimal import Decimal

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.db import ProgrammingError, connection, connections
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import translation
from django.utils.translation import gettext_lazy

from django_stampeded import InvalidArguments, SchemaMismatch, enqueue
from django_stampeded.enqueueing import SURELY_FITS
from django_stampeded.models import Job
from tests.enqueue.shop import keep, resize, sync

pytestmark = pytest.mark.django_db

SECRET = "hunter2-hunter2"


def nested(levels):
    value = [SECRET]
    for _ in range(levels):
        value = [value]
    return value


def containing_itself():
    value = [SECRET]
    value.append(value)
    return value


REFUSED = {
    "nul": (f"{SECRET}\x00", r"^args\.x contains a NUL character"),
    "surrogate": (f"{SECRET}\ud83d", r"^args\.x contains a lone surrogate"),
    "nan": ([1, {"deep": [SECRET, float("nan")]}], r"^args\.x\[1\]\.deep\[1\] is NaN or infinite"),
    "infinity": ([SECRET, float("-inf")], r"^args\.x\[1\] is NaN or infinite"),
    "set": ({SECRET}, r"^args\.x is a set, which JSON cannot hold: pass a list"),
    "bytes": (SECRET.encode(), r"^args\.x is bytes"),
    "model": (User(username=SECRET), r"^args\.x is a User model instance.*pass its id instead"),
    "expression": (F(SECRET), r"^args\.x is of type F"),
    "decimal nan": ({"total": Decimal("NaN")}, r"^args\.x\.total is NaN or infinite"),
    "time with a zone": (time(12, tzinfo=UTC), r"^args\.x is a time of day with a time zone"),
    "nested too deep": (nested(10_000), r"^args\.x(\[0\])+ is nested deeper than 64 levels"),
    "a list within itself": (containing_itself(), r"^args\.x(\[1\])+ is nested deeper than 64 levels"),
    "a number of 5000 digits": (10**5000, r"^args\.x is a whole number of more than 4200 digits"),
    "nul in a key": ({f"{SECRET[:7]}\x00": 1}, r"^args\.x.* contains a NUL character"),
    "int key": ({1: SECRET}, r"^args\.x has a key of type int"),
    "text over 1 MiB": (SECRET * 100_000, r"^args takes 15\d+ bytes as JSON, more than the 1048576 allowed"),
    "jsonb over 1 MiB": ([0] * 130_000, r"^args takes 15\d+ bytes as JSON, more than the 1048576 allowed"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize(
    "call",
    [
        lambda x: keep.enqueue(x=x),
        lambda x: keep.using(dedup="scope").enqueue(x=x),
        lambda x: enqueue("invoice.parse", x=x),
        lambda x: keep.enqueue_many([{"x": 1}, {"x": x}]),
        lambda x: keep.using(unique="args").enqueue_many([{"x": 1}, {"x": x}]),
    ],
    ids=["enqueue", "enqueue with scope", "enqueue by name", "enqueue_many", "enqueue_many with scopes"],
)
def test_nothing_is_written_and_nothing_is_shown(case, call):
    value, message = REFUSED[case]
    with pytest.raises(InvalidArguments) as caught:
        call(value)
    text = str(caught.value).removeprefix("Item 1 of enqueue_many: ")
    assert re.match(message, text), text
    assert SECRET not in text and text.endswith(".") and "\n" not in text
    assert Job.objects.count() == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: resize.enqueue(), "Task 'shop.resize' is missing 'path': pass it by name."),
        (lambda: resize.enqueue(path="a", widht=1), "Task 'shop.resize' has no parameter 'widht': did you mean 'width'?"),
        (lambda: resize.enqueue("a"), "Task 'shop.resize' was given positional arguments: pass them by name."),
        (lambda: resize.with_args(paths="a"), "Task 'shop.resize' is missing 'path': pass it by name."),
        (lambda: enqueue("invoice.parse", self=1, **{"class": object()}), "args.class is of type object"),
    ],
    ids=["missing", "misspelled", "positional", "with_args", "by name"],
)
def test_a_call_that_the_function_does_not_take_is_refused_by_name(call, message):
    with pytest.raises(InvalidArguments) as caught:
        call()
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)
    assert Job.objects.count() == 0


@pytest.mark.parametrize("case", sorted(REFUSED.keys() - {"jsonb over 1 MiB"}))
def test_a_refusal_asks_the_database_nothing(case):
    with CaptureQueriesContext(connection) as queries, pytest.raises(InvalidArguments):
        keep.enqueue(x=REFUSED[case][0])
    assert len(queries) == 0


@pytest.mark.parametrize(
    "value",
    [
        "x" * 1_048_000,
        "é" * 500_000,
        "😀" * 262_000,
        [True] * 200_000,
        [0] * 87_000,
        {f"k{n}": n for n in range(30_000)},
        "\n" * 520_000,
        [[]] * 100_000,
    ],
    ids=["ascii", "two bytes", "four bytes", "flags", "zeros", "keys", "escapes", "empty lists"],
)
def test_whatever_passes_our_check_of_size_passes_the_tables(value):
    job = keep.enqueue(x=value)
    assert Job.objects.get(id=job.id).args == {"x": value}


@pytest.mark.parametrize("char", ["0,", "1e5,", "[],", '"",', "null,", "{},", "1.5,", "-9,"])
def test_text_below_the_threshold_fits_as_jsonb_whatever_it_is_made_of(char):
    text = f'{{"x":[{(char * SURELY_FITS)[: SURELY_FITS - 10].rpartition(",")[0]}]}}'
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_column_size(%s::jsonb)", [text])
        assert cursor.fetchone()[0] <= 1_048_576


def test_a_large_meta_is_refused_likewise():
    with pytest.raises(InvalidArguments, match=r"^meta takes 1\d+ bytes as JSON, more than the 1048576 allowed"):
        keep.using(meta={"x": [0] * 130_000}).enqueue()
    with pytest.raises(InvalidArguments, match=r"^meta\.x is NaN"):
        keep.using(meta={"x": float("nan")}).enqueue()
    assert Job.objects.count() == 0


def test_a_lazy_text_is_stored_in_the_language_of_the_moment():
    with translation.override("de"):
        job = keep.enqueue(x=gettext_lazy("yes"))
        expected = str(gettext_lazy("yes"))
    assert Job.objects.get(id=job.id).args == {"x": expected}


def test_an_item_of_a_bulk_that_is_no_dict_is_refused():
    with pytest.raises(InvalidArguments, match="Item 1 of enqueue_many: The arguments are of type str: pass a dict"):
        keep.enqueue_many([{}, "path"])
    with pytest.raises(InvalidArguments, match="Item 0 of enqueue_many: Task 'shop.resize' is missing 'path'"):
        resize.enqueue_many([{"width": 1}])
    assert Job.objects.count() == 0


def test_a_missing_table_is_explained():
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL search_path TO pg_catalog")
    try:
        for call in (keep.enqueue, sync.enqueue, lambda: keep.enqueue_many([{}])):
            with connection.cursor() as cursor:
                cursor.execute("SAVEPOINT before")
            with pytest.raises(SchemaMismatch, match="The database 'default' has no table for jobs: run manage.py mig"):
                call()
            with connection.cursor() as cursor:
                cursor.execute("ROLLBACK TO SAVEPOINT before")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL search_path TO DEFAULT")


def test_an_error_of_the_iterable_itself_is_left_as_it_is():
    def items():
        yield {}
        with connection.cursor() as cursor:
            cursor.execute("SELECT * FROM nowhere")

    with pytest.raises(ProgrammingError, match='"nowhere" does not exist'):
        keep.enqueue_many(items())
    assert Job.objects.count() == 0


def test_a_database_that_is_not_postgresql_is_explained():
    connections.settings["lite"] = {**connections.settings["default"], "ENGINE": "django.db.backends.sqlite3"}
    connections.settings["lite"].update(NAME=":memory:", OPTIONS={})
    try:
        connections["lite"].connect()
        with pytest.raises(ImproperlyConfigured, match="The database 'lite' that jobs are written to is not PostgreSQL"):
            keep.using(using="lite").enqueue()
    finally:
        connections["lite"].close()
        del connections["lite"]
        del connections.settings["lite"]
