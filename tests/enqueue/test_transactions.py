"""A job commits or rolls back with the data that caused it."""

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.test import override_settings

from django_stampeded import InvalidArguments
from django_stampeded.models import Job
from tests.enqueue.shop import keep, resize, sync

transactional = pytest.mark.django_db(transaction=True)


class Rollback(Exception):
    pass


def visible_elsewhere(in_thread):
    return in_thread(lambda: Job.objects.count()).value()


@transactional
def test_a_job_is_there_for_others_once_the_transaction_commits_and_not_before(in_thread):
    with transaction.atomic():
        User.objects.create(username="ann")
        keep.enqueue()
        keep.enqueue_many([{}, {}])
        assert Job.objects.count() == 3
        assert visible_elsewhere(in_thread) == 0
    assert visible_elsewhere(in_thread) == 3


@transactional
def test_a_job_vanishes_with_the_transaction_that_is_rolled_back(in_thread):
    with pytest.raises(Rollback), transaction.atomic():
        User.objects.create(username="ann")
        keep.enqueue()
        keep.enqueue_many([{}, {}])
        sync.enqueue(a=1)
        raise Rollback
    assert Job.objects.count() == User.objects.count() == 0


@transactional
def test_without_a_transaction_a_job_commits_at_once(in_thread):
    keep.enqueue()
    sync.enqueue(a=1)
    sync.enqueue(a=1)
    keep.enqueue_many([{}, {}])
    assert connection.get_autocommit()
    assert visible_elsewhere(in_thread) == 4


@pytest.mark.django_db
def test_a_savepoint_takes_only_its_own_jobs_away():
    with transaction.atomic():
        kept = keep.enqueue()
        with pytest.raises(Rollback), transaction.atomic():
            keep.enqueue()
            keep.enqueue_many([{}, {}])
            raise Rollback
        with transaction.atomic():
            also = keep.enqueue()
    assert set(Job.objects.values_list("id", flat=True)) == {kept.id, also.id}


@pytest.mark.django_db
def test_a_refused_job_leaves_the_surrounding_transaction_usable():
    with transaction.atomic():
        for args in ({"path": "a\x00b"}, {"path": float("nan")}, {"path": "x" * 2_000_000}, {"pth": "a"}):
            with pytest.raises(InvalidArguments):
                resize.enqueue(**args)
        job = resize.enqueue(path="a")
    assert list(Job.objects.values_list("id", flat=True)) == [job.id]


@pytest.mark.django_db
def test_a_duplicate_leaves_the_surrounding_transaction_usable():
    with transaction.atomic():
        first = sync.enqueue(a=1)
        assert sync.enqueue(a=1).id == first.id
        assert [each.id for each in sync.enqueue_many([{"a": 1}, {"a": 1}])] == [first.id, first.id]
        User.objects.create(username="ann")
    assert User.objects.count() == Job.objects.count() == 1


@pytest.mark.django_db
def test_bulk_enqueueing_is_all_or_nothing_even_when_the_error_is_caught():
    def rows():
        yield from ({"x": n} for n in range(5_000))
        raise Rollback

    with transaction.atomic():
        keep.enqueue()
        with pytest.raises(Rollback):
            keep.enqueue_many(rows())
        with pytest.raises(InvalidArguments, match=r"^Item 4999 of enqueue_many: args\.x is NaN"):
            keep.enqueue_many({"x": n if n < 4_999 else float("nan")} for n in range(5_000))
    assert Job.objects.count() == 1


@transactional
def test_a_job_is_written_to_the_connection_that_using_names(other):
    with pytest.raises(Rollback), transaction.atomic():
        there = keep.using(using=other)
        there.enqueue()
        there.enqueue_many([{}, {}])
        there.using(dedup="x").enqueue()
        keep.enqueue()
        raise Rollback
    assert Job.objects.count() == 4


class ToOther:
    def db_for_write(self, model, **hints):
        return "other" if model is Job else None


@transactional
def test_a_database_router_decides_where_a_job_is_written(other):
    with override_settings(DATABASE_ROUTERS=[ToOther()]):
        with pytest.raises(Rollback), transaction.atomic(using="default"):
            keep.enqueue()
            keep.enqueue_many([{}])
            raise Rollback
        assert Job.objects.count() == 2
        with pytest.raises(Rollback), transaction.atomic(using=other):
            keep.enqueue()
            raise Rollback
        with pytest.raises(Rollback), transaction.atomic(using="default"):
            keep.using(using="default").enqueue()
            raise Rollback
    assert Job.objects.count() == 2


@pytest.mark.django_db
def test_a_transaction_that_is_broken_already_says_so_as_django_does():
    with transaction.atomic():
        with pytest.raises(IntegrityError), transaction.atomic():
            User.objects.create(username="ann")
            User.objects.create(username="ann")
        keep.enqueue()
    with pytest.raises(transaction.TransactionManagementError), transaction.atomic():
        with pytest.raises(IntegrityError):
            User.objects.create(username="bob")
            User.objects.create(username="bob")
        keep.enqueue()
