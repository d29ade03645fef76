"""Many jobs in a few statements, from any iterable, in bounded memory."""

import tracemalloc

import pgtrigger
import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_stampeded.enqueueing import FIRST_LOOK, PORTION_CHARACTERS, PORTION_JOBS
from django_stampeded.models import Job
from tests.enqueue.shop import keep, resize, sync

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("count", [0, 1, 2, PORTION_JOBS - 1, PORTION_JOBS, PORTION_JOBS + 1, 2 * PORTION_JOBS + 1])
@pytest.mark.parametrize("task", [keep, sync.using(unique=None), keep.using(unique="args")], ids=["plain", "typed", "unique"])
def test_the_result_is_in_the_order_of_the_arguments(task, count):
    name = "a" if task.name == "shop.sync" else "x"
    jobs = task.enqueue_many([{name: n} for n in range(count)])
    stored = dict(Job.objects.values_list("id", "args"))
    assert [stored[job.id] for job in jobs] == [{name: n} for n in range(count)]
    assert all(job.created for job in jobs)


def test_thousands_of_jobs_take_a_few_statements():
    with CaptureQueriesContext(connection) as queries:
        resize.enqueue_many({"path": str(n)} for n in range(3 * PORTION_JOBS))
    inserts = [query for query in queries if query["sql"].startswith("INSERT")]
    assert len(inserts) == 3
    assert len(queries) == 3 + 2  # the savepoint


def test_large_arguments_are_sent_in_smaller_portions():
    size = PORTION_CHARACTERS // 10
    with CaptureQueriesContext(connection) as queries:
        keep.enqueue_many({"x": "x" * size} for _ in range(FIRST_LOOK + 20))
    assert sum(query["sql"].startswith("INSERT") for query in queries) == 4  # all of the first, then nine at a time
    assert Job.objects.count() == FIRST_LOOK + 20


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


def test_a_queryset_on_the_same_connection_may_feed_the_jobs():
    User.objects.bulk_create(User(username=f"user {n}") for n in range(2 * PORTION_JOBS + 500))
    users = User.objects.order_by("id")
    jobs = keep.enqueue_many({"x": user.pk} for user in users.iterator(chunk_size=300))
    assert len(jobs) == Job.objects.count() == users.count()
    assert Job.objects.get(id=jobs[-1].id).args == {"x": users.last().pk}


def test_statements_in_between_and_wrapped_ones_work_too():
    def items():
        for n in range(3 * PORTION_JOBS):
            if n % 1_000 == 0:
                with transaction.atomic():
                    keep.enqueue(x="in between")
            yield {"x": n}

    seen = []

    def wrapper(execute, sql, params, many, context):
        seen.append(sql)
        return execute(sql, params, many, context)

    assert len(keep.enqueue_many(items())) == 3 * PORTION_JOBS
    with connection.execute_wrapper(wrapper), pgtrigger.ignore("stampeded.Schedule:schedule_updated_at"):
        assert len(keep.enqueue_many(items())) == 3 * PORTION_JOBS
    assert len(seen) > 4
    assert Job.objects.count() == 2 * (3 * PORTION_JOBS + 6)
