"""Unique jobs: one per scope until it is finished, or one per scope and time bucket."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import psycopg
import pytest

from tests.sql.client import SqlClient

PERIODS = ["minute", "hour", "day", "week", "month"]


def enqueue_unless_there(sql: SqlClient, **columns: str) -> UUID | None:
    """The statement with which any language enqueues a unique job: no row back means refused."""
    columns = {"queue": "q", "task": "t", **columns}
    names, marks = ", ".join(columns), ", ".join(["%s"] * len(columns))
    found = sql.rows(
        f"INSERT INTO stampeded_jobs ({names}) VALUES ({marks})"  # type: ignore[arg-type]
        " ON CONFLICT (queue, dedup_key) WHERE dedup_key IS NOT NULL DO NOTHING RETURNING id",
        *columns.values(),
    )
    return found[0].id if found else None


@pytest.mark.parametrize("period", [None, *PERIODS])
def test_a_second_job_of_a_scope_is_refused_while_the_first_is_unfinished(sql: SqlClient, period: str | None) -> None:
    columns = {"dedup_scope": "s"} | ({"dedup_period": period} if period else {})
    assert enqueue_unless_there(sql, **columns)
    assert enqueue_unless_there(sql, **columns) is None
    with pytest.raises(psycopg.errors.UniqueViolation):
        sql.enqueue(**columns)


def test_jobs_without_a_scope_are_never_duplicates(sql: SqlClient) -> None:
    for columns in ({}, {}, {"dedup_period": "day"}, {"dedup_period": "day"}):
        assert sql.job(sql.enqueue(**columns)).dedup_key is None


def test_an_empty_scope_is_a_scope_of_its_own(sql: SqlClient) -> None:
    assert enqueue_unless_there(sql, dedup_scope="")
    assert enqueue_unless_there(sql, dedup_scope="") is None
    assert enqueue_unless_there(sql, dedup_scope=" ")


def test_scopes_of_different_queues_are_apart(sql: SqlClient) -> None:
    assert enqueue_unless_there(sql, queue="a", dedup_scope="s")
    assert enqueue_unless_there(sql, queue="b", dedup_scope="s")


@pytest.mark.parametrize(
    "scope",
    ["CORP\\user", "\\", "\\x41", "\\000", "'", "a\nb", "🐎" * 300, "x" * 5000, "null", "\\134"],
)
def test_any_text_can_be_a_scope(sql: SqlClient, scope: str) -> None:
    assert enqueue_unless_there(sql, dedup_scope=scope)
    assert enqueue_unless_there(sql, dedup_scope=scope) is None
    assert enqueue_unless_there(sql, dedup_scope=scope + "!")


def test_scopes_that_a_cast_to_bytes_would_confuse_are_apart(sql: SqlClient) -> None:
    for scope in ("A", "\\x41", "\\101", "\\\\101"):
        assert enqueue_unless_there(sql, dedup_scope=scope), scope


@pytest.mark.parametrize("period", PERIODS)
def test_a_scope_that_looks_like_anothers_bucket_is_not_taken_for_it(sql: SqlClient, period: str) -> None:
    sql.enqueue(dedup_scope="s", dedup_period=period, inserted_at=datetime(2026, 8, 3, tzinfo=UTC))
    key = bytes(sql.jobs()[0].dedup_key)
    guesses = {key[i:].decode("utf-8", "ignore").replace("\0", "") for i in range(len(key))}
    guesses |= {key[:i].decode("utf-8", "ignore").replace("\0", "") for i in range(len(key))}
    guesses |= {"s|2026-08-03", "s:2026-08-03 00:00:00", "s2026-08-03 00:00:00", f"s{period}"}
    for scope in guesses - {"s"}:
        assert enqueue_unless_there(sql, dedup_scope=scope), scope


def test_the_period_is_part_of_the_key(sql: SqlClient) -> None:
    moment = datetime(2026, 6, 1, tzinfo=UTC)  # a Monday, the first of a month, midnight
    for period in [None, *PERIODS]:
        sql.enqueue(dedup_scope="s", dedup_period=period, inserted_at=moment)
    assert len({job.dedup_key for job in sql.jobs()}) == 6


# (period, first moment of a bucket, its last second, the moment after), all UTC
BUCKETS = [
    ("minute", "2026-03-29 01:59:00", "2026-03-29 01:59:59.999999", "2026-03-29 02:00:00"),
    ("hour", "2026-03-29 01:00:00", "2026-03-29 01:59:59.999999", "2026-03-29 02:00:00"),
    ("day", "2026-12-31 00:00:00", "2026-12-31 23:59:59.999999", "2027-01-01 00:00:00"),
    ("week", "2026-12-28 00:00:00", "2027-01-03 23:59:59.999999", "2027-01-04 00:00:00"),
    ("month", "2028-02-01 00:00:00", "2028-02-29 23:59:59.999999", "2028-03-01 00:00:00"),
]


@pytest.mark.parametrize(("period", "first", "last", "after"), BUCKETS)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Auckland"])
def test_buckets_are_by_the_time_of_insertion_in_utc(
    sql: SqlClient, period: str, first: str, last: str, after: str, zone: str
) -> None:
    sql.run("SELECT set_config('timezone', %s, false)", zone)
    columns = {"dedup_scope": "s", "dedup_period": period}
    assert enqueue_unless_there(sql, **columns, inserted_at=first + "+00")
    assert enqueue_unless_there(sql, **columns, inserted_at=last + "+00") is None
    assert enqueue_unless_there(sql, **columns, inserted_at=after + "+00")


def test_completing_frees_a_scope_without_a_period(sql: SqlClient) -> None:
    sql.complete(sql.started(dedup_scope="s"))
    assert enqueue_unless_there(sql, dedup_scope="s")


@pytest.mark.parametrize("period", ["hour", "day", "week", "month"])
def test_completing_keeps_a_periods_slot_so_that_one_per_bucket_is_true(sql: SqlClient, period: str) -> None:
    job = sql.started(dedup_scope="s", dedup_period=period)
    sql.complete(job)
    assert sql.job(job.id).dedup_key == job.dedup_key
    with pytest.raises(psycopg.errors.UniqueViolation):
        sql.enqueue(dedup_scope="s", dedup_period=period, inserted_at=job.inserted_at)


def test_the_next_bucket_is_free_though_the_job_of_the_last_one_is_completed(
    sql: SqlClient,
) -> None:
    job = sql.started(dedup_scope="s", dedup_period="day", inserted_at=datetime(2026, 1, 1, tzinfo=UTC))
    sql.complete(job)
    assert enqueue_unless_there(sql, dedup_scope="s", dedup_period="day")


@pytest.mark.parametrize("kind", ["unrecoverable", "cancelled"])
@pytest.mark.parametrize("period", [None, "month"])
def test_a_job_that_failed_for_good_or_was_cancelled_frees_its_slot(sql: SqlClient, kind: str, period: str | None) -> None:
    job = sql.started(dedup_scope="s", dedup_period=period)
    sql.fail(job, kind)
    sql.enqueue(dedup_scope="s", dedup_period=period)


@pytest.mark.parametrize("way", ["cancel", "discard", "delete", "truncate"])
def test_an_operators_removal_of_a_waiting_holder_frees_its_slot(sql: SqlClient, way: str) -> None:
    id = sql.enqueue(dedup_scope="s", dedup_period="month")
    if way == "delete":
        sql.run("DELETE FROM stampeded_jobs")
    elif way == "truncate":
        sql.run("TRUNCATE stampeded_jobs")
    else:
        assert len(sql.call(f"stampeded_{way}", "q", id)) == 1
    sql.enqueue(dedup_scope="s", dedup_period="month")


def test_a_duplicate_does_not_break_the_transaction_around_it(sql: SqlClient) -> None:
    sql.enqueue(dedup_scope="s")
    with sql.transaction():
        assert enqueue_unless_there(sql, dedup_scope="s") is None
        assert enqueue_unless_there(sql, dedup_scope="other")
    assert len(sql.jobs()) == 2


def test_the_slot_is_unique_in_a_partition_of_its_own_too(sql: SqlClient) -> None:
    sql.call("stampeded_create_queue", "q")
    assert enqueue_unless_there(sql, dedup_scope="s")
    assert enqueue_unless_there(sql, dedup_scope="s") is None
