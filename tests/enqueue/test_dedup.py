"""Unique jobs: one per scope, whoever asks and however many ask at once."""

import threading
from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from django_stampeded import StampededError, dedup_functions, enqueueing
from django_stampeded.models import Job
from tests.enqueue.shop import keep, resize, sync

transactional = pytest.mark.django_db(transaction=True)


def end(job_id):
    """The job ends as a completed one does: its slot becomes free."""
    Job.objects.filter(id=job_id).update(state="completed", finished_at=timezone.now(), dedup_scope=None)


@pytest.mark.django_db
@pytest.mark.parametrize("scope", ["acct:1", "CORP\\user", "\\x00", "\\\\", "日本 😀", "x" * 10_000, "'; --", "%s"])
def test_a_duplicate_gives_back_the_job_already_there(scope):
    first = keep.using(dedup=scope).enqueue(x=1)
    again = keep.using(dedup=scope).enqueue(x=2)
    assert (first.created, again.created) == (True, False)
    assert again.id == first.id and again.queue == first.queue
    assert Job.objects.values_list("args", flat=True).get() == {"x": 1}


@pytest.mark.django_db
def test_scopes_queues_and_jobs_without_scope_do_not_meet():
    jobs = [
        keep.using(dedup="a").enqueue(),
        keep.using(dedup="b").enqueue(),
        keep.using(dedup="A").enqueue(),
        keep.using(dedup="a", queue_name="mail").enqueue(),
        keep.enqueue(),
        keep.enqueue(),
        keep.using(dedup="a", unique_for="day").enqueue(),
        keep.using(dedup="a", unique_for="week").enqueue(),
    ]
    assert all(job.created for job in jobs)
    assert len({job.id for job in jobs}) == len(jobs)


@pytest.mark.django_db
def test_the_scope_is_free_again_when_the_job_has_ended():
    first = keep.using(dedup="a").enqueue()
    end(first.id)
    second = keep.using(dedup="a").enqueue()
    assert second.created and second.id != first.id


@pytest.mark.django_db
@pytest.mark.parametrize("period", ["minute", "hour", "day", "week", "month"])
def test_a_period_allows_one_job_for_each_of_its_buckets(period):
    task = keep.using(dedup="a", unique_for=period)
    first = task.enqueue()
    assert task.enqueue() == enqueueing.EnqueuedJob(first.id, "default", "shop.keep", created=False)
    Job.objects.filter(id=first.id).update(inserted_at=timezone.now() - timedelta(days=32))
    second = task.enqueue()
    assert second.created and second.id != first.id


@pytest.mark.django_db
def test_unique_by_all_arguments_means_equal_arguments_and_not_contained_ones():
    jobs = [sync.enqueue(**args) for args in ({}, {"a": 1}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": None}, {"b": 1})]
    assert [job.created for job in jobs] == [True, True, True, False, True, True]
    assert jobs[3].id == jobs[2].id


@pytest.mark.django_db
def test_numbers_that_are_spelled_otherwise_are_other_arguments():
    task = keep.using(unique="args")
    assert [task.enqueue(x=x).created for x in (1, 1.0, "1", True, None, 1)] == [True] * 5 + [False]


@pytest.mark.django_db
def test_unique_by_some_arguments_ignores_the_others():
    task = keep.using(unique=["a", "b"])
    jobs = [task.enqueue(**args) for args in ({"a": 1, "c": 1}, {"a": 1, "c": 2}, {"a": 1, "b": 1}, {}, {"c": 3})]
    assert [job.created for job in jobs] == [True, False, True, True, False]


@pytest.mark.django_db
def test_unique_by_the_task_ignores_all_arguments_but_not_the_task():
    jobs = [
        keep.using(unique="task").enqueue(x=1),
        keep.using(unique="task").enqueue(x=2),
        resize.using(unique="task", queue_name="default").enqueue(path="a"),
    ]
    assert [job.created for job in jobs] == [True, False, True]


@pytest.mark.django_db
def test_in_bulk_duplicates_take_the_place_of_the_job_already_there():
    before = sync.enqueue(a=1)
    jobs = sync.enqueue_many([{"a": 9}, {"a": 1}, {"a": 2}, {"a": 9}, {"a": 1}, {"a": 0}])
    assert [job.created for job in jobs] == [True, False, True, False, False, True]
    assert jobs[1].id == jobs[4].id == before.id
    assert jobs[3].id == jobs[0].id
    stored = dict(Job.objects.values_list("id", "args"))
    assert [stored[job.id]["a"] for job in jobs] == [9, 1, 2, 9, 1, 0]
    assert len(stored) == 4


@pytest.mark.django_db
def test_in_bulk_one_scope_makes_one_job():
    jobs = keep.using(dedup="a").enqueue_many({"x": n} for n in range(5_000))
    assert [job.created for job in jobs] == [True] + [False] * 4_999
    assert len({job.id for job in jobs}) == Job.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize("period", [None, "day"])
def test_in_bulk_a_period_holds_too(period):
    task = keep.using(unique="args", **({"unique_for": period} if period else {}))
    first = task.enqueue_many([{"x": n} for n in range(3)])
    again = task.enqueue_many([{"x": n} for n in range(4)])
    assert [job.created for job in again] == [False, False, False, True]
    assert [job.id for job in again[:3]] == [job.id for job in first]


@transactional
def test_of_many_enqueuers_at_once_one_creates_the_job_and_all_get_it(in_thread):
    for scope in ("a", "b", "c"):
        together = threading.Barrier(8)

        def enqueue(scope=scope, together=together):
            together.wait(30)
            with transaction.atomic():
                return keep.using(dedup=scope).enqueue()

        jobs = [thread.value() for thread in [in_thread(enqueue) for _ in range(8)]]
        assert Counter(job.created for job in jobs) == {True: 1, False: 7}
        assert len({job.id for job in jobs}) == 1
    assert Job.objects.count() == 3


@transactional
@pytest.mark.parametrize("outcome", ["commit", "rollback"])
def test_a_scope_asked_for_in_an_open_transaction_waits_for_its_outcome(in_thread, outcome):
    written, may_end = threading.Event(), threading.Event()

    def holder():
        with transaction.atomic():
            job = sync.enqueue(a=1)
            written.set()
            may_end.wait(30)
            transaction.set_rollback(outcome == "rollback")
            return job

    holding = in_thread(holder)
    assert written.wait(30)
    asking = in_thread(lambda: sync.enqueue(a=1))
    with connection.cursor() as cursor:
        while True:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'")
            if cursor.fetchone()[0]:
                break
    may_end.set()
    held, asked = holding.value(), asking.value()
    assert asked.created is (outcome == "rollback")
    assert (asked.id == held.id) is (outcome == "commit")
    assert Job.objects.get().id == asked.id


@transactional
@pytest.mark.parametrize("portion", [enqueueing.PORTION_JOBS, 150], ids=["one portion", "two portions"])
def test_bulk_enqueuers_that_want_the_same_scopes_in_another_order_never_deadlock(in_thread, monkeypatch, portion):
    count = 250
    monkeypatch.setattr(enqueueing, "PORTION_JOBS", portion)
    together = threading.Barrier(4)

    def enqueue(step):
        def run():
            for round_ in range(5):
                together.wait(60)
                sync.enqueue_many([{"a": n, "b": round_} for n in range(count)][::step])

        return run

    for thread in [in_thread(enqueue(step)) for step in (1, -1, 1, -1)]:
        thread.value()
    assert Job.objects.count() == 5 * count


def when_looked_up(action):
    """Runs an action just before the holder of a scope is looked up, as another process might."""

    def wrapper(execute, sql, params, many, context):
        if "stampeded_jobs" in sql and sql.lstrip().startswith("SELECT"):
            action()
        return execute(sql, params, many, context)

    return connection.execute_wrapper(wrapper)


@transactional
def test_a_holder_that_ends_in_between_makes_room_for_a_new_job(in_thread):
    first = sync.enqueue(a=1)
    with when_looked_up(lambda: in_thread(lambda: end(first.id)).value()):
        second = sync.enqueue(a=1)
    assert second.created and second.id != first.id


@transactional
def test_holders_that_keep_ending_are_reported_after_a_few_tries(in_thread):
    sync.enqueue(a=1)

    def end_and_begin_again():
        Job.objects.filter(dedup_scope__isnull=False).update(dedup_scope=None)

    def refill(execute, sql, params, many, context):
        if sql.startswith("INSERT"):
            in_thread(lambda: sync.enqueue(a=1)).value()
        return execute(sql, params, many, context)

    with (
        when_looked_up(lambda: in_thread(end_and_begin_again).value()),
        connection.execute_wrapper(refill),
        pytest.raises(StampededError, match="kept ending while it was enqueued: enqueue it again"),
    ):
        sync.enqueue(a=1)


@pytest.mark.django_db
@pytest.mark.parametrize("analyzed", (True, False), ids=("analyzed", "with the statistics of an empty table"))
def test_the_holder_is_found_by_the_unique_index_whatever_the_statistics_say(analyzed):
    with connection.cursor() as cursor:
        if not analyzed:
            cursor.execute("ANALYZE stampeded_jobs")
        # Enough pages that reading all of them is no choice: of a table of one page, any plan reads that page.
        cursor.execute(
            "INSERT INTO stampeded_jobs (queue, task, dedup_scope) "
            "SELECT 'default', 't', n::text FROM generate_series(1, 5000) n"
        )
        if analyzed:
            cursor.execute("ANALYZE stampeded_jobs")
        cursor.execute("EXPLAIN (COSTS OFF) " + dedup_functions.HOLDERS, [["a"], [b"digest"], "default", None, None, None])
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "Seq Scan" not in plan
    assert "dedup_key" in plan
