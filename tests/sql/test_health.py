"""The health functions: dead tuples, sparse indexes, and partitions that lack their triggers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sql.client import Row, SqlClient

HOSTILE = ["it's", 'a"b', "a,b", "{x}", "back\\slash", "NULL", "'quoted'", "x'); --", "日本", "a\nb"]


def names(sql: SqlClient, function: str) -> list[str]:
    cursor = sql.connection.execute(f"SELECT * FROM {function}()")  # type: ignore[arg-type]
    assert cursor.description is not None
    return [column.name for column in cursor.description]


@pytest.mark.parametrize(
    ("function", "columns"),
    [
        ("stampeded_vacuum_health", "relname live_tuples dead_tuples dead_ratio autovac_threshold"
                                    " needs_vacuum last_autovacuum"),
        ("stampeded_index_density", "indexname pages entries per_page sparse"),
        ("stampeded_partition_health", "partition queue has_notify has_counts"),
    ],
)  # fmt: skip
def test_the_columns_are_the_contracts(sql: SqlClient, function: str, columns: str) -> None:
    assert names(sql, function) == columns.split()


# -- partition_health ------------------------------------------------------------------


def health(sql: SqlClient) -> dict[str | None, Row]:
    found = sql.rows("SELECT * FROM stampeded_partition_health()")
    assert len({row.queue for row in found}) == len(found)
    return {row.queue: row for row in found}


def test_the_default_partition_has_no_queue_and_both_triggers(sql: SqlClient) -> None:
    (default,) = sql.rows("SELECT * FROM stampeded_partition_health()")
    assert (default.queue, default.has_notify, default.has_counts) == (None, True, True)
    assert default.partition


def test_each_partition_comes_with_the_true_name_of_its_queue(sql: SqlClient) -> None:
    for queue in HOSTILE:
        sql.call("stampeded_create_queue", queue)
    found = health(sql)
    assert set(found) == {None, *HOSTILE}
    assert all(row.has_notify and row.has_counts for row in found.values())
    assert len({row.partition for row in found.values()}) == len(HOSTILE) + 1


def test_a_partition_of_several_queues_has_a_row_for_each(sql: SqlClient) -> None:
    sql.run("CREATE TABLE by_hand PARTITION OF stampeded_jobs FOR VALUES IN ('one', 'it''s two', 'th\"ree, four', '\\five')")
    found = health(sql)
    assert set(found) == {None, "one", "it's two", 'th"ree, four', "\\five"}
    assert len({found[queue].partition for queue in found if queue}) == 1


def test_a_partition_without_its_triggers_is_told(sql: SqlClient) -> None:
    sql.call("stampeded_create_queue", "whole")
    sql.run("CREATE TABLE by_hand PARTITION OF stampeded_jobs FOR VALUES IN ('bare')")
    found = health(sql)
    assert (found["whole"].has_notify, found["whole"].has_counts) == (True, True)
    assert (found["bare"].has_notify, found["bare"].has_counts) == (False, False)


# -- vacuum_health ----------------------------------------------------------------------


def flush(sql: SqlClient) -> None:
    """Send what this connection has counted: the server does so at the end of a statement."""
    sql.run("SELECT pg_stat_force_next_flush()")
    sql.value("SELECT 1")


def vacuum(sql: SqlClient) -> dict[str, Row]:
    flush(sql)
    return {row.relname: row for row in sql.rows("SELECT * FROM stampeded_vacuum_health()")}


def partition_name(sql: SqlClient, queue: str) -> str:
    name: str = sql.value(
        "SELECT c.relname FROM stampeded_jobs j JOIN pg_class c ON c.oid = j.tableoid WHERE j.queue = %s LIMIT 1",
        queue,
    )
    return name


@pytest.fixture
def unvacuumed(sql: SqlClient) -> Iterator[str]:
    """A partition with 1,000 live rows, as many dead ones, and autovacuum kept away."""
    sql.call("stampeded_create_queue", "q")
    sql.enqueue_many(1000)
    name = partition_name(sql, "q")
    sql.run(f"ALTER TABLE {name} SET (autovacuum_enabled = false)")  # type: ignore[arg-type]
    flush(sql)
    sql.run(f"ANALYZE {name}")  # type: ignore[arg-type]
    sql.run("UPDATE stampeded_jobs SET priority = 1, scheduled_at = now() + '1 day'")
    yield name


def test_dead_tuples_stand_against_the_partitions_own_threshold(sql: SqlClient, unvacuumed: str) -> None:
    row = vacuum(sql)[unvacuumed]
    assert (row.live_tuples, row.dead_tuples) == (1000, 1000)
    assert 0.45 < float(row.dead_ratio) < 1.05
    for threshold, needed in ((999, True), (1001, False)):
        sql.run(
            f"ALTER TABLE {unvacuumed} SET (autovacuum_vacuum_scale_factor = 0,"  # type: ignore[arg-type]
            f" autovacuum_vacuum_threshold = {threshold})"
        )
        row = vacuum(sql)[unvacuumed]
        assert (int(row.autovac_threshold), row.needs_vacuum) == (threshold, needed)


def test_the_threshold_grows_with_the_table_up_to_its_maximum(sql: SqlClient, unvacuumed: str) -> None:
    settings = "autovacuum_vacuum_scale_factor = 0.5, autovacuum_vacuum_threshold = 100"
    sql.run(f"ALTER TABLE {unvacuumed} SET ({settings})")  # type: ignore[arg-type]
    assert int(vacuum(sql)[unvacuumed].autovac_threshold) == 600
    sql.run(f"ALTER TABLE {unvacuumed} SET (autovacuum_vacuum_max_threshold = 300)")  # type: ignore[arg-type]
    assert int(vacuum(sql)[unvacuumed].autovac_threshold) == 300
    sql.run(f"ALTER TABLE {unvacuumed} SET (autovacuum_vacuum_max_threshold = -1)")  # type: ignore[arg-type]
    assert int(vacuum(sql)[unvacuumed].autovac_threshold) == 600


def test_the_servers_settings_count_where_a_partition_has_none(sql: SqlClient, unvacuumed: str) -> None:
    sql.run(
        f"ALTER TABLE {unvacuumed} RESET (autovacuum_vacuum_scale_factor,"  # type: ignore[arg-type]
        " autovacuum_vacuum_threshold, autovacuum_vacuum_max_threshold)"
    )
    expected = sql.value(
        "SELECT least(current_setting('autovacuum_vacuum_threshold')::float"
        " + current_setting('autovacuum_vacuum_scale_factor')::float * 1000,"
        " nullif(current_setting('autovacuum_vacuum_max_threshold')::float, -1))"
    )
    assert int(vacuum(sql)[unvacuumed].autovac_threshold) == int(expected)


def test_every_partition_of_this_install_is_there_and_nothing_else(sql: SqlClient) -> None:
    sql.call("stampeded_create_queue", "q")
    sql.run("CREATE TABLE somebody_elses (a integer)")
    try:
        found = vacuum(sql)
        partitions = {row.partition for row in sql.rows("SELECT * FROM stampeded_partition_health()")}
        assert set(found) >= {str(p).split(".")[-1].strip('"') for p in partitions}
        assert "somebody_elses" not in found
    finally:
        sql.run("DROP TABLE somebody_elses")


# -- index_density -----------------------------------------------------------------------


def density(sql: SqlClient) -> dict[str, Row]:
    return {row.indexname: row for row in sql.rows("SELECT * FROM stampeded_index_density()")}


def test_an_index_grown_sparse_is_told_from_a_full_one_and_a_small_one(sql: SqlClient) -> None:
    sql.call("stampeded_create_queue", "q")
    sql.call("stampeded_create_queue", "small")
    sql.enqueue_many(40_000, "q", state="completed")
    sql.enqueue_many(5, "small")
    partition = partition_name(sql, "q")
    sql.run("ANALYZE stampeded_jobs")
    primary = f"{partition}_pkey"
    full = density(sql)[primary]
    assert full.pages >= 128 and full.per_page > 5 and full.sparse is False
    sql.run("DELETE FROM stampeded_jobs WHERE queue = 'q' AND random() < 0.995")
    sql.run(f"VACUUM ANALYZE {partition}")  # type: ignore[arg-type]
    found = density(sql)
    assert found[primary].pages >= 128 and found[primary].per_page < 5
    assert found[primary].sparse is True
    small = [row for name, row in found.items() if name.startswith(partition_name(sql, "small"))]
    assert small and not any(row.sparse for row in small)


def test_what_a_broken_reindex_left_behind_is_not_told(sql: SqlClient) -> None:
    sql.call("stampeded_create_queue", "q")
    sql.enqueue_many(3)
    partition = partition_name(sql, "q")
    index = f"{partition}_broken_ccnew"
    sql.run(f"CREATE INDEX {index} ON {partition} (task)")  # type: ignore[arg-type]
    assert index in density(sql)
    sql.run("UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", index)
    assert index not in density(sql)
