"""Enqueueing from async code."""

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import SynchronousOnlyOperation

from django_stampeded import InvalidArguments, aenqueue, aenqueue_many
from django_stampeded.models import Job
from tests.enqueue.shop import keep, resize

pytestmark = pytest.mark.django_db


def test_async_code_enqueues_on_the_connection_of_its_context():
    async def view():
        one = await resize.aenqueue(path="a", width=3)
        many = await resize.aenqueue_many([{"path": "b"}, {"path": "c"}])
        by_name = await aenqueue("shop.keep", self=1, using=2)
        more = await aenqueue_many("shop.keep", [{"x": 1}])
        return [one, *many, by_name, *more]

    jobs = async_to_sync(view)()
    assert [job.task for job in jobs] == ["shop.resize"] * 3 + ["shop.keep"] * 2
    assert {str(job.id) for job in jobs} == {str(job_id) for job_id in Job.objects.values_list("id", flat=True)}


def test_a_refusal_reaches_the_async_caller():
    async def view():
        await resize.aenqueue(width=3)

    with pytest.raises(InvalidArguments, match="is missing 'path'"):
        async_to_sync(view)()


def test_the_plain_call_inside_an_event_loop_is_refused_as_django_does():
    async def view():
        keep.enqueue()

    with pytest.raises(SynchronousOnlyOperation):
        async_to_sync(view)()
