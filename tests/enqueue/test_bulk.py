"""Many jobs in a few statements, from any iterable, in bounded memory."""

import tracemalloc

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_stampeded.enqueueing import CHUNK_CHARACTERS, CHUNK_JOBS
from django_stampeded.models import Job
from tests.enqueue.shop import keep, resize, sync

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("count", [0, 1, 2, CHUNK_JOBS - 1, CHUNK_JOBS, CHUNK_JOBS + 1])
@pytest.mark.parametrize("task", [keep, sync.using(unique=None), keep.using(unique="args")], ids=["plain", "typed", "unique"])
def test_the_result_is_in_the_order_of_the_arguments(task, count):
    name = "a" if task.name == "shop.sync" else "x"
    jobs = task.enqueue_many([{name: n} for n in range(count)])
    stored = dict(Job.objects.values_list("id", "args"))
    assert [stored[job.id] for job in jobs] == [{name: n} for n in range(count)]
    assert all(job.created for job in jobs)


def test_thousands_of_jobs_take_a_few_statements():
    with CaptureQueriesContext(connection) as queries:
        resize.enqueue_many({"path": str(n)} for n in range(3 * CHUNK_JOBS))
    inserts = [query for query in queries if query["sql"].startswith("INSERT")]
    assert len(inserts) == 3
    assert len(queries) == 3 + 2  # the savepoint


def test_large_arguments_are_sent_in_smaller_portions():
    size = CHUNK_CHARACTERS // 4
    with CaptureQueriesContext(connection) as queries:
        keep.enqueue_many({"x": "x" * (size - 100)} for _ in range(10))
    assert sum(query["sql"].startswith("INSERT") for query in queries) == 2
    assert Job.objects.count() == 10


def peak_of(count, argument):
    """The largest amount of memory that enqueueing from a generator took, in bytes."""
    tracemalloc.start()
    try:
        keep.enqueue_many({"x": f"{n} {argument}"} for n in range(count))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_generator_is_enqueued_in_bounded_memory():
    # 100 MB of arguments; what is kept of each job is its id and its place in the result.
    assert peak_of(10_000, "x" * 10_000) < 40_000_000
    assert Job.objects.count() == 10_000


@pytest.mark.slow
def test_a_hundred_thousand_jobs_from_a_generator_take_bounded_memory():
    assert peak_of(100_000, "x" * 2_000) < 60_000_000
    assert Job.objects.count() == 100_000
