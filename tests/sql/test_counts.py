"""stampeded_queue_counts: exact after every commit, whatever wrote the jobs, and blocking nobody."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest

from tests.sql.client import SqlClient
from tests.sql.fixtures import Connect

DAY = timedelta(days=1)


def waiting_and_running(sql: SqlClient) -> None:
    sql.enqueue_many(6)
    sql.enqueue_many(2, "other")
    sql.enqueue_many(2, state="completed", finished_at=-30 * DAY)
    for job in sql.claim(limit=3):
        sql.silence(job.id, DAY)


def fail_terminally(sql: SqlClient) -> None:
    sql.run("UPDATE stampeded_jobs SET dead_letter_queue = 'dead'")
    sql.fail(*sql.claim(), "unrecoverable")


def move_by_update(sql: SqlClient) -> None:
    sql.run("UPDATE stampeded_jobs SET queue = 'other' WHERE state = 'available' AND queue = 'q'")


def copy_in(sql: SqlClient) -> None:
    with sql.connection.cursor().copy("COPY stampeded_jobs (queue, task) FROM STDIN") as copy:
        for _ in range(5):
            copy.write_row(("q", "copied"))


def enqueue_and_change_in_one_transaction(sql: SqlClient) -> None:
    with sql.transaction():
        id = sql.enqueue("fresh")
        sql.claim("fresh")
        sql.run("DELETE FROM stampeded_jobs WHERE id = %s", id)
        sql.enqueue("fresh")


def savepoint_rolled_back(sql: SqlClient) -> None:
    with sql.transaction():
        sql.enqueue("kept")
        with sql.transaction() as inner:
            sql.enqueue("lost")
            raise psycopg.Rollback(inner)


def upsert(sql: SqlClient) -> None:
    statement = (
        "INSERT INTO stampeded_jobs (queue, task, dedup_scope) VALUES ('q', 't', 's')"
        " ON CONFLICT (queue, dedup_key) WHERE dedup_key IS NOT NULL DO UPDATE SET state = 'cancelled'"
    )
    sql.run(statement)
    sql.run(statement)


CHANGES: dict[str, Callable[[SqlClient], object]] = {
    "enqueue": lambda sql: sql.enqueue(),
    "enqueue many in one statement": lambda sql: sql.enqueue_many(50, "many"),
    "enqueue into two queues in one statement": lambda sql: sql.run(
        "INSERT INTO stampeded_jobs (queue, task) VALUES ('a', 't'), ('b', 't'), ('a', 't')"
    ),
    "copy": copy_in,
    "upsert": upsert,
    "claim": lambda sql: sql.claim(limit=2),
    "complete": lambda sql: sql.complete(*sql.claim()),
    "fail with a retry": lambda sql: sql.fail(*sql.claim()),
    "fail for good": fail_terminally,
    "release": lambda sql: sql.release(*sql.claim()),
    "expire": lambda sql: sql.call("stampeded_expire"),
    "reap": lambda sql: (sql.silence_worker(sql.worker, DAY), sql.call("stampeded_reap")),
    "prune": lambda sql: sql.call("stampeded_prune"),
    "update of the state": lambda sql: sql.run("UPDATE stampeded_jobs SET state = 'cancelled'"),
    "update of something else": lambda sql: sql.run("UPDATE stampeded_jobs SET priority = 1"),
    "move by update": move_by_update,
    "delete": lambda sql: sql.run("DELETE FROM stampeded_jobs WHERE queue = 'q'"),
    "truncate": lambda sql: sql.run("TRUNCATE stampeded_jobs"),
    "create_queue": lambda sql: sql.call("stampeded_create_queue", "q"),
    "in and out in one transaction": enqueue_and_change_in_one_transaction,
    "savepoint rolled back": savepoint_rolled_back,
}


@pytest.mark.parametrize("partitioned", [False, True], ids=["default", "partition"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_counts_are_exact_after_every_kind_of_change(
    sql: SqlClient, change: Callable[[SqlClient], object], partitioned: bool
) -> None:
    if partitioned:
        for queue in ("q", "other"):
            sql.call("stampeded_create_queue", queue)
    waiting_and_running(sql)
    assert sql.counts() == sql.true_counts()
    change(sql)
    assert sql.counts() == sql.true_counts()
    sql.call("stampeded_fold_counts", 1)
    assert sql.counts() == sql.true_counts()


def partition(sql: SqlClient, queue: str) -> str:
    found: str = sql.value("SELECT tableoid::regclass::text FROM stampeded_jobs WHERE queue = %s LIMIT 1", queue)
    return found


@pytest.mark.parametrize("partitioned", [False, True], ids=["default", "partition"])
def test_statements_straight_at_a_partition_are_counted_too(sql: SqlClient, partitioned: bool) -> None:
    if partitioned:
        sql.call("stampeded_create_queue", "q")
    sql.enqueue_many(3)
    table = partition(sql, "q")
    for statement in (
        f"INSERT INTO {table} (queue, task) VALUES ('q', 't'), ('q', 't')",
        f"UPDATE {table} SET state = 'cancelled' WHERE task = 't'",
        f"DELETE FROM {table} WHERE id = (SELECT id FROM {table} LIMIT 1)",
        f"TRUNCATE {table}",
    ):
        sql.run(statement)  # type: ignore[arg-type]
        assert sql.counts() == sql.true_counts(), statement


def test_an_open_transaction_counts_for_itself_and_not_yet_for_others(sql: SqlClient, connect: Connect) -> None:
    sql.enqueue()
    other = connect()
    with other.transaction() as transaction:
        other.enqueue_many(2)
        assert other.counts() == {("q", "available"): 3}
        assert sql.counts() == {("q", "available"): 1}
        raise psycopg.Rollback(transaction)
    assert sql.counts() == other.counts() == {("q", "available"): 1}


def test_folding_while_a_transaction_is_open_loses_nothing(sql: SqlClient, connect: Connect) -> None:
    sql.enqueue_many(3)
    other = connect()
    with other.transaction():
        other.enqueue_many(2)
        sql.run("SET lock_timeout = '2s'")
        sql.call("stampeded_fold_counts", 1)
        assert sql.counts() == {("q", "available"): 3}
    assert sql.counts() == {("q", "available"): 5}
    sql.call("stampeded_fold_counts", 1)
    assert sql.counts() == {("q", "available"): 5}


def test_a_fold_that_is_rolled_back_changes_nothing(sql: SqlClient) -> None:
    for _ in range(5):
        sql.enqueue()
    with sql.transaction() as transaction:
        sql.call("stampeded_fold_counts", 1)
        raise psycopg.Rollback(transaction)
    assert sql.counts() == {("q", "available"): 5}


def test_a_snapshot_taken_before_a_fold_still_reads_the_truth(sql: SqlClient, connect: Connect) -> None:
    sql.enqueue_many(4)
    reader = connect()
    reader.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert reader.counts() == {("q", "available"): 4}
    sql.call("stampeded_fold_counts", 1)
    sql.enqueue()
    sql.call("stampeded_fold_counts", 1)
    assert reader.counts() == {("q", "available"): 4}
    reader.run("COMMIT")
    assert reader.counts() == {("q", "available"): 5}


def test_a_recount_rebuilds_one_queue_from_its_jobs(sql: SqlClient) -> None:
    sql.enqueue_many(3)
    sql.enqueue_many(2, "other")
    sql.claim()
    # Somebody writes behind the triggers' back.
    sql.run("SET session_replication_role = replica")
    sql.run("DELETE FROM stampeded_jobs WHERE state = 'available'")
    sql.enqueue_many(7, "new", state="completed")
    sql.run("RESET session_replication_role")
    sql.call("stampeded_recount_queue", "q")
    assert sql.counts() == {("q", "executing"): 1, ("other", "available"): 2}
    for queue in ("other", "new", "never heard of"):
        sql.call("stampeded_recount_queue", queue)
    assert sql.counts() == sql.true_counts()


def test_a_recount_of_right_counts_changes_nothing_folded_or_not(sql: SqlClient) -> None:
    waiting_and_running(sql)
    for _ in range(2):
        for queue in ("q", "other"):
            sql.call("stampeded_recount_queue", queue)
        assert sql.counts() == sql.true_counts()
        sql.call("stampeded_fold_counts", 1)


def test_an_open_transaction_that_has_enqueued_blocks_nobody(sql: SqlClient, connect: Connect) -> None:
    mine = sql.started()
    sql.enqueue()
    other = connect()
    with other.transaction():
        other.enqueue()
        sql.run("SET lock_timeout = '300ms'")
        sql.enqueue()
        taken = sql.claim(limit=10)
        assert len(taken) == 2
        sql.complete(mine)
        sql.fail(taken[0])
        sql.release(taken[1])
        sql.call("stampeded_prune")
        sql.call("stampeded_reap")
        sql.call("stampeded_expire")
        assert sql.counts() == sql.true_counts()
    assert sql.counts() == sql.true_counts()


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
def test_enqueueing_works_under_every_isolation_level(sql: SqlClient, connect: Connect, isolation: str) -> None:
    one, two = connect(), connect()
    for client in (one, two):
        client.run(f"BEGIN ISOLATION LEVEL {isolation}")  # type: ignore[arg-type]
        client.enqueue()
    for client in (one, two):
        client.run("COMMIT")
    assert sql.counts() == {("q", "available"): 2}
