"""Jobs run: each one once, with what it was enqueued with, however it ends."""

from __future__ import annotations

import json
import logging
import threading

import pytest
from django.db import connection

from django_stampeded import enqueue
from tests.testapp import tasks
from tests.worker.support import column, drain, eventually, real_transactions, rows, states, stop, value, working

pytestmark = real_transactions


def test_a_job_runs_once_and_is_completed(effects):
    job = tasks.effect.enqueue(n=7)
    drain()
    assert rows("SELECT n, job, attempt FROM effects") == [(7, job.id, 1)]
    assert column("state", job) == "completed"
    assert column("claimed_by", job) is None


def test_many_jobs_of_several_queues_run_exactly_once(effects):
    for queue in ("a", "b", "c"):
        tasks.effect.using(queue_name=queue).enqueue_many({"n": n} for n in range(100))
    drain()
    assert value("SELECT count(*) FROM effects") == 300
    assert value("SELECT count(DISTINCT job) FROM effects") == 300
    assert states() == {"completed": 300}
    assert value("SELECT max(attempt) FROM stampeded_jobs") == 1


def test_a_worker_takes_jobs_of_its_queues_only(effects):
    mine = tasks.effect.using(queue_name="mine").enqueue(n=1)
    other = tasks.effect.using(queue_name="other").enqueue(n=2)
    drain("mine")
    assert column("state", mine) == "completed"
    assert column("state", other) == "available"


def test_draining_runs_what_the_jobs_enqueue_too(effects):
    tasks.enqueue_more.enqueue(depth=5)
    drain()
    assert [n for (n,) in rows("SELECT n FROM effects ORDER BY n")] == [0, 1, 2, 3, 4, 5]


def test_draining_leaves_jobs_of_the_future_alone(effects):
    from datetime import timedelta

    later = tasks.noop.using(run_after=timedelta(hours=1)).enqueue()
    tasks.noop.enqueue()
    drain()
    assert column("state", later) == "available"


def test_draining_ends_beside_a_paused_queue(effects):
    from django_stampeded import functions

    tasks.noop.using(queue_name="paused").enqueue()
    with connection.cursor() as cur:
        functions.pause(cur, "paused")
    drain("paused")
    drain()
    assert states() == {"available": 1}


def test_a_failing_job_is_retried_until_its_attempts_are_used_up(effects):
    job = tasks.fail.enqueue(text="broken")
    with working():
        eventually(lambda: column("state", job) == "discarded")
    assert column("attempt", job) == 3
    error = column("last_error", job)
    assert error.startswith("ValueError: broken")
    assert "tests/testapp/tasks.py" in error
    assert "execution.py" not in error
    errors = column("errors", job)
    entries = json.loads(errors) if isinstance(errors, str) else errors
    assert [entry["attempt"] for entry in entries] == [1, 2, 3]
    assert all(entry["worker"] and entry["node"] and entry["duration_s"] >= 0 for entry in entries)


def test_a_job_that_succeeds_at_last_is_completed(effects):
    job = tasks.fail_until.enqueue(attempt=4)
    with working():
        eventually(lambda: column("state", job) == "completed")
    assert column("attempt", job) == 4


@pytest.mark.parametrize("kind", tasks.ODD_ERRORS)
def test_an_error_that_is_hard_to_write_down_is_recorded_and_the_worker_lives(effects, kind):
    job = tasks.fail_oddly.enqueue(kind=kind)
    after = tasks.effect.enqueue(n=1)
    drain()
    assert column("state", job) == "discarded"
    assert column("failure_kind", job) == "raised"
    assert 0 < len(column("last_error", job)) <= 4000
    assert column("state", after) == "completed"


@pytest.mark.parametrize(
    ("outcome", "state", "attempt", "failures"),
    [
        ("retry", "completed", 2, 1),
        ("snooze", "completed", 1, 0),
        ("cancel", "cancelled", 1, 1),
        ("discard", "discarded", 1, 1),
    ],
)
def test_a_job_ends_as_it_says(effects, outcome, state, attempt, failures):
    job = tasks.end_as.enqueue(outcome=outcome)
    with working():
        eventually(lambda: column("state", job) == state)
    assert column("attempt", job) == attempt
    assert value("SELECT jsonb_array_length(errors) FROM stampeded_jobs") == failures


def test_a_job_that_cancels_itself_is_no_error_in_the_log(effects, caplog):
    job = tasks.end_as.enqueue(outcome="cancel")
    with caplog.at_level(logging.INFO):
        drain()
    (said,) = [record for record in caplog.records if str(job.id) in record.getMessage()]
    assert (said.levelno, column("state", job)) == (logging.INFO, "cancelled")
    assert "attempt 1 cancelled the job" in said.getMessage()


def test_an_unknown_task_keeps_its_attempts_and_stops_no_other(effects, caplog):
    unknown = [enqueue("no.such.task", path="secret") for _ in range(50)]
    known = tasks.effect.enqueue(n=1)
    with caplog.at_level(logging.WARNING):
        drain()
    assert column("state", known) == "completed"
    for job in unknown:
        assert column("state", job) == "available"
        assert column("attempt", job) == 0
    said = [record.message for record in caplog.records if "Unknown task" in record.message]
    assert len(said) == 1
    assert "no.such.task" in said[0]
    assert "secret" not in caplog.text
    assert value("SELECT min(scheduled_at) > now() + interval '1 s' FROM stampeded_jobs WHERE task = 'no.such.task'")


DEEP = "[" * 10_000 + "]" * 10_000


@pytest.mark.parametrize(
    "args",
    [
        "{}",
        '{"user_id": "x"}',
        '{"user_id": 1, "extra": 2}',
        '{"self": 1, "class": 2, "user_id": 3}',
        '{"user_id": ' + DEEP + "}",
        '{"user_id": ' + "9" * 5000 + "}",
        '{"user_id": "' + "x" * 900_000 + '"}',
    ],
    ids=["missing", "type", "extra", "keywords", "deep", "digits", "large"],
)
def test_arguments_that_do_not_fit_are_unrecoverable_and_stop_no_other(effects, args):
    rows("SET max_stack_depth = '7MB'")
    bad = value(
        "INSERT INTO stampeded_jobs (queue, task, args) VALUES ('default', 'tests.testapp.tasks.user_arguments', %s) "
        "RETURNING id",
        args,
    )
    good = tasks.user_arguments.enqueue(user_id=5)
    drain()
    state, kind, error = rows("SELECT state, failure_kind, last_error FROM stampeded_jobs WHERE id = %s", bad)[0]
    assert (state, kind) == ("discarded", "unrecoverable")
    assert error
    assert column("state", good) == "completed"


def test_times_that_python_does_not_know_break_no_claim(effects):
    rows(
        "INSERT INTO stampeded_jobs (queue, task, scheduled_at, inserted_at) "
        "VALUES ('default', 'tests.testapp.tasks.noop', '-infinity', '-infinity'), "
        "('default', 'tests.testapp.tasks.noop', '4000-01-01 BC', 'infinity'), ('default', 'no.such.task', now(), '-infinity')"
    )
    drain()
    assert states() == {"completed": 2, "available": 1}


def test_an_async_job_runs_and_its_statements_use_the_thread_of_the_job(effects):
    jobs = tasks.async_effect.enqueue_many({"n": n} for n in range(10))
    drain()
    assert {job for (job,) in rows("SELECT job FROM effects")} == {job.id for job in jobs}
    assert states() == {"completed": 10}


def test_a_job_that_exceeds_its_timeout_is_interrupted(effects):
    job = tasks.loop_for_ever.enqueue()
    drain()
    assert column("failure_kind", job) == "timed_out"
    assert column("state", job) == "discarded"


def test_a_retry_resumes_at_the_checkpoint_and_a_rolled_back_one_does_not_count(effects):
    job = tasks.steps.enqueue(upto=6, fail_at=4)
    with working():
        eventually(lambda: column("state", job) == "completed")
    assert rows("SELECT n, attempt FROM effects ORDER BY at") == [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (6, 2)]
    assert column("checkpoint_seq", job) == 6


def test_a_checkpoint_of_a_stolen_job_rolls_its_work_back(effects):
    job = tasks.checkpoint_after_theft.enqueue()
    drain()
    assert value("SELECT count(*) FROM effects") == 0
    assert column("state", job) == "executing"


def test_a_cancelled_job_is_told_and_stays_cancelled(effects):
    from django_stampeded import functions

    job = tasks.until_told.enqueue()
    with working(heartbeat_interval=0.2):
        eventually(lambda: value("SELECT count(*) FROM effects") == 1)
        with connection.cursor() as cur:
            functions.cancel(cur, "default", job.id, "not wanted")
        assert column("state", job) == "cancelled"
        eventually(lambda: not active_jobs(), "the job's thread to be free")
    assert column("state", job) == "cancelled"


def test_a_job_that_lost_its_lease_is_told_and_its_late_result_refused(effects, caplog):
    job = tasks.until_told.enqueue()
    with working(heartbeat_interval=0.2):
        eventually(lambda: value("SELECT count(*) FROM effects") == 1)
        rows("UPDATE stampeded_jobs SET claimed_by = uuidv7(), attempt = 2 WHERE id = %s", job.id)
        eventually(lambda: value("SELECT count(*) FROM effects WHERE n = 2") == 1)
    assert column("state", job) == "executing"
    assert column("attempt", job) == 2
    assert "lease lost" in caplog.text


def active_jobs():
    return [
        thread
        for thread in threading.enumerate()
        if thread.name.startswith("stampeded-job") and getattr(thread, "lease", None) is not None
    ]


def test_no_transaction_of_the_worker_is_open_while_a_job_runs(effects):
    tasks.sleep.enqueue(seconds=1.0)
    with working():
        eventually(active_jobs)
        found = rows(
            "SELECT state, xact_start FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND application_name LIKE 'stampeded%%' AND state LIKE '%%transaction%%'"
        )
        assert found == []


@pytest.mark.parametrize(("atomic", "left"), [(False, 1), (True, 0)])
def test_what_a_failing_job_enqueued_stays_unless_it_used_atomic(effects, atomic, left):
    tasks.enqueue_and_fail.enqueue(atomic=atomic)
    drain("default")
    assert value("SELECT count(*) FROM stampeded_jobs WHERE queue = 'left'") == left


def test_a_mess_left_on_a_connection_reaches_no_other_job(effects):
    tasks.leave_a_mess.enqueue()
    drain(threads=1)
    after = tasks.effect.enqueue(n=2)
    tasks.leave_a_mess.enqueue_many([{}] * 3)
    tasks.effect.enqueue_many([{"n": 3}] * 3)
    drain(threads=1)
    assert column("state", after) == "completed"
    assert value("SELECT count(*) FROM effects WHERE n = 1") == 0
    assert value("SELECT count(*) FROM effects WHERE n > 1") == 4


def test_log_records_of_a_job_carry_its_id_task_and_queue(effects, caplog):
    job = tasks.log_something.enqueue()
    drain()
    record = next(each for each in caplog.records if each.message == "at work")
    assert record.job_id == str(job.id)
    assert record.job_task == "tests.testapp.tasks.log_something"
    assert record.job_queue == "default"
    logging.getLogger("tests").warning("outside")
    assert caplog.records[-1].job_id == ""


def test_a_bounded_queue_never_has_more_jobs_at_a_time(effects):
    tasks.begin_and_end.using(queue_name="mail").enqueue_many({"n": n, "seconds": 0.02} for n in range(1, 31))
    tasks.effect.using(queue_name="other").enqueue_many({"n": 1000 + n} for n in range(30))
    drain("mail:2,other", threads=6)
    running = most = 0
    for (n,) in rows("SELECT n FROM effects WHERE abs(n) < 1000 ORDER BY at"):
        running += 1 if n < 0 else -1
        most = max(most, running)
    assert most == 2
    assert states() == {"completed": 60}


def test_a_worker_that_runs_cannot_be_started_twice(effects):
    with working() as worker, pytest.raises(RuntimeError, match="runs already"):
        worker.start()
    assert stop(worker).released == 0
