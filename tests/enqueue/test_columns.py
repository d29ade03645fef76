"""What is written for a job: each option in its column, everything else left to the table's defaults."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test import override_settings
from django.utils import timezone

from django_stampeded import EnqueuedJob, enqueue, enqueue_many, task, task_by_name
from django_stampeded.enqueueing import Blueprint, insert
from django_stampeded.models import Job
from django_stampeded.tasks import _columns
from tests.enqueue.shop import keep, renamed, resize

pytestmark = pytest.mark.django_db

IDENTITY = ("id", "inserted_at", "scheduled_at")


def row(job_id):
    return Job.objects.filter(id=job_id).values().get()


def test_a_job_has_the_arguments_and_otherwise_the_tables_defaults():
    job = resize.enqueue(path="a.png")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO stampeded_jobs (queue, task, args) VALUES ('images', 'shop.resize', %s) RETURNING id",
            ['{"path": "a.png"}'],
        )
        (plain,) = cursor.fetchone()
    written, by_hand = row(job.id), row(plain)
    for column in IDENTITY:
        del written[column], by_hand[column]
    assert written == by_hand
    assert written["state"] == "available"


def test_the_job_comes_back_with_its_id_queue_and_task():
    job = resize.enqueue(path="a.png")
    assert job == EnqueuedJob(job.id, "images", "shop.resize", created=True)
    assert isinstance(job.id, uuid.UUID) and job.id.version == 7
    with pytest.raises(AttributeError):
        job.queue = "other"


OPTIONS = {
    "queue_name": ("mail", "queue", "mail"),
    "priority": (-32_768, "priority", -32_768),
    "tenant": ("acme", "tenant_id", "acme"),
    "destination": ("api", "destination", "api"),
    "limit_key": ("user 7", "limit_key", "user 7"),
    "dead_letter_queue": ("dead", "dead_letter_queue", "dead"),
    "max_attempts": (32_767, "max_attempts", 32_767),
    "max_interruptions": (0, "max_interruptions", 0),
    "max_deferrals": (7, "max_deferrals", 7),
    "expire_seconds": (2_147_483_647, "expire_seconds", 2_147_483_647),
    "backoff_base": (0.2, "backoff_base_ms", 200),
    "backoff_max": (2_147_483, "backoff_max_ms", 2_147_483_000),
    "meta": ({"django": {"a": 1}}, "meta", {"django": {"a": 1}}),
    "dedup": ("CORP\\user", "dedup_scope", "CORP\\user"),
    "run_after": (datetime(2030, 1, 1, tzinfo=UTC), "scheduled_at", datetime(2030, 1, 1, tzinfo=UTC)),
}


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("many", [False, True])
def test_each_option_goes_into_its_column(option, many):
    value, column, stored = OPTIONS[option]
    changed = keep.using(**{option: value})
    job = changed.enqueue_many([{"x": 1}])[0] if many else changed.enqueue(x=1)
    assert row(job.id)[column] == stored


def test_all_options_together_are_written_one_by_one_and_in_bulk():
    given = {name: value for name, (value, _, _) in OPTIONS.items() if name != "dedup"}
    changed = keep.using(**given)
    for job in (changed.enqueue(x=1), *changed.enqueue_many([{"x": 1}, {"x": 1}])):
        written = row(job.id)
        assert {column: written[column] for _, column, _ in OPTIONS.values() if column != "dedup_scope"} == {
            column: stored for _, column, stored in OPTIONS.values() if column != "dedup_scope"
        }


def test_a_base_longer_than_the_column_is_kept_on_the_task_and_cut_in_the_column():
    minutes = keep.using(backoff_base=timedelta(minutes=10))
    assert minutes.backoff_base == 600.0
    assert row(minutes.enqueue().id)["backoff_base_ms"] == 32_767


def test_a_task_without_queue_goes_to_the_default_one_of_the_moment():
    assert keep.enqueue().queue == "default"
    with override_settings(STAMPEDED={"DEFAULT_QUEUE": "general"}):
        assert keep.enqueue().queue == "general"
        assert row(keep.enqueue_many([{}])[0].id)["queue"] == "general"
    assert keep.enqueue().queue == "default"


def test_a_delay_is_counted_on_the_database_clock():
    job = keep.using(run_after=timedelta(hours=1)).enqueue()
    written = row(job.id)
    assert written["scheduled_at"] - written["inserted_at"] == timedelta(hours=1)


def test_a_time_with_any_zone_is_the_same_instant():
    moment = datetime(2030, 1, 1, 12, tzinfo=timezone.get_fixed_timezone(330))
    assert row(keep.using(run_after=moment).enqueue().id)["scheduled_at"] == moment


@pytest.mark.parametrize(
    "args",
    [
        {"using": 1, "queue_name": 2, "priority": 3},
        {"self": 1, "name": 2, "task": 3, "class": 4, "args": 5, "many": 6, "positional": 7},
        {"": 1, "ünï 😀": 2, "a b": 3, "a'b\"c\\d%s": "a'b\"c\\d%s {}"},
    ],
)
def test_an_argument_may_have_any_name(args):
    for job in (keep.enqueue(**args), enqueue("shop.keep", **args), *keep.enqueue_many([args])):
        assert row(job.id)["args"] == args


def test_a_task_of_another_language_is_enqueued_by_its_name():
    job = enqueue("invoice.parse", path="a.pdf")
    assert (job.task, job.queue) == ("invoice.parse", "default")
    assert row(job.id)["args"] == {"path": "a.pdf"}
    assert task_by_name("invoice.parse").using(queue_name="rust").enqueue(n=1).queue == "rust"
    assert [each.task for each in enqueue_many("invoice.parse", [{"n": 1}, {"n": 2}])] == ["invoice.parse"] * 2


def test_a_registered_task_is_checked_when_enqueued_by_its_name():
    with pytest.raises(ValueError, match="Task 'shop.resize' is missing 'path'"):
        enqueue("shop.resize")
    assert enqueue("shop.resize", path="a").queue == "images"
    assert enqueue(resize, path="a").task == "shop.resize"


def test_an_old_name_enqueues_under_the_new_one():
    assert enqueue("shop.old_name").task == renamed.name == "shop.renamed"


@pytest.mark.parametrize("name", ["a-b", "a.b/c d", "x" * 255, "O'Brien\"; --", "日本 😀", "%s%%"])
def test_any_queue_and_task_name_is_stored_as_given(name):
    made = task_by_name(name).using(queue_name=name)
    for job in (made.enqueue(), *made.enqueue_many([{}])):
        written = row(job.id)
        assert (written["queue"], written["task"]) == (name, name)


def test_defaults_of_a_task_are_the_tables_own():
    """So that a column that is left out means the same as one that is written."""
    assert _columns(task(name="shop.defaults")(lambda: None)) == []
    job = insert(Blueprint("shop.defaults", "default"), "{}")
    written = row(job.id)
    assert (written["max_attempts"], written["max_interruptions"], written["max_deferrals"]) == (25, 1, 100)
    assert (written["expire_seconds"], written["backoff_base_ms"], written["backoff_max_ms"]) == (3600, 1000, 3_600_000)
    assert (written["priority"], written["meta"]) == (0, {})


@pytest.mark.django_db(transaction=True)
def test_all_options_work_where_the_server_binds_the_parameters_too(server_binding):
    given = {name: value for name, (value, _, _) in OPTIONS.items() if name != "dedup"}
    everything = keep.using(**given, using=server_binding)
    scoped = everything.using(unique="args", run_after=timedelta(hours=1))
    jobs = [
        keep.using(using=server_binding).enqueue(x=1),
        everything.enqueue(x=1),
        *everything.enqueue_many([{"x": 1}, {"x": "y" * 200_000}]),
        scoped.enqueue(x=1),
        *scoped.enqueue_many([{"x": 2}, {"x": 3}]),
        scoped.using(unique_for="day").enqueue(x=4),
    ]
    assert all(job.created for job in jobs)
    assert [scoped.enqueue(x=n).id for n in (1, 2, 3)] == [jobs[n].id for n in (4, 5, 6)]
    assert scoped.using(unique_for="day").enqueue(x=4).id == jobs[7].id
    assert row(jobs[1].id)["priority"] == -32_768
