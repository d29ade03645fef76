"""Whatever a job does to its thread, process or connection: its outcome goes on record, and no other job notices."""

from __future__ import annotations

import json
import os
import sys
import threading
from dataclasses import dataclass

import psycopg
import pytest
from django.db import connection, connections, transaction

from django_stampeded import Batch, InvalidOption, InvalidStep, Puller, task
from django_stampeded.process.link import parameters
from tests.testapp import tasks
from tests.worker.support import column, drain, eventually, real_transactions, rows, states, value, working

pytestmark = [real_transactions, pytest.mark.usefixtures("kept_open")]


@dataclass
class Leaver:
    n: int

    def __post_init__(self):
        raise SystemExit(3)


class Secretive(Exception):
    @property
    def __notes__(self):
        raise RuntimeError("none of your business")


class Untraceable(Exception):
    def with_traceback(self, tb):
        raise RuntimeError("not with mine")


class Undecided(type):
    def __instancecheck__(cls, instance):
        raise RuntimeError("who knows")


class Anything(Exception, metaclass=Undecided):
    pass


def write(n):
    with connection.cursor() as cur:
        cur.execute("INSERT INTO effects (n) VALUES (%s)", [n])


def test_an_argument_that_ends_the_thread_while_it_is_decoded_discards_the_job(effects):
    @task(name="hostile.leaver")
    def leave(who: Leaver) -> None:
        write(1)

    rows("INSERT INTO stampeded_jobs (queue, task, args) VALUES ('default', 'hostile.leaver', '{\"who\": {\"n\": 1}}')")
    drain()
    assert rows("SELECT state, attempt, failure_kind FROM stampeded_jobs") == [("discarded", 1, "unrecoverable")]


@pytest.mark.parametrize("kind", [Secretive, Untraceable])
def test_an_exception_that_resists_being_written_down_is_a_failure(effects, kind):
    @task(name="hostile.resist", max_attempts=1)
    def resist() -> None:
        raise kind("all the same")

    job = resist.enqueue()
    drain()
    assert column("state", job) == "discarded"
    assert f"{kind.__name__}: all the same" in column("last_error", job)


def test_a_retry_policy_that_cannot_be_asked_costs_an_attempt_and_no_endless_loop(effects):
    @task(name="hostile.undecided", max_attempts=2, backoff_base=0.001, discard_on=[Anything])
    def undecided() -> None:
        raise ValueError("the point")

    job = undecided.enqueue()
    drain()
    while column("state", job) == "retryable":
        drain()
    assert column("state", job) == "discarded"
    assert column("cardinality(attempted_by)", job) == 2
    assert column("last_error", job).startswith("ValueError: the point")


def test_an_error_around_a_job_counts_as_a_failed_attempt(effects, monkeypatch, caplog):
    @task(name="hostile.plain", max_attempts=1)
    def plain() -> None:
        pass

    def broken(*args):
        raise RuntimeError("around it")

    monkeypatch.setattr("django_stampeded.worker.job_thread.perform", broken)
    job = plain.enqueue()
    drain()
    assert column("state", job) == "discarded"
    assert "around it" in column("last_error", job)
    assert "outside of the job" in caplog.text


def begin():
    connection.cursor().execute("BEGIN")


def turn_autocommit_off():
    connection.ensure_connection()
    connection.connection.autocommit = False
    connection.cursor().execute("SELECT 1")


def fail_in_a_transaction():
    with connection.cursor() as cur:
        cur.execute("BEGIN")
        cur.execute("SAVEPOINT here")


@pytest.mark.parametrize("mess", [begin, turn_autocommit_off, fail_in_a_transaction])
def test_a_transaction_begun_behind_django_s_back_takes_no_other_job_s_work_with_it(effects, mess, caplog):
    @task(name="hostile.mess")
    def make(n: int) -> None:
        if n == 0:
            mess()
        else:
            write(n)

    make.enqueue_many({"n": n} for n in range(3))
    drain(threads=1)
    assert states() == {"completed": 3}
    assert rows("SELECT n FROM effects ORDER BY n") == [(1,), (2,)]
    assert "left a transaction open" in caplog.text


@pytest.mark.parametrize(
    "setting",
    [
        "SET search_path = pg_catalog",
        "SET TIME ZONE 'Asia/Tokyo'",
        "SET default_transaction_read_only = on",
        "SET client_encoding = 'LATIN1'",
    ],
)
def test_a_session_that_a_job_has_altered_serves_no_other_job(effects, setting):
    @task(name="hostile.settings")
    def alter(n: int) -> None:
        if n == 0:
            connection.cursor().execute(setting)
        else:
            write(n)

    alter.enqueue_many({"n": n} for n in range(3))
    before = rows("SHOW ALL")
    seen = []

    @task(name="hostile.look")
    def look() -> None:
        with connection.cursor() as cur:
            cur.execute("SHOW ALL")
            seen.extend(cur.fetchall())

    look.enqueue()
    drain(threads=1)
    assert states() == {"completed": 4}
    assert rows("SELECT n FROM effects ORDER BY n") == [(1,), (2,)]
    assert [row for row in seen if row not in before and row[0] != "application_name"] == []


def test_a_session_that_no_job_has_altered_serves_the_next_one(effects):
    @task(name="hostile.tidy")
    def tidy() -> None:
        with connection.cursor() as cur:
            cur.execute("INSERT INTO effects (n) SELECT pg_backend_pid()")

    tidy.enqueue_many([{}] * 5)
    drain(threads=1)
    assert value("SELECT count(DISTINCT n) FROM effects") == 1


def test_connections_that_a_job_closes_or_forgets_are_replaced(effects):
    @task(name="hostile.close")
    def close(n: int) -> None:
        write(n)
        if n % 3 == 0:
            connection.connection.close()
        elif n % 3 == 1:
            del connections["default"]
        else:
            connections.close_all()

    close.enqueue_many({"n": n} for n in range(9))
    drain(threads=1)
    assert states() == {"completed": 9}
    assert value("SELECT count(*) FROM effects") == 9


@pytest.mark.parametrize(("way", "status"), [("return", 0), ("exit", 7), ("raise", 1)])
def test_a_process_that_a_job_forks_ends_with_the_body_and_runs_nothing_else(effects, tmp_path, way, status):
    @task(name="hostile.fork")
    def fork(n: int) -> None:
        write(n)
        with open(tmp_path / "ran", "a") as file:
            file.write(f"{n}\n")
        if n != 20:
            return
        pid = os.fork()
        if pid == 0:
            if way == "exit":
                sys.exit(status)
            if way == "raise":
                raise ValueError("in the child")
            return
        (tmp_path / "status").write_text(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))

    fork.enqueue_many({"n": n} for n in range(60))
    drain(threads=1)
    assert states() == {"completed": 60}
    assert (tmp_path / "status").read_text() == str(status)
    assert sorted(map(int, (tmp_path / "ran").read_text().split())) == list(range(60))


def test_an_async_job_that_cancels_everything_on_its_loop_ends_and_so_do_those_after_it(effects):
    import asyncio

    @task(name="hostile.cancel_all", max_attempts=1)
    async def cancel_all(n: int) -> None:
        if n == 1:
            for each in asyncio.all_tasks():
                each.cancel()
            await asyncio.sleep(0)

    cancel_all.enqueue_many({"n": n} for n in range(4))
    drain(threads=1)
    assert states() == {"completed": 3, "discarded": 1}


def test_threads_that_a_job_leaves_behind_may_enqueue_after_its_end(effects):
    over = threading.Event()
    threads = []

    @task(name="hostile.later")
    def later() -> None:
        write(5)

    @task(name="hostile.spawn")
    def spawn() -> None:
        def body():
            over.wait(30)
            later.enqueue()
            connections.close_all()

        threads.append(threading.Thread(target=body))
        threads[0].start()

    spawn.enqueue()
    drain()
    over.set()
    threads[0].join()
    drain()
    assert states() == {"completed": 2}


def test_steps_and_checkpoints_that_threads_of_a_job_write_at_the_same_time_are_all_kept(effects):
    kept = []

    @task(name="hostile.steps", takes_context=True)
    def steps(job) -> None:
        job.step("first", lambda: None)

        def body(number):
            for each in range(10):
                job.step(f"{number}-{each}", lambda: number)
                if number == 0:
                    job.checkpoint(each)
            connections.close_all()

        threads = [threading.Thread(target=body, args=(number,)) for number in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        kept.extend(rows("SELECT checkpoint FROM stampeded_jobs"))

    steps.enqueue()
    drain()
    ((record,),) = kept
    record = json.loads(record) if isinstance(record, str) else record
    assert len(record["stampeded_steps"]) == 41
    assert record["state"] == 9


def test_a_row_that_somebody_locks_for_long_holds_up_no_other_completion(effects):
    go = threading.Event()

    @task(name="hostile.locked")
    def locked(n: int) -> None:
        if n == 0:
            go.wait(60)

    first = locked.enqueue(n=0)
    with working():
        eventually(lambda: column("state", first) == "executing")
        with psycopg.connect(**parameters("default", "onlooker")) as onlooker:
            onlooker.execute("SELECT FROM stampeded_jobs WHERE id = %s FOR UPDATE", [first.id])
            go.set()
            eventually(lambda: value("SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted"))
            locked.enqueue_many([{"n": 1}] * 20)
            eventually(lambda: states() == {"executing": 1, "completed": 20})
        eventually(lambda: states() == {"completed": 21})


def test_a_step_that_was_rolled_back_runs_again_in_the_same_attempt_and_one_that_was_not_does_not(effects):
    results = []

    @task(name="hostile.rolled_back", takes_context=True, max_attempts=1)
    def try_again(job) -> None:
        for number in (1, 2):
            try:
                with transaction.atomic():
                    results.append(job.step("charge", lambda number=number: number))
                    with job.step("mail", cursor=0) as step:
                        step.advance(number)
                    if number == 1:
                        raise KeyError("conflict")
            except KeyError:
                pass
        for again in (lambda: job.step("charge", lambda: 3), lambda: job.step("mail", cursor=0).__enter__()):
            with pytest.raises(InvalidStep, match="ran in this attempt already"):
                again()

    job = try_again.enqueue()
    drain()
    assert (column("state", job), column("last_error", job)) == ("completed", None)
    assert results == [1, 2]


@pytest.mark.parametrize("timeout", ["5", b"x", [], True, float("nan"), None], ids=repr)
def test_a_wait_for_no_number_of_seconds_is_refused_at_once(effects, timeout):
    with pytest.raises(ValueError, match="seconds or a timedelta"):
        tasks.noop.enqueue().wait(timeout=timeout)
    if timeout is not None:
        with Puller() as puller, pytest.raises(ValueError, match="seconds or a timedelta"):
            puller.next(timeout)


@pytest.mark.parametrize("thing", [5, None, [], object()], ids=["int", "none", "list", "object"])
def test_what_is_no_task_no_reason_and_no_error_is_refused_with_a_sentence(effects, thing):
    with Batch("b") as batch, pytest.raises(InvalidOption, match="a task or the name of one"):
        batch.enqueue(thing)
    tasks.noop.enqueue()
    with Puller() as puller:
        lease = puller.next(timeout=60)
        with pytest.raises(ValueError, match="a text or an exception"):
            lease.fail(thing)
        lease.complete()


def test_a_batch_is_cancelled_whatever_the_reason_holds(effects):
    with Batch("b") as batch:
        job = batch.enqueue(tasks.noop)
    assert batch.cancel("no\x00 \udc80 way" + "x" * 5000) == 1
    assert column("last_error", job).startswith("no\ufffd \ufffd way")
