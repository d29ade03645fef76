"""What becomes of the jobs of a dead worker process: started, ended but not recorded, or only claimed."""

from __future__ import annotations

import uuid

import pytest
from django.db import connection

from django_stampeded import functions
from django_stampeded.conf import settings
from django_stampeded.process import board
from django_stampeded.process.link import Link
from django_stampeded.states import FailureKind
from django_stampeded.supervisor.settler import Estate, Settler, settle
from tests.testapp import tasks
from tests.worker.support import column, real_transactions, rows, states, value

pytestmark = real_transactions


@pytest.fixture
def link():
    link = Link(settings.DATABASE, "test")
    yield link
    link.drop()


def claimed(count: int):
    """A worker that holds so many jobs: its id, and they."""
    jobs = [tasks.noop.using(max_attempts=5).enqueue(n=n) for n in range(count)]
    with connection.cursor() as cur:
        worker_id = functions.register_worker(cur, "host", 1, ["default"], {})
        assert len(functions.claim(cur, ["default"], worker_id, count)) == count
    return worker_id, jobs


def test_only_what_had_started_is_charged(link):
    worker_id, (started, completed, failed, put_off, waiting) = claimed(5)
    records = {
        started.id: board.STARTED,
        completed.id: board.COMPLETED,
        failed.id: board.failed_as(FailureKind.RAISED),
        put_off.id: board.PUT_OFF,
        uuid.uuid4(): board.STARTED,
    }
    settle(link.connection(), Estate([worker_id], records, "It was ended by signal 11 (SIGSEGV).", 139))
    assert (column("failure_kind", started), column("interruptions", started)) == ("worker_exited", 1)
    assert "SIGSEGV" in column("last_error", started)
    assert value("SELECT errors -> -1 ->> 'exit_status' FROM stampeded_jobs WHERE id = %s", started.id) == "139"
    assert column("state", completed) == "completed"
    assert (column("state", failed), column("failure_kind", failed)) == ("retryable", "raised")
    for job in (put_off, waiting):
        assert (column("state", job), column("attempt", job), column("errors", job)) == ("available", 0, "[]")
    assert rows("SELECT 1 FROM stampeded_workers") == []


def test_settling_twice_changes_nothing(link):
    worker_id, (job,) = claimed(1)
    estate = Estate([worker_id], {job.id: board.STARTED}, "It died.", 9)
    settle(link.connection(), estate)
    before = rows("SELECT * FROM stampeded_jobs")
    settle(link.connection(), estate)
    assert rows("SELECT * FROM stampeded_jobs") == before


def test_jobs_of_other_workers_are_left_alone(link):
    first, (mine,) = claimed(1)
    _, (other,) = claimed(1)
    settle(link.connection(), Estate([first], {mine.id: board.STARTED, other.id: board.STARTED}, "It died.", 9))
    assert column("state", other) == "executing"


def test_what_ends_only_with_the_supervisor_is_settled_too():
    worker_id, _ = claimed(3)
    settler = Settler(settings.DATABASE)
    settler.take(Estate([worker_id], {}, "It died.", 9))
    settler.start()
    settler.stop()
    settler.join(30)
    assert states() == {"available": 3}


def test_children_that_keep_dying_are_trouble_for_the_probe():
    from django_stampeded.insights import health

    settler = Settler(settings.DATABASE)
    settler._put_on_record({"role": "supervisor", "children": "keep dying"})
    assert [finding.code for finding in health() if finding.level == "trouble"] == ["children_keep_dying"]
    settler._put_on_record(None)
    assert [finding for finding in health() if finding.level == "trouble"] == []
    settler.link.drop()


def test_listening_has_a_connection_of_its_own_where_one_is_named():
    from django_stampeded.process.outage import Outage
    from django_stampeded.worker.listener import Listener
    from django_stampeded.worker.options import WorkerOptions

    listener = Listener(WorkerOptions(listen_alias="direct"), Outage(), lambda queue: None, lambda status: None)
    assert listener.link.alias == "direct"
    assert Listener(WorkerOptions(), Outage(), lambda queue: None, lambda status: None).link.alias == settings.DATABASE


def test_a_connection_for_listening_that_is_not_there_is_an_error():
    from django.test import override_settings

    from django_stampeded.checks import check_listen_database

    assert list(check_listen_database()) == []
    with override_settings(STAMPEDED={"LISTEN_DATABASE": "direct"}):
        assert [message.id for message in check_listen_database()] == ["stampeded.E014"]
