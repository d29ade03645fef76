"""stampeded_create_queue: a partition of its own for any queue, at any time, losing nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.sql.client import Row, SqlClient

NAMES = [
    "a-b", "a_b", "a.b", "a b", "A-B", "A_B", "a_B", "default", "DEFAULT", "jobs", "case", "select",
    "x" * 200, "x" * 199 + "y", "x" * 255, "🐎" * 255, "🐎" * 254 + "é", "日本", "日本語",
    "it's", 'say "hi"', '"', "'", "\\", "%I", "%L %s", "a\nb", "a\tb", " ", "  ", "NULL", "null",
    "x'); DROP TABLE stampeded_jobs;--", "'" * 63, '"' * 63, "foo/bar.baz", "a%2Fb", "..", "{}", "{a,b}",
    "stampeded_jobs_default", "1", "é", "e\u0301",
]  # fmt: skip


def partitions(sql: SqlClient) -> dict[str, Row]:
    """The partitions by name: their bound, settings and persistence."""
    found = sql.rows(
        "SELECT c.oid::regclass::text AS name, pg_get_expr(c.relpartbound, c.oid) AS bound,"
        " coalesce(c.reloptions, '{}') AS options, c.relpersistence::text AS persistence"
        " FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = 'stampeded_jobs'::regclass"
    )
    return {row.name: row for row in found}


def home(sql: SqlClient, queue: str) -> str:
    found = sql.rows("SELECT DISTINCT tableoid::regclass::text FROM stampeded_jobs WHERE queue = %s", queue)
    assert len(found) == 1
    name: str = found[0][0]
    return name


def create(sql: SqlClient, queue: str | None, *unlogged: bool) -> None:
    sql.call("stampeded_create_queue", queue, *unlogged)


def test_a_queue_without_a_partition_lives_in_the_default_one(sql: SqlClient) -> None:
    sql.enqueue("anything")
    (found,) = partitions(sql).values()
    assert found.bound == "DEFAULT" and home(sql, "anything") == found.name


def test_jobs_are_partitioned_by_list_of_queue(sql: SqlClient) -> None:
    key = sql.value("SELECT pg_get_partkeydef('stampeded_jobs'::regclass)")
    assert key == "LIST (queue)"


def test_every_name_gets_a_partition_of_its_own(sql: SqlClient) -> None:
    for queue in NAMES:
        create(sql, queue)
        sql.enqueue(queue)
    homes = [home(sql, queue) for queue in NAMES]
    assert len(set(homes)) == len(NAMES) == len(partitions(sql)) - 1
    assert not any(partitions(sql)[name].bound == "DEFAULT" for name in homes)
    assert sql.counts() == sql.true_counts()


@pytest.mark.parametrize("queue", NAMES, ids=[repr(name)[:20] for name in NAMES])
def test_a_queue_of_any_name_works_through_and_through(sql: SqlClient, queue: str) -> None:
    create(sql, queue)
    create(sql, queue)
    job = sql.started(queue, dedup_scope="s")
    sql.release(job)
    (job,) = sql.claim(queue)
    sql.fail(job)
    (job,) = sql.claim(queue)
    sql.complete(job)
    sql.insert("stampeded_queue_policies", queue=queue, max_running=1)
    sql.call("stampeded_recount_queue", queue)
    assert sql.counts() == {(queue, "completed"): 1}


@pytest.mark.parametrize("queue", [None, "", "x" * 256])
def test_a_name_that_no_queue_may_have_gets_no_partition(sql: SqlClient, queue: str | None) -> None:
    with pytest.raises(psycopg.Error):
        create(sql, queue)
    assert len(partitions(sql)) == 1


def test_creating_a_queue_again_changes_nothing(sql: SqlClient) -> None:
    create(sql, "q")
    sql.enqueue_many(3)
    before = partitions(sql)
    create(sql, "q")
    create(sql, "q", False)
    assert partitions(sql) == before and len(sql.jobs()) == 3


@pytest.mark.parametrize("unlogged", [False, True])
def test_a_queue_may_be_unlogged(sql: SqlClient, unlogged: bool) -> None:
    create(sql, "q", unlogged)
    sql.complete(sql.started("q"))
    assert partitions(sql)[home(sql, "q")].persistence == ("u" if unlogged else "p")
    sql.enqueue("other")
    assert partitions(sql)[home(sql, "other")].persistence == "p"


@pytest.mark.parametrize("first", [False, True])
def test_other_options_for_a_queue_that_is_there_change_nothing_but_are_noticed(sql: SqlClient, first: bool) -> None:
    create(sql, "q", first)
    before = partitions(sql)
    sql.notices.clear()
    create(sql, "q", first)
    assert sql.notices == []
    create(sql, "q", not first)
    assert partitions(sql) == before
    (notice,) = sql.notices
    assert "logged" in notice.text


def test_every_partition_is_set_up_for_churn(sql: SqlClient) -> None:
    create(sql, "q")
    for partition in partitions(sql).values():
        options = dict(option.split("=") for option in partition.options)
        assert int(options["fillfactor"]) < 100, partition.name
        assert float(options["autovacuum_vacuum_scale_factor"]) < 0.2, partition.name
    (own, default) = sorted(partitions(sql).values(), key=lambda p: p.bound == "DEFAULT")
    assert sorted(own.options) == sorted(default.options)


def test_every_partition_has_the_same_indexes_triggers_and_checks(sql: SqlClient) -> None:
    create(sql, "q")
    kinds = {
        "indexes": "SELECT indisunique, indisprimary, pg_get_expr(indpred, indrelid),"
        " pg_get_indexdef(indexrelid, 1, true), indnatts FROM pg_index WHERE indrelid = {0}",
        "triggers": "SELECT tgfoid, tgtype, pg_get_expr(tgqual, tgrelid) FROM pg_trigger"
        " WHERE tgrelid = {0} AND NOT tgisinternal",
        "checks": "SELECT DISTINCT pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE conrelid = {0} AND contype = 'c' AND coninhcount > 0",
    }
    for kind, query in kinds.items():
        found = [
            sorted(map(str, sql.rows(query.format("%s::regclass"), name)))  # type: ignore[arg-type]
            for name in partitions(sql)
        ]
        assert found[0] == found[1] and found[0], kind


MIXED: list[dict[str, Any]] = [
    {}, {"scheduled_at": timedelta(days=1)}, {"state": "retryable", "attempt": 3},
    {"state": "executing", "attempt": 1}, {"state": "completed"}, {"state": "discarded"},
    {"dedup_scope": "s"}, {"args": {"a": 1}, "checkpoint": {"row": 1}, "priority": 7},
]  # fmt: skip


def test_jobs_that_are_already_there_move_with_everything_they_have(sql: SqlClient) -> None:
    for columns in MIXED:
        sql.enqueue("late", **columns)
    running = sql.claim("late")[0]
    sql.enqueue_many(3, "other")
    before, elsewhere = sql.jobs("late"), home(sql, "other")
    create(sql, "late")
    assert sql.jobs("late") == before
    assert home(sql, "late") != elsewhere == home(sql, "other")
    assert sql.counts() == sql.true_counts()
    assert len(sql.complete(running)) == 1
    with pytest.raises(psycopg.errors.UniqueViolation):
        sql.enqueue("late", dedup_scope="s")


def test_a_queue_can_be_created_within_a_transaction_and_taken_back(sql: SqlClient) -> None:
    sql.enqueue_many(5, "late")
    with sql.transaction() as transaction:
        create(sql, "late")
        sql.enqueue("late")
        raise psycopg.Rollback(transaction)
    assert len(partitions(sql)) == 1 and len(sql.jobs("late")) == 5
    create(sql, "late")
    assert len(sql.jobs("late")) == 5


def test_a_dropped_partition_can_be_made_again(sql: SqlClient) -> None:
    create(sql, "q")
    sql.enqueue("q")
    sql.run(f"DROP TABLE {home(sql, 'q')}")  # type: ignore[arg-type]
    create(sql, "q")
    sql.enqueue("q")
    assert partitions(sql)[home(sql, "q")].bound != "DEFAULT"


def test_a_table_of_somebody_elses_in_the_way_is_left_alone(sql: SqlClient) -> None:
    create(sql, "q")
    sql.enqueue("q")
    taken = home(sql, "q")
    sql.run(f"DROP TABLE {taken}")  # type: ignore[arg-type]
    sql.run(f"CREATE TABLE {taken} (theirs integer)")  # type: ignore[arg-type]
    try:
        try:
            create(sql, "q")
        except psycopg.Error:
            return  # to say so is as good as another name
        sql.enqueue("q")
        assert home(sql, "q") != taken
    finally:
        sql.run(f"DROP TABLE {taken}")  # type: ignore[arg-type]
