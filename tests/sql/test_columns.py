"""The tables' columns: names, types, defaults and what may be null, to the letter of the contract."""

from __future__ import annotations

import pytest

from tests.sql.client import Row, SqlClient

# name: (type, default or None, may be null)
JOBS = {
    "id": ("uuid", "uuidv7()", False),
    "queue": ("text", None, False),
    "tenant_id": ("text", None, True),
    "task": ("text", None, False),
    "args": ("jsonb", "'{}'::jsonb", False),
    "meta": ("jsonb", "'{}'::jsonb", False),
    "state": ("text", "'available'::text", False),
    "priority": ("smallint", "0", False),
    "destination": ("text", None, True),
    "scheduled_at": ("timestamp with time zone", "now()", False),
    "expire_seconds": ("integer", "3600", False),
    "heartbeat_at": ("timestamp with time zone", None, True),
    "attempt": ("smallint", "0", False),
    "max_attempts": ("smallint", "25", False),
    "attempted_by": ("text[]", "'{}'::text[]", False),
    "interruptions": ("smallint", "0", False),
    "max_interruptions": ("smallint", "1", False),
    "deferrals": ("smallint", "0", False),
    "max_deferrals": ("smallint", "100", False),
    "checkpoint": ("jsonb", None, True),
    "checkpoint_at": ("timestamp with time zone", None, True),
    "checkpoint_seq": ("integer", "0", False),
    "backoff_base_ms": ("smallint", "1000", False),
    "backoff_max_ms": ("integer", "3600000", False),
    "claimed_by": ("uuid", None, True),
    "claimed_at": ("timestamp with time zone", None, True),
    "dedup_scope": ("text", None, True),
    "dedup_period": ("text", None, True),
    "failure_kind": ("text", None, True),
    "last_error": ("text", None, True),
    "errors": ("jsonb", "'[]'::jsonb", False),
    "error_fingerprint": ("bytea", None, True),
    "dead_letter_queue": ("text", None, True),
    "source_id": ("uuid", None, True),
    "source_queue": ("text", None, True),
    "source_attempts": ("smallint", None, True),
    "inserted_at": ("timestamp with time zone", "now()", False),
    "finished_at": ("timestamp with time zone", None, True),
}
WORKERS = {
    "id": ("uuid", "uuidv7()", False),
    "hostname": ("text", None, False),
    "pid": ("integer", None, False),
    "queues": ("text[]", "'{}'::text[]", False),
    "metadata": ("jsonb", "'{}'::jsonb", False),
    "started_at": ("timestamp with time zone", "now()", False),
    "last_heartbeat": ("timestamp with time zone", "now()", False),
}
SCHEDULES = {
    "key": ("text", None, False),
    "queue": ("text", None, False),
    "task": ("text", None, False),
    "args": ("jsonb", "'{}'::jsonb", False),
    "meta": ("jsonb", "'{}'::jsonb", False),
    "tenant_id": ("text", None, True),
    "priority": ("smallint", "0", False),
    "interval_secs": ("bigint", None, True),
    "cron_expr": ("text", None, True),
    "next_run_at": ("timestamp with time zone", "now()", False),
    "last_run_at": ("timestamp with time zone", None, True),
    "dst_policy": ("text", "'instant'::text", False),
    "timezone": ("text", "'UTC'::text", False),
    "missed_policy": ("text", "'once'::text", False),
    "paused": ("boolean", "false", False),
    "created_at": ("timestamp with time zone", "now()", False),
    "updated_at": ("timestamp with time zone", "now()", False),
}
OCCURRENCES = {
    "id": ("bigint", None, False),
    "cron_key": ("text", None, False),
    "occurrence_token": ("text", None, False),
    "job_id": ("uuid", None, True),
    "enqueued_at": ("timestamp with time zone", "now()", False),
}
POLICIES = {
    "queue": ("text", None, False),
    "verdict": ("text", "'steady'::text", False),
    "reason": ("text", None, True),
    "decided_at": ("timestamp with time zone", None, True),
    "created_at": ("timestamp with time zone", "now()", False),
    "updated_at": ("timestamp with time zone", "now()", False),
}
TABLES = {
    "stampeded_jobs": JOBS,
    "stampeded_workers": WORKERS,
    "stampeded_schedules": SCHEDULES,
    "stampeded_cron_occurrences": OCCURRENCES,
    "stampeded_queue_policies": POLICIES,
}
# Whether these may be null, or have a default, is left open by the contract.
OPEN = {("stampeded_cron_occurrences", "job_id"), ("stampeded_cron_occurrences", "id")}
COLUMNS = [(table, name) for table, columns in TABLES.items() for name in columns]


def columns(sql: SqlClient, table: str) -> dict[str, Row]:
    found = sql.rows(
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull,"
        " a.attgenerated::text, pg_get_expr(d.adbin, d.adrelid) AS expression"
        " FROM pg_attribute a LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum)"
        " WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped"
        " ORDER BY a.attnum",
        table,
    )
    return {row.attname: row for row in found}


@pytest.mark.parametrize(("table", "name"), COLUMNS)
def test_a_column_has_the_type_default_and_nullability_of_the_contract(sql: SqlClient, table: str, name: str) -> None:
    type, default, nullable = TABLES[table][name]
    column = columns(sql, table)[name]
    assert column.type == type
    if (table, name) not in OPEN:
        assert column.attnotnull is not nullable
        assert column.expression == default


@pytest.mark.parametrize("table", TABLES)
def test_columns_of_our_own_come_after_the_contracts_and_may_be_left_out(sql: SqlClient, table: str) -> None:
    found = columns(sql, table)
    listed = set(TABLES[table]) | {"dedup_key", "max_running", "max_wait_secs"} & set(found)
    assert set(list(found)[: len(listed)]) == listed
    for name in found.keys() - listed:
        assert not found[name].attnotnull or found[name].expression is not None, name


def test_the_dedup_key_is_generated_and_stored_as_bytes(sql: SqlClient) -> None:
    key = columns(sql, "stampeded_jobs")["dedup_key"]
    assert (key.type, key.attgenerated) == ("bytea", "s")


@pytest.mark.parametrize("name", ["max_running", "max_wait_secs"])
def test_a_policys_limits_are_integers_that_may_be_absent(sql: SqlClient, name: str) -> None:
    column = columns(sql, "stampeded_queue_policies")[name]
    assert column.type in ("smallint", "integer", "bigint")
    assert not column.attnotnull and column.expression is None


def test_the_counts_are_read_as_queue_state_and_n(sql: SqlClient) -> None:
    found = columns(sql, "stampeded_queue_counts")
    assert list(found)[:3] == ["queue", "state", "n"]
    assert [found[name].type for name in ("queue", "state")] == ["text", "text"]
    sql.enqueue("q")
    assert isinstance(sql.value("SELECT n FROM stampeded_queue_counts WHERE queue = 'q'"), int)


def test_an_occurrences_number_comes_by_itself(sql: SqlClient) -> None:
    sql.insert("stampeded_schedules", key="k", queue="q", task="t", interval_secs=60)
    ids = [sql.insert("stampeded_cron_occurrences", cron_key="k", occurrence_token=token).id for token in ("1", "2")]
    assert ids[1] > ids[0]


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ("stampeded_jobs", ["queue", "id"]),
        ("stampeded_workers", ["id"]),
        ("stampeded_schedules", ["key"]),
        ("stampeded_cron_occurrences", ["id"]),
        ("stampeded_queue_policies", ["queue"]),
    ],
)
def test_a_tables_primary_key_is_the_contracts(sql: SqlClient, table: str, key: list[str]) -> None:
    found = sql.rows(
        "SELECT a.attname FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(attnum, n)"
        " JOIN pg_attribute a USING (attnum)"
        " WHERE i.indrelid = %s::regclass AND i.indisprimary AND a.attrelid = i.indrelid"
        " ORDER BY k.n",
        table,
    )
    assert [row.attname for row in found] == key


def test_a_job_of_a_queue_and_a_task_alone_gets_every_default(sql: SqlClient) -> None:
    job = sql.job(sql.enqueue("q", "t"))
    assert (job.queue, job.task, job.state, job.args, job.errors) == ("q", "t", "available", {}, [])
    assert job.scheduled_at == job.inserted_at
    assert job.id.version == 7


def test_text_columns_hold_any_text_without_a_type_limit(sql: SqlClient) -> None:
    job = sql.job(sql.enqueue("日本" * 127, "🐎" * 255, tenant_id="é" * 255))
    assert (len(job.queue), len(job.task), len(job.tenant_id)) == (254, 255, 255)
