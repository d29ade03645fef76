"""What the tables refuse, and the last value that they still take."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.sql.client import SqlClient

REFUSED = (
    psycopg.errors.CheckViolation,
    psycopg.errors.NotNullViolation,
    psycopg.errors.InvalidParameterValue,
)
STATES = ["available", "claimed", "executing", "retryable", "completed", "discarded", "cancelled"]
KINDS = [
    "raised", "timed_out", "heartbeat_lost", "worker_exited", "worker_missing",
    "breaker_open", "throttled", "cancelled", "unrecoverable",
]  # fmt: skip
KIB = 1024


def text_of(size: int) -> str:
    """Text that doesn't compress, so that no limit is met by accident of compression."""
    return "".join(chr(33 + (i * 7919 + i // 89) % 90) for i in range(size)).replace("\\", "/")


@pytest.mark.parametrize("state", STATES)
def test_a_job_may_be_in_each_state_of_the_contract(sql: SqlClient, state: str) -> None:
    assert sql.job(sql.enqueue(state=state)).state == state


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_may_have_each_failure_kind_of_the_contract(sql: SqlClient, kind: str) -> None:
    assert sql.job(sql.enqueue(failure_kind=kind)).failure_kind == kind


JOB_REFUSALS: list[dict[str, Any]] = [
    {"state": "running"},
    {"state": ""},
    {"failure_kind": "exploded"},
    {"failure_kind": ""},
    {"expire_seconds": 0},
    {"expire_seconds": -1},
    {"attempt": -1},
    {"attempt": 26},
    {"attempt": 2, "max_attempts": 1},
    {"max_attempts": 0},
    {"max_attempts": -1},
    {"interruptions": -1},
    {"deferrals": -1},
    {"backoff_base_ms": 0},
    {"backoff_base_ms": -1},
    {"backoff_max_ms": 0},
    {"backoff_max_ms": -1},
    {"dedup_scope": "s", "dedup_period": "year"},
    {"dedup_scope": "s", "dedup_period": ""},
    {"last_error": "x" * 4001},
    {"dead_letter_queue": "q"},
    {"queue": ""},
    {"task": ""},
    {"queue": "x" * 256},
    {"task": "x" * 256},
    {"tenant_id": "x" * 256},
    {"destination": "x" * 256},
    {"dead_letter_queue": "x" * 256},
    {"queue": None},
    {"task": None},
]


@pytest.mark.parametrize("columns", JOB_REFUSALS, ids=lambda c: ",".join(map(str, c))[:40])
def test_a_job_beyond_a_limit_is_refused(sql: SqlClient, columns: dict[str, Any]) -> None:
    with pytest.raises(REFUSED):
        sql.enqueue(**columns)
    assert sql.value("SELECT count(*) FROM stampeded_jobs") == 0


JOB_LIMITS: list[dict[str, Any]] = [
    {"expire_seconds": 1},
    {"expire_seconds": 2**31 - 1},
    {"attempt": 25},
    {"attempt": 1, "max_attempts": 1},
    {"max_attempts": 32767},
    {"interruptions": 32767, "max_interruptions": 32767},
    {"deferrals": 32767, "max_deferrals": 32767},
    {"max_interruptions": 0, "max_deferrals": 0},
    {"backoff_base_ms": 1},
    {"backoff_base_ms": 32767, "backoff_max_ms": 2**31 - 1},
    {"backoff_max_ms": 1},
    {"priority": -32768},
    {"priority": 32767},
    {"last_error": "é" * 4000},
    {"queue": "é" * 255},
    {"task": "é" * 255},
    {"tenant_id": "é" * 255},
    {"destination": "é" * 255},
    {"dead_letter_queue": "é" * 255},
    {"checkpoint_seq": 2**31 - 1},
] + [{"dedup_scope": "s", "dedup_period": p} for p in ("minute", "hour", "day", "week", "month")]


@pytest.mark.parametrize("columns", JOB_LIMITS, ids=lambda c: ",".join(map(str, c))[:40])
def test_a_job_at_a_limit_is_taken(sql: SqlClient, columns: dict[str, Any]) -> None:
    job = sql.job(sql.enqueue(**columns))
    assert all(getattr(job, name) == value for name, value in columns.items())


@pytest.mark.parametrize("column", ["args", "meta"])
@pytest.mark.parametrize("literal", ["[]", "1", '"text"', "null", "true"])
def test_args_and_meta_are_objects(sql: SqlClient, column: str, literal: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        sql.rows(
            f"INSERT INTO stampeded_jobs (queue, task, {column})"  # type: ignore[arg-type]
            " VALUES ('q', 't', %s::jsonb)",
            literal,
        )


@pytest.mark.parametrize("column", ["args", "meta"])
def test_args_and_meta_hold_up_to_one_mebibyte(sql: SqlClient, column: str) -> None:
    sql.enqueue(**{column: {"x": text_of(KIB * KIB - 100)}})
    with pytest.raises(psycopg.errors.CheckViolation):
        sql.enqueue(**{column: {"x": text_of(KIB * KIB)}})


def test_a_checkpoint_holds_up_to_64_kibibytes(sql: SqlClient) -> None:
    sql.enqueue(checkpoint={"x": text_of(64 * KIB - 100)})
    with pytest.raises(psycopg.errors.CheckViolation):
        sql.enqueue(checkpoint={"x": text_of(64 * KIB)})


@pytest.mark.parametrize("literal", ["{}", "1", "null", '"text"'])
def test_the_errors_are_an_array(sql: SqlClient, literal: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        sql.rows(
            "INSERT INTO stampeded_jobs (queue, task, errors) VALUES ('q', 't', %s::jsonb)",
            literal,
        )


def test_a_dead_letter_queue_is_never_the_jobs_own_even_after_a_move(sql: SqlClient) -> None:
    id = sql.enqueue("q", dead_letter_queue="dead")
    with pytest.raises(psycopg.errors.CheckViolation):
        sql.set_job(id, queue="dead")


def test_two_jobs_of_one_queue_cannot_share_an_id(sql: SqlClient) -> None:
    id = sql.enqueue("q")
    with pytest.raises(psycopg.errors.UniqueViolation):
        sql.enqueue("q", id=id)


# -- schedules --------------------------------------------------------------------

SCHEDULE = {"key": "k", "queue": "q", "task": "t"}


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"interval_secs": 60, "cron_expr": "* * * * *"},
        {"interval_secs": 0},
        {"interval_secs": -1},
        {"interval_secs": 60, "dst_policy": "local"},
        {"interval_secs": 60, "missed_policy": "twice"},
        {"interval_secs": 60, "queue": ""},
        {"interval_secs": 60, "task": ""},
        {"interval_secs": 60, "queue": "x" * 256},
        {"interval_secs": 60, "queue": None},
        {"interval_secs": 60, "task": None},
    ],
    ids=str,
)
def test_a_schedule_beyond_a_limit_is_refused(sql: SqlClient, columns: dict[str, Any]) -> None:
    with pytest.raises(REFUSED):
        sql.insert("stampeded_schedules", **{**SCHEDULE, **columns})


@pytest.mark.parametrize("literal", ["[]", "1", "null"])
def test_a_schedules_args_are_an_object(sql: SqlClient, literal: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        sql.rows(
            "INSERT INTO stampeded_schedules (key, queue, task, interval_secs, args) VALUES ('k', 'q', 't', 60, %s::jsonb)",
            literal,
        )


@pytest.mark.parametrize(
    "columns",
    [
        {"interval_secs": 1},
        {"interval_secs": 2**40},
        {"cron_expr": "0 3 * * *", "dst_policy": "wall_clock"},
        {"cron_expr": "0 3 * * *", "dst_policy": "instant"},
        {"cron_expr": "0 3 * * *", "missed_policy": "skip"},
        {"cron_expr": "0 3 * * *", "missed_policy": "once"},
    ],
    ids=str,
)
def test_a_schedule_within_its_limits_is_taken(sql: SqlClient, columns: dict[str, Any]) -> None:
    row = sql.insert("stampeded_schedules", **{**SCHEDULE, **columns})
    assert all(getattr(row, name) == value for name, value in columns.items())


def test_an_occurrence_stands_once_and_goes_with_its_schedule(sql: SqlClient) -> None:
    sql.insert("stampeded_schedules", **{**SCHEDULE, "interval_secs": 60})
    sql.insert("stampeded_cron_occurrences", cron_key="k", occurrence_token="1")
    with pytest.raises(psycopg.errors.UniqueViolation):
        sql.insert("stampeded_cron_occurrences", cron_key="k", occurrence_token="1")
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        sql.insert("stampeded_cron_occurrences", cron_key="other", occurrence_token="1")
    sql.run("DELETE FROM stampeded_schedules WHERE key = 'k'")
    assert sql.value("SELECT count(*) FROM stampeded_cron_occurrences") == 0


def test_a_schedules_time_of_change_follows_its_edits(sql: SqlClient) -> None:
    before = sql.insert("stampeded_schedules", **{**SCHEDULE, "interval_secs": 60})
    sql.change("stampeded_schedules", {"key": "k"}, queue="other")
    after = sql.one("SELECT * FROM stampeded_schedules")
    assert after.updated_at > before.updated_at
    assert after.created_at == before.created_at


# -- queue policies ---------------------------------------------------------------


@pytest.mark.parametrize(
    "columns",
    [
        {"max_running": 0},
        {"max_running": -1},
        {"max_wait_secs": 0},
        {"max_wait_secs": -1},
        {"verdict": "panic"},
        {"verdict": None},
        {"queue": ""},
        {"queue": "x" * 256},
    ],
    ids=str,
)
def test_a_policy_beyond_a_limit_is_refused(sql: SqlClient, columns: dict[str, Any]) -> None:
    with pytest.raises(REFUSED):
        sql.insert("stampeded_queue_policies", **{"queue": "q", **columns})


@pytest.mark.parametrize("verdict", ["steady", "rush", "hold"])
def test_a_policy_takes_each_verdict(sql: SqlClient, verdict: str) -> None:
    row = sql.insert("stampeded_queue_policies", queue="q", max_running=1, verdict=verdict)
    assert (row.verdict, row.max_running, row.max_wait_secs) == (verdict, 1, None)


def test_the_planners_updates_of_a_policy_stay_hot(sql: SqlClient) -> None:
    for queue in map(str, range(5)):
        sql.insert("stampeded_queue_policies", queue=queue, max_running=1)
    with sql.transaction():
        for verdict in ("rush", "hold", "steady"):
            sql.run(
                "UPDATE stampeded_queue_policies SET verdict = %s, reason = 'because', decided_at = now()",
                verdict,
            )
        table = "'stampeded_queue_policies'::regclass"
        hot = sql.value(f"SELECT pg_stat_get_xact_tuples_hot_updated({table})")  # type: ignore[arg-type]
        all = sql.value(f"SELECT pg_stat_get_xact_tuples_updated({table})")  # type: ignore[arg-type]
    assert (hot, all) == (15, 15)
