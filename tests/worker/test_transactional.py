"""A transactional job's work, what it enqueues and its completion commit together, or none of them does."""

from __future__ import annotations

import threading
import time

import pytest
from django.db import IntegrityError, connection, connections, transaction

from django_stampeded import Batch, Cancel, Discard, InvalidOption, RetryIn, Snooze, chain, signals, task
from django_stampeded.worker import interrupt
from tests.testapp import tasks
from tests.worker.support import column, drain, eventually, real_transactions, rows, states, value, working

pytestmark = real_transactions


@pytest.fixture
def ending():
    """Says what the job `whole` does at its end; returns the name to give it."""

    def set_to(what, name="it"):
        tasks.ENDINGS[name] = what
        return name

    yield set_to
    tasks.ENDINGS.clear()


def raiser(exc):
    def end(job):
        raise exc

    return end


def take_away(job):
    """Somebody else gets the job, by a connection of their own."""
    elsewhere("UPDATE stampeded_jobs SET claimed_by = uuidv7() WHERE state = 'executing'")


def elsewhere(sql):
    def run():
        with connection.cursor() as cur:
            cur.execute(sql)
        connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def kept() -> tuple[int, int]:
    """How many traces and how many enqueued jobs there are."""
    return value("SELECT count(*) FROM effects"), value("SELECT count(*) FROM stampeded_jobs WHERE queue = 'left'")


def test_the_work_the_jobs_enqueued_and_the_completion_commit_together(effects):
    job = tasks.whole.enqueue(n=7)
    drain("default")
    assert rows("SELECT n, attempt FROM effects") == [(7, 1)]
    assert kept() == (1, 1)
    assert column("state", job) == "completed"
    assert job.result() == 7
    written_by = "SELECT xmin FROM effects UNION SELECT xmin FROM stampeded_jobs UNION SELECT xmin FROM stampeded_results"
    assert len(rows(written_by)) == 1, "all rows are of one transaction"


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (ValueError("no"), "discarded"),
        (SystemExit(1), "discarded"),
        (RetryIn(3600), "retryable"),
        (Snooze(3600), "available"),
        (Cancel("no"), "cancelled"),
        (Discard("no"), "discarded"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, BaseException) else "",
)
def test_a_job_that_does_not_complete_leaves_nothing_behind(effects, ending, end, state):
    last = tasks.whole.using(max_attempts=1) if state == "discarded" else tasks.whole
    job = last.enqueue(n=1, ending=ending(raiser(end)))
    drain("default")
    assert column("state", job) == state
    assert kept() == (0, 0)
    assert column("checkpoint", job) is None


def test_a_failed_attempt_is_run_again_and_its_effects_count_once(effects, ending):
    def fail_first(job):
        if job.attempt == 1:
            raise ValueError("at first")

    job = tasks.whole.enqueue(n=1, ending=ending(fail_first))
    drain("default")
    assert column("state", job) == "completed"
    assert rows("SELECT n, attempt FROM effects") == [(1, 2)]
    assert kept() == (1, 1)


def test_a_timeout_rolls_the_work_back(effects, ending):
    def for_ever(job):
        while True:
            time.sleep(0.01)

    tasks.ENDINGS["for ever"] = for_ever
    hasty = task(transactional=True, timeout=0.3, max_attempts=1, name="tests.hasty")(
        lambda: (tasks.record(1), tasks.ENDINGS["for ever"](None))
    )
    try:
        job = hasty.enqueue()
        drain("default")
    finally:
        forget("tests.hasty")
    assert rows("SELECT state, failure_kind FROM stampeded_jobs") == [("discarded", "timed_out")]
    assert column("state", job) == "discarded"
    assert kept() == (0, 0)


def forget(name):
    from django_stampeded import registry

    registry._names.pop(name, None)
    registry._tasks.pop(name, None)


def test_a_lost_lease_rolls_the_work_back_and_the_log_says_so(effects, caplog):
    job = bare(lambda: (tasks.record(1), tasks.noop.using(queue_name="left").enqueue(), take_away(None)))
    assert column("state", job) == "executing", "it is somebody else's now"
    assert kept() == (0, 0)
    assert "its transaction is rolled back" in caplog.text
    assert column("errors::text", job) == "[]"


def bare(body, **options):
    """Run a transactional job with this body, which sets no checkpoint; returns the job."""
    made = task(transactional=True, max_attempts=1, name="tests.bare", **options)(body)
    try:
        job = made.enqueue()
        drain("default")
        return job
    finally:
        forget("tests.bare")


def test_a_cancelled_job_stays_cancelled_and_its_work_is_rolled_back(effects):
    job = bare(lambda: (tasks.record(1), elsewhere("SELECT stampeded_cancel(queue, id, 'no') FROM stampeded_jobs")))
    assert column("state", job) == "cancelled"
    assert kept() == (0, 0)


def test_an_error_caught_without_a_savepoint_is_a_failure_that_says_what_to_do(effects):
    def careless():
        try:
            with connection.cursor() as cur:
                cur.execute("INSERT INTO stampeded_queue_policies (queue) VALUES ('q'), ('q')")
        except IntegrityError:
            pass

    job = bare(careless)
    assert column("state", job) == "discarded"
    assert "put `with transaction.atomic():` around" in column("last_error", job)


def test_an_error_caught_around_a_savepoint_harms_nothing(effects):
    def careful():
        tasks.record(1)
        try:
            with transaction.atomic(), connection.cursor() as cur:
                cur.execute("INSERT INTO stampeded_queue_policies (queue) VALUES ('q'), ('q')")
        except IntegrityError:
            tasks.record(2)

    assert column("state", bare(careful)) == "completed"
    assert kept() == (2, 0)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (lambda: (tasks.record(1), connection.close()), "its database connection was closed"),
        (lambda: (tasks.record(1), transaction.set_rollback(True)), "can only be rolled back"),
        (lambda: (tasks.record(1), connection.set_autocommit(True)), "TransactionManagementError"),
        (lambda: (tasks.record(1), transaction.commit()), "TransactionManagementError"),
        (lambda: (tasks.record(1), transaction.atomic(durable=True).__enter__()), "durable"),
    ],
    ids=["closes", "rolls back", "sets autocommit", "commits", "durable"],
)
def test_a_body_that_meddles_with_its_transaction_fails_and_leaves_nothing(effects, body, said):
    job = bare(body)
    assert column("state", job) == "discarded"
    assert said in column("last_error", job)
    assert kept() == (0, 0)
    after = tasks.whole.enqueue(n=2)
    drain("default")
    assert column("state", after) == "completed", "the thread's next job has a connection that works"


def test_what_is_to_follow_the_commit_sees_the_job_completed(effects):
    seen = []

    def body():
        transaction.on_commit(lambda: seen.append(value("SELECT state FROM stampeded_jobs")))
        assert not seen

    assert column("state", bare(body)) == "completed"
    assert seen == ["completed"]


def test_a_function_that_raises_after_the_commit_leaves_the_job_completed(effects, caplog):
    def body():
        tasks.record(1)
        transaction.on_commit(raiser_of_nothing)

    assert column("state", bare(body)) == "completed"
    assert kept() == (1, 0)
    assert "is completed, but a function that it gave to transaction.on_commit() raised ZeroDivisionError" in caplog.text


def raiser_of_nothing():
    return 1 // 0


def test_a_commit_that_is_refused_is_a_failure(effects):
    """A deferred constraint speaks at the commit only."""
    with connection.cursor() as cur:
        cur.execute("CREATE TABLE twice (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    try:

        def body():
            with connection.cursor() as cur:
                cur.execute("INSERT INTO twice VALUES (1), (1)")

        job = bare(body)
    finally:
        with connection.cursor() as cur:
            cur.execute("DROP TABLE twice")
    assert column("state", job) == "discarded"
    assert "twice_n_key" in column("last_error", job)


@pytest.mark.parametrize("committed", [True, False])
def test_a_commit_without_an_answer_is_decided_by_the_database(effects, caplog, committed):
    """The connection breaks during COMMIT, after the server has carried it out or before."""
    caplog.set_level("INFO")

    def body():
        tasks.record(1)
        wrapper = connections["default"]
        commit = wrapper._commit

        def break_off():
            if committed:
                commit()
            wrapper.connection.close()
            del wrapper._commit
            return commit()

        wrapper._commit = break_off

    job = bare(body)
    if committed:
        assert column("state", job) == "completed"
        assert column("errors::text", job) == "[]"
        assert kept() == (1, 0)
        eventually(lambda: "nothing is recorded twice" in caplog.text)
    else:
        assert column("state", job) == "discarded"
        assert kept() == (0, 0)
    assert column("attempt", job) == 1


def test_the_signals_tell_of_the_completion_when_it_is_on_record(effects):
    told = []

    def started(sender, job, **_):
        told.append("started")

    def completed(sender, job, **_):
        told.append(value("SELECT state FROM stampeded_jobs WHERE id = %s", job.id))

    signals.job_started.connect(started)
    signals.job_completed.connect(completed)
    try:
        bare(lambda: None)
    finally:
        signals.job_started.disconnect(started)
        signals.job_completed.disconnect(completed)
    assert told == ["started", "completed"]


def test_batches_and_chains_go_on_as_after_any_completion(effects):
    with Batch("whole", on_complete=tasks.note_batch) as batch:
        batch.enqueue_many(tasks.whole, [{"n": n} for n in range(5)])
    chain(tasks.whole.with_args(n=10), tasks.whole.with_args(n=11)).enqueue()
    with working("default"):
        eventually(lambda: value("SELECT count(*) FROM stampeded_jobs WHERE queue <> 'left'") == 8)
        eventually(lambda: batch.finished and states() == {"completed": 8, "available": 7})
    assert batch.counts() == {"completed": 5}


def test_a_job_that_holds_its_own_row_keeps_neither_its_lease_nor_others_from_beating(effects, ending):
    """A checkpoint in the transaction locks the job's row until the end."""
    go, there = threading.Event(), threading.Event()
    job = tasks.whole.using(expire_seconds=2).enqueue(n=1, ending=ending(lambda job: (there.set(), go.wait(60))))
    other = tasks.until_told.using(queue_name="other", expire_seconds=2).enqueue(limit=120)
    with working(heartbeat_interval=0.2):
        try:
            assert there.wait(30)
            eventually(lambda: column("state", other) == "executing")
            touched = [column("heartbeat_at", other)]
            for _ in range(5):
                eventually(lambda: (seen := column("heartbeat_at", other)) != touched[-1] and not touched.append(seen))
            assert value("SELECT count(*) FROM stampeded_expire(100) WHERE out_id = %s", job.id) == 0
            assert value("SELECT count(*) FROM stampeded_reap('0 s')  WHERE id = %s", job.id) == 0
        finally:
            go.set()
        eventually(lambda: column("state", job) == "completed")
        rows("SELECT stampeded_cancel('other', %s)", other.id)
    assert column("attempt", job) == 1


def test_a_job_that_is_given_up_is_rolled_back_when_it_comes_back(effects, ending, monkeypatch):
    monkeypatch.setattr(interrupt, "GIVE_UP_S", 0.2)
    stubborn = threading.Event()
    done = []

    def body():
        tasks.record(1)
        try:
            stubborn.wait(60)
        except BaseException:
            stubborn.wait(60)
        done.append(True)

    made = task(transactional=True, max_attempts=1, timeout=0.2, name="tests.stubborn")(body)
    try:
        job = made.enqueue()
        with working("default"):
            eventually(lambda: column("state", job) == "discarded")
            stubborn.set()
            eventually(lambda: done)
    finally:
        stubborn.set()
        forget("tests.stubborn")
    assert column("failure_kind", job) == "timed_out"
    assert kept() == (0, 0)


@pytest.mark.slow
def test_a_job_that_is_given_up_while_it_locks_its_row_keeps_no_other_outcome_from_being_recorded(effects, monkeypatch):
    monkeypatch.setattr(interrupt, "GIVE_UP_S", 0.2)
    go = threading.Event()

    def stubborn(job):
        job.checkpoint(1)
        try:
            go.wait(60)
        except BaseException:
            go.wait(60)

    made = task(transactional=True, takes_context=True, max_attempts=1, timeout=0.2, name="tests.locks")(stubborn)
    try:
        job = made.enqueue()
        with working("default", threads=4):
            eventually(lambda: value("SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted"))
            others = [tasks.fail.using(max_attempts=1).enqueue() for _ in range(3)]
            eventually(lambda: {column("state", each) for each in others} == {"discarded"})
            assert column("state", job) == "executing"
            go.set()
            eventually(lambda: column("state", job) == "discarded")
    finally:
        go.set()
        forget("tests.locks")
    assert column("failure_kind", job) == "timed_out"


def test_an_async_function_can_not_be_transactional():
    with pytest.raises(InvalidOption, match="can't be transactional: it is async"):

        @task(transactional=True, name="tests.never")
        async def never() -> None: ...


def test_it_is_the_function_that_is_transactional_and_not_a_job_of_it():
    with pytest.raises(InvalidOption, match="transactional belongs to the function"):
        tasks.noop.using(transactional=True)
    with pytest.raises(InvalidOption, match="transactional must be True or False"):
        task(transactional=1)(lambda: None)
