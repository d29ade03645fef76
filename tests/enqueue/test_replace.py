"""Duplicates that replace: a job that waits takes the new arguments, and a burst leaves one job with the last ones."""

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from django_stampeded import EnqueuedJob, enqueueing
from django_stampeded.models import Job
from django_stampeded.signals import job_enqueued, job_replaced
from tests.enqueue.shop import keep, sync

transactional = pytest.mark.django_db(transaction=True)

latest = keep.using(dedup="a", on_conflict="replace")
latest_of_each = keep.using(unique=["key"], on_conflict="replace")


def only():
    return Job.objects.get()


@pytest.mark.django_db
def test_a_waiting_job_takes_arguments_meta_priority_and_time():
    first = latest.using(meta={"django": {"n": 1}}, priority=5).enqueue(x=1)
    later = timezone.now() + timedelta(hours=1)
    again = latest.using(meta={"django": {"n": 2}}, priority=-5, run_after=later).enqueue(x=2)
    assert again == EnqueuedJob(first.id, "default", "shop.keep", created=False, replaced=True)
    job = only()
    assert (job.args, job.meta, job.priority, job.scheduled_at) == ({"x": 2}, {"django": {"n": 2}}, -5, later)


@pytest.mark.django_db
def test_each_of_a_burst_puts_a_debounced_job_off():
    debounced = latest.using(run_after=timedelta(minutes=5))
    debounced.enqueue(x=1)
    Job.objects.update(scheduled_at=timezone.now())  # five minutes have passed
    debounced.enqueue(x=2)
    with connection.cursor() as cursor:
        cursor.execute("SELECT scheduled_at - now() FROM stampeded_jobs")
        assert cursor.fetchone()[0] == timedelta(minutes=5)


@pytest.mark.django_db
def test_without_a_time_the_replaced_job_is_due_now():
    latest.using(run_after=timedelta(hours=1)).enqueue(x=1)
    latest.enqueue(x=2)
    assert only().scheduled_at <= timezone.now()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "state",
    [{"state": "executing", "attempt": 1}, {"state": "completed", "finished_at": timezone.now()}],
    ids=["runs", "has run"],
)
def test_a_job_that_no_longer_waits_is_kept_as_it_is(state):
    unique = latest.using(unique_for="month")
    first = unique.enqueue(x=1)
    Job.objects.update(**state)
    again = unique.enqueue(x=2)
    assert again == EnqueuedJob(first.id, "default", "shop.keep", created=False, replaced=False)
    assert only().args == {"x": 1}


@pytest.mark.django_db
def test_keep_is_the_default():
    keep.using(dedup="a").enqueue(x=1)
    assert keep.using(dedup="a").enqueue(x=2).replaced is False
    assert only().args == {"x": 1}


@pytest.mark.django_db
def test_in_bulk_the_last_arguments_of_each_scope_stand():
    before = latest_of_each.enqueue(key="a", x=0)
    jobs = latest_of_each.enqueue_many([{"key": key, "x": x} for key, x in (("b", 1), ("a", 2), ("b", 3), ("a", 4))])
    assert [(job.created, job.replaced) for job in jobs] == [(True, False), (False, True), (False, True), (False, True)]
    assert jobs[1].id == jobs[3].id == before.id and jobs[0].id == jobs[2].id
    assert dict(Job.objects.values_list("args__key", "args__x")) == {"a": 4, "b": 3}


@pytest.mark.django_db
def test_in_bulk_one_scope_of_many_portions_has_the_last_arguments():
    jobs = latest.enqueue_many({"x": n} for n in range(enqueueing.PORTION_JOBS + 500))
    assert [job.created for job in jobs] == [True] + [False] * (len(jobs) - 1)
    assert all(job.replaced for job in jobs[1:])
    assert only().args == {"x": len(jobs) - 1}


@pytest.mark.django_db
def test_a_replaced_job_is_told_of_by_a_signal_of_its_own():
    heard = []

    def receive(sender, job, using, signal, **kwargs):
        heard.append((signal is job_replaced, job, using))
        raise RuntimeError("a receiver of no worth")

    job_enqueued.connect(receive)
    job_replaced.connect(receive)
    try:
        jobs = [latest.enqueue(x=1), latest.enqueue(x=2)]
        sync.enqueue(a=1)
        sync.enqueue(a=1)
    finally:
        job_enqueued.disconnect(receive)
        job_replaced.disconnect(receive)
    assert heard[:2] == [(False, jobs[0], "default"), (True, jobs[1], "default")]
    assert len(heard) == 3


@transactional
@pytest.mark.parametrize("outcome", ["commit", "rollback"])
def test_a_replacement_is_part_of_the_transaction_that_made_it(outcome):
    latest.enqueue(x=1)
    with transaction.atomic():
        latest.enqueue(x=2)
        transaction.set_rollback(outcome == "rollback")
    assert only().args == {"x": 2 if outcome == "commit" else 1}


@transactional
def test_a_scope_asked_for_in_an_open_transaction_is_waited_for_and_then_replaced(in_thread):
    written, may_end = threading.Event(), threading.Event()

    def hold():
        with transaction.atomic():
            job = latest.enqueue(x=1)
            written.set()
            may_end.wait(30)
            return job

    holding = in_thread(hold)
    assert written.wait(30)
    asking = in_thread(lambda: latest.enqueue(x=2))
    with connection.cursor() as cursor:
        while True:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'")
            if cursor.fetchone()[0]:
                break
    may_end.set()
    assert asking.value() == holding.value()._replace(created=False, replaced=True)
    assert only().args == {"x": 2}


@transactional
@pytest.mark.parametrize("portion", [enqueueing.PORTION_JOBS, 150], ids=["one portion", "two portions"])
def test_bulk_enqueuers_that_replace_in_another_order_never_deadlock(in_thread, monkeypatch, portion):
    count = 250
    monkeypatch.setattr(enqueueing, "PORTION_JOBS", portion)
    together = threading.Barrier(4)

    def enqueue(step, number):
        def run():
            for round_ in range(2):
                together.wait(60)
                latest_of_each.enqueue_many([{"key": n, "by": [number, round_]} for n in range(count)][::step])

        return run

    for thread in [in_thread(enqueue(step, number)) for number, step in enumerate((1, -1, 1, -1))]:
        thread.value()
    assert Job.objects.count() == count
    # Whoever came last replaced them all, and nobody's are mixed with another's.
    assert len({tuple(by) for by in Job.objects.values_list("args__by", flat=True)}) == 1
