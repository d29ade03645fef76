"""Who is woken: once per queue and statement that leaves due jobs, while anybody waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest
from psycopg import sql as build

from tests.sql.client import SqlClient
from tests.sql.fixtures import Connect

MINUTE = timedelta(minutes=1)


class Listener:
    """Listens on the install's channel, and tells what came since the last look."""

    def __init__(self, client: SqlClient, channel: str | None = None) -> None:
        self.client = client
        channel = channel or client.value("SELECT stampeded_channel()")
        client.run(build.SQL("LISTEN {}").format(build.Identifier(channel)))

    def heard(self) -> Counter[str]:
        # A notification of our own comes after all those committed before it.
        self.client.run("LISTEN the_end")
        self.client.run("NOTIFY the_end")
        payloads: list[str] = []
        for note in self.client.connection.notifies(timeout=10):
            if note.channel == "the_end":
                break
            payloads.append(note.payload)
        else:
            raise AssertionError("no notification arrives at all")
        return Counter(payloads)


@pytest.fixture
def listener(connect: Connect) -> Listener:
    return Listener(connect())


@pytest.fixture
def waiting(sql: SqlClient) -> UUID:
    """A live worker that has never said anything: it counts as waiting."""
    return sql.worker


def test_the_channel_is_the_schema_and_a_fixed_name(sql: SqlClient) -> None:
    schema = sql.value("SELECT current_schema()")
    assert sql.value("SELECT stampeded_channel()") == f"{schema}.stampeded_insert"


def test_a_listener_of_old_hears_the_queue_on_the_channel_it_knows(sql: SqlClient, connect: Connect, waiting: UUID) -> None:
    schema = sql.value("SELECT current_schema()")
    listener = Listener(connect(), f"{schema}.stampeded_insert")
    sql.enqueue("mail")
    assert listener.heard() == {"mail": 1}


def test_one_statement_wakes_once_for_each_queue(sql: SqlClient, listener: Listener, waiting: UUID) -> None:
    sql.enqueue_many(50, "a")
    assert listener.heard() == {"a": 1}
    sql.run("INSERT INTO stampeded_jobs (queue, task) SELECT q, 't' FROM generate_series(1, 9), unnest(ARRAY['a', 'b', 'c']) q")
    assert listener.heard() == {"a": 1, "b": 1, "c": 1}


def test_nobody_is_woken_for_what_is_not_due(sql: SqlClient, listener: Listener, waiting: UUID) -> None:
    sql.enqueue(scheduled_at=MINUTE)
    for state in ("completed", "discarded", "cancelled", "executing"):
        sql.enqueue(state=state)
    assert not listener.heard()
    sql.run("INSERT INTO stampeded_jobs (queue, task, scheduled_at) VALUES ('a', 't', now() + '1 hour'), ('b', 't', now())")
    assert listener.heard() == {"b": 1}


def test_a_job_imported_as_retryable_and_due_wakes(sql: SqlClient, listener: Listener, waiting: UUID) -> None:
    sql.enqueue(state="retryable")
    assert listener.heard() == {"q": 1}


def test_nobody_is_woken_by_what_is_rolled_back(sql: SqlClient, listener: Listener, waiting: UUID) -> None:
    with sql.transaction() as transaction:
        sql.enqueue()
        raise psycopg.Rollback(transaction)
    assert not listener.heard()


@pytest.mark.parametrize("partitioned", [False, True], ids=["default", "partition"])
def test_an_insert_straight_into_a_partition_wakes_too(
    sql: SqlClient, listener: Listener, waiting: UUID, partitioned: bool
) -> None:
    if partitioned:
        sql.call("stampeded_create_queue", "q")
    sql.enqueue("q", scheduled_at=MINUTE)
    table = sql.value("SELECT tableoid::regclass::text FROM stampeded_jobs")
    sql.run(f"INSERT INTO {table} (queue, task) VALUES ('q', 't')")  # type: ignore[arg-type]
    assert listener.heard() == {"q": 1}


def test_an_insert_into_a_queue_of_its_own_wakes_once(sql: SqlClient, listener: Listener, waiting: UUID) -> None:
    sql.call("stampeded_create_queue", "q")
    sql.enqueue_many(3)
    assert listener.heard() == {"q": 1}


# -- functions that make a job due at once -------------------------------------------------


# Each prepares, yields, and then does what must wake.
Way = Iterator[None]


def release(sql: SqlClient) -> Way:
    job = sql.started()
    yield
    sql.release(job)


def fail_with_no_delay(sql: SqlClient) -> Way:
    job = sql.started()
    yield
    sql.fail(job, delay=0)


def retry(sql: SqlClient) -> Way:
    id = sql.enqueue(state="discarded")
    yield
    sql.call("stampeded_retry", "q", id)


def move(sql: SqlClient) -> Way:
    id = sql.enqueue("other")
    yield
    sql.call("stampeded_move", "other", id, "q")


def release_many(sql: SqlClient) -> Way:
    sql.enqueue_many(3)
    jobs = sql.claim(limit=3)
    yield
    sql.call(
        "stampeded_release_many", sql.worker, [job.queue for job in jobs],
        [job.id for job in jobs], [job.attempt for job in jobs],
    )  # fmt: skip


def resume(sql: SqlClient) -> Way:
    sql.call("stampeded_pause", "q")
    sql.enqueue()
    yield
    sql.call("stampeded_resume", "q")


def dead_letter(sql: SqlClient) -> Way:
    job = sql.started("other", dead_letter_queue="q")
    yield
    sql.fail(job, "unrecoverable")


def fire_schedule(sql: SqlClient) -> Way:
    sql.insert("stampeded_schedules", key="k", queue="q", task="t", interval_secs=60)
    yield
    later = sql.value("SELECT now() + '1 minute'")
    assert sql.call("stampeded_fire_schedule", "k", later)[0][0]


@pytest.mark.parametrize(
    "way",
    [release, fail_with_no_delay, retry, move, release_many, resume, dead_letter, fire_schedule],
)
def test_a_function_that_makes_a_job_due_at_once_wakes(
    sql: SqlClient, listener: Listener, waiting: UUID, way: Callable[[SqlClient], Way]
) -> None:
    steps = way(sql)
    next(steps)
    listener.heard()
    next(steps, None)
    assert listener.heard() == {"q": 1}


@pytest.mark.parametrize("delay", [60_000, 3_600_000])
def test_a_retry_in_the_future_wakes_nobody_now(sql: SqlClient, listener: Listener, waiting: UUID, delay: int) -> None:
    job = sql.started()
    assert listener.heard() == {"q": 1}
    sql.fail(job, delay=delay)
    sql.complete(sql.started("other"))
    assert listener.heard() == {"other": 1}


def test_claiming_completing_and_beating_wake_nobody(sql: SqlClient, listener: Listener, waiting: UUID) -> None:
    sql.enqueue()
    listener.heard()
    (job,) = sql.claim()
    sql.touch(job)
    sql.checkpoint(job, {"row": 1})
    sql.complete(job)
    sql.call("stampeded_heartbeat", sql.worker)
    assert not listener.heard()


# -- while nobody needs waking ---------------------------------------------------------------


def test_nothing_is_sent_while_no_worker_is_registered(sql: SqlClient, listener: Listener) -> None:
    sql.enqueue()
    assert not listener.heard()


def test_nothing_is_sent_while_every_live_worker_says_it_is_not_waiting(sql: SqlClient, listener: Listener) -> None:
    for _ in range(2):
        sql.register(waiting=False)
    sql.enqueue()
    assert not listener.heard()


def test_one_silent_worker_among_busy_ones_is_woken(sql: SqlClient, listener: Listener) -> None:
    sql.register(waiting=False)
    sql.register()
    sql.enqueue()
    assert listener.heard() == {"q": 1}


def test_a_worker_is_woken_again_once_it_waits_again(sql: SqlClient, listener: Listener) -> None:
    worker = sql.register(waiting=False)
    sql.change("stampeded_workers", {"id": worker}, waiting=True)
    sql.enqueue()
    assert listener.heard() == {"q": 1}


@pytest.mark.parametrize(("minutes", "woken"), [(4, True), (6, False)])
def test_a_worker_lives_while_it_has_beaten_within_five_minutes(
    sql: SqlClient, listener: Listener, minutes: int, woken: bool
) -> None:
    sql.silence_worker(sql.worker, minutes * MINUTE)
    sql.enqueue()
    assert bool(listener.heard()) is woken


def test_a_worker_that_waits_for_other_queues_is_no_reason_to_be_silent_for_mine(sql: SqlClient, listener: Listener) -> None:
    sql.register(queues=["other"])
    sql.enqueue()
    assert listener.heard() == {"q": 1}


@pytest.mark.parametrize("queue", ["it's", 'a"b', "日本", "x" * 255, "🐎" * 255, "back\\slash", " "])
def test_any_queue_name_travels_as_it_is(sql: SqlClient, listener: Listener, waiting: UUID, queue: str) -> None:
    sql.enqueue(queue)
    assert listener.heard() == {queue: 1}
