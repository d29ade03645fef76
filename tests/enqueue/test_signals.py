"""The signal for enqueued jobs."""

import pytest

from django_stampeded import EnqueuedJob
from django_stampeded.models import Job
from django_stampeded.signals import job_enqueued
from tests.enqueue.shop import keep, sync

pytestmark = pytest.mark.django_db


@pytest.fixture
def heard():
    seen = []

    def receiver(sender, job, using, **kwargs):
        seen.append((sender, job, using))

    job_enqueued.connect(receiver)
    yield seen
    job_enqueued.disconnect(receiver)


def test_each_job_is_announced_once_and_duplicates_are_not(heard):
    first = keep.enqueue()
    many = keep.enqueue_many([{}, {}])
    unique = sync.enqueue(a=1)
    sync.enqueue(a=1)
    sync.enqueue_many([{"a": 1}, {"a": 1}])
    assert heard == [(EnqueuedJob, job, "default") for job in (first, *many, unique)]


def test_a_receiver_that_raises_changes_nothing(heard):
    def broken(**kwargs):
        raise RuntimeError("no")

    job_enqueued.connect(broken)
    try:
        job = keep.enqueue()
    finally:
        job_enqueued.disconnect(broken)
    assert Job.objects.get().id == job.id
    assert len(heard) == 1


def test_what_was_refused_is_not_announced(heard):
    with pytest.raises(ValueError, match="NaN"):
        keep.enqueue_many([{"x": 1}, {"x": float("nan")}])
    assert heard == []
