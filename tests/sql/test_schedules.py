"""Schedules: which are due, and firing each occurrence once, with its job, or not at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from tests.sql.client import Row, SqlClient
from tests.sql.fixtures import Connect

MINUTE = timedelta(minutes=1)
CRON = {"cron_expr": "0 3 * * *"}
INTERVAL = {"interval_secs": 60}


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def schedule(sql: SqlClient, key: str = "k", **columns: Any) -> Row:
    columns = {**({} if {"cron_expr", "interval_secs"} & columns.keys() else INTERVAL), **columns}
    return sql.insert("stampeded_schedules", **{"key": key, "queue": "q", "task": "t", **columns})


def stored_past_every_check(sql: SqlClient, key: str, **columns: Any) -> None:
    """A schedule as a restore or an old release may have left it."""
    schedule(sql, key)
    sql.run("SET session_replication_role = replica")
    sql.change("stampeded_schedules", {"key": key}, interval_secs=None, **columns)
    sql.run("RESET session_replication_role")


def fire(sql: SqlClient, key: str = "k", next_run_at: datetime | None | str = "") -> Any:
    moment = sql.value("SELECT now() + '1 hour'") if next_run_at == "" else next_run_at
    return sql.call("stampeded_fire_schedule", key, moment)[0][0]


def row(sql: SqlClient, key: str = "k") -> Row:
    return sql.one("SELECT * FROM stampeded_schedules WHERE key = %s", key)


def tokens(sql: SqlClient, key: str = "k") -> list[str]:
    found = sql.rows(
        "SELECT occurrence_token FROM stampeded_cron_occurrences WHERE cron_key = %s ORDER BY id",
        key,
    )
    return [each[0] for each in found]


# -- which are due -------------------------------------------------------------------


def test_due_schedules_that_are_not_paused_are_claimed(sql: SqlClient) -> None:
    schedule(sql, "due")
    schedule(sql, "long due", next_run_at=-timedelta(days=400))
    schedule(sql, "later", next_run_at=MINUTE)
    schedule(sql, "paused", paused=True)
    due = sql.call("stampeded_claim_due_schedules")
    assert {each.key for each in due} == {"due", "long due"}
    assert sorted(due, key=lambda each: each.key) == [row(sql, "due"), row(sql, "long due")]


def test_no_more_schedules_are_claimed_than_asked_for(sql: SqlClient) -> None:
    for number in range(5):
        schedule(sql, str(number))
    assert len(sql.call("stampeded_claim_due_schedules", 2)) == 2
    assert len(sql.call("stampeded_claim_due_schedules", p_limit=2**31)) == 5
    assert sql.call("stampeded_claim_due_schedules", 0) == []


def test_a_schedule_that_another_scheduler_holds_is_skipped(sql: SqlClient, connect: Connect) -> None:
    schedule(sql, "one")
    schedule(sql, "two")
    other = connect()
    sql.run("SET lock_timeout = '2s'")
    with other.transaction():
        (held,) = other.call("stampeded_claim_due_schedules", 1)
        (free,) = sql.call("stampeded_claim_due_schedules")
    assert {held.key, free.key} == {"one", "two"}


def test_an_edit_by_plain_sql_counts_at_once(sql: SqlClient) -> None:
    schedule(sql)
    sql.change("stampeded_schedules", {"key": "k"}, paused=True)
    assert sql.call("stampeded_claim_due_schedules") == []
    sql.change("stampeded_schedules", {"key": "k"}, paused=False, queue="other", args={"a": 1})
    id = fire(sql)
    assert (sql.job(id).queue, sql.job(id).args) == ("other", {"a": 1})


# -- firing ---------------------------------------------------------------------------


def test_firing_writes_the_job_and_its_occurrence_and_moves_on(sql: SqlClient) -> None:
    columns = {
        "args": {"a": 1}, "meta": {"django": {"b": 2}}, "tenant_id": "acme", "priority": -3,
        "queue": "nightly", "task": "report.make",
    }  # fmt: skip
    before = schedule(sql, **columns)
    later = sql.value("SELECT now() + '2 hours'")
    id = fire(sql, "k", later)
    job = sql.job(id)
    for name, value in columns.items():
        assert getattr(job, name) == value, name
    assert (job.state, job.attempt) == ("available", 0)
    assert job.scheduled_at <= sql.now()
    occurrence = sql.one("SELECT * FROM stampeded_cron_occurrences")
    assert (occurrence.cron_key, occurrence.job_id) == ("k", id)
    after = row(sql)
    assert after.next_run_at == later
    assert before.last_run_at is None and after.last_run_at is not None


def test_each_occurrence_fires_once(sql: SqlClient) -> None:
    planned = schedule(sql, **CRON).next_run_at
    assert fire(sql)
    sql.change("stampeded_schedules", {"key": "k"}, next_run_at=planned)
    later = sql.value("SELECT now() + '1 hour'")
    assert fire(sql, "k", later) is None
    assert len(sql.jobs()) == 1
    assert row(sql).next_run_at == later, "an occurrence already fired would be due for ever"


def test_firing_is_undone_as_a_whole(sql: SqlClient) -> None:
    before = schedule(sql)
    with sql.transaction() as transaction:
        assert fire(sql)
        raise psycopg.Rollback(transaction)
    assert (sql.jobs(), tokens(sql), row(sql)) == ([], [], before)


@pytest.mark.parametrize("columns", [{"next_run_at": MINUTE}, {"paused": True}], ids=["not due", "paused"])
def test_a_schedule_that_is_not_due_or_paused_is_left_as_it_is(sql: SqlClient, columns: dict[str, Any]) -> None:
    before = schedule(sql, **columns)
    assert fire(sql) is None
    assert (sql.jobs(), tokens(sql), row(sql)) == ([], [], before)


def test_an_unknown_schedule_fires_nothing(sql: SqlClient) -> None:
    assert fire(sql, "never heard of") is None
    assert fire(sql, None) is None
    assert sql.rows("SELECT id FROM stampeded_jobs") == []


def test_a_schedule_without_a_next_time_is_paused_with_that_reason(sql: SqlClient) -> None:
    schedule(sql)
    fire(sql, "k", None)
    after = row(sql)
    assert after.paused is True and after.set_aside_reason
    assert sql.call("stampeded_claim_due_schedules") == []
    assert fire(sql) is None


# (columns, planned time, token)
TOKENS: list[tuple[dict[str, Any], str, str]] = [
    ({**CRON, "dst_policy": "instant"}, "2026-03-29 01:00:00", "1774746000"),
    ({**INTERVAL, "dst_policy": "instant"}, "2026-03-29 01:00:07", "1774746007"),
    ({**INTERVAL, "dst_policy": "wall_clock"}, "2026-03-29 01:00:07", "1774746007"),
    ({**CRON, "dst_policy": "wall_clock"}, "2026-01-02 03:00:00", "2026-01-02 03:00"),
    (
        {**CRON, "dst_policy": "wall_clock", "timezone": "Asia/Tokyo"},
        "2026-01-01 15:00:00",
        "2026-01-02 00:00",
    ),
    (
        {**CRON, "dst_policy": "wall_clock", "timezone": "America/New_York"},
        "2026-07-01 03:59:00",
        "2026-06-30 23:59",
    ),
    (
        {**CRON, "dst_policy": "instant", "timezone": "America/New_York"},
        "2026-07-01 03:59:00",
        "1782878340",
    ),
]


@pytest.mark.parametrize(("columns", "planned", "token"), TOKENS)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_an_occurrence_is_known_by_its_planned_time(
    sql: SqlClient, columns: dict[str, Any], planned: str, token: str, zone: str
) -> None:
    sql.run("SELECT set_config('timezone', %s, false)", zone)
    schedule(sql, **columns, next_run_at=at(planned))
    assert fire(sql)
    assert tokens(sql) == [token]


def test_a_repeated_local_time_fires_once_under_wall_clock_and_goes_on(sql: SqlClient) -> None:
    columns = {**CRON, "dst_policy": "wall_clock", "timezone": "America/New_York"}
    first, second = at("2025-11-02 05:30"), at("2025-11-02 06:30")  # both 01:30 there
    schedule(sql, **columns, next_run_at=first)
    assert fire(sql, "k", second)
    assert fire(sql, "k", at("2025-11-03 06:30")) is None
    assert fire(sql, "k", at("2025-11-04 06:30"))
    assert tokens(sql) == ["2025-11-02 01:30", "2025-11-03 01:30"]
    assert len(sql.jobs()) == 2


def test_a_repeated_local_time_fires_twice_under_instant(sql: SqlClient) -> None:
    columns = {**CRON, "dst_policy": "instant", "timezone": "America/New_York"}
    schedule(sql, **columns, next_run_at=at("2025-11-02 05:30"))
    assert fire(sql, "k", at("2025-11-02 06:30"))
    assert fire(sql, "k", at("2025-11-02 07:30"))
    assert len(sql.jobs()) == 2


@pytest.mark.parametrize("policy", ["instant", "wall_clock"])
def test_an_interval_below_a_minute_loses_no_firing(sql: SqlClient, policy: str) -> None:
    start = at("2025-01-01 00:00")
    schedule(sql, interval_secs=30, dst_policy=policy, next_run_at=start)
    fired = [fire(sql, "k", start + timedelta(seconds=30 * n)) for n in range(1, 21)]
    assert all(fired) and len(set(fired)) == 20


def test_two_schedules_of_one_time_do_not_share_their_occurrence(sql: SqlClient) -> None:
    for key in ("one", "two"):
        schedule(sql, key, next_run_at=at("2025-01-01 00:00"))
        assert fire(sql, key)
    assert len(sql.jobs()) == 2


# -- set aside -------------------------------------------------------------------------

BAD_ZONES = ["Americas/Vancouver", "Mars/Olympus", "not a zone'; DROP TABLE x;--"]


@pytest.mark.parametrize("zone", BAD_ZONES)
def test_a_schedule_with_a_bad_time_zone_is_set_aside_and_stops_no_other(sql: SqlClient, zone: str) -> None:
    stored_past_every_check(sql, "bad", **CRON, timezone=zone, dst_policy="wall_clock")
    schedule(sql, "good", **CRON)
    for key in ("bad", "good"):
        fire(sql, key)
    after = row(sql, "bad")
    assert after.paused is True and zone in after.set_aside_reason
    assert [job.id for job in sql.jobs()] and len(sql.jobs()) == 1
    assert tokens(sql, "good") and not tokens(sql, "bad")
    assert sql.call("stampeded_claim_due_schedules") == []


def test_a_firing_whose_job_cannot_be_written_sets_its_schedule_aside(sql: SqlClient) -> None:
    stored_past_every_check(sql, "bad", **CRON, queue="x" * 255)
    sql.run("ALTER TABLE stampeded_jobs ADD CONSTRAINT operators_rule CHECK (length(queue) < 200)")
    try:
        schedule(sql, "good")
        assert fire(sql, "bad") is None
        assert fire(sql, "good")
        assert row(sql, "bad").paused is True and row(sql, "bad").set_aside_reason
    finally:
        sql.run("ALTER TABLE stampeded_jobs DROP CONSTRAINT operators_rule")


@pytest.mark.parametrize("zone", ["Europe/Paris", "UTC"])
def test_the_reason_goes_when_the_schedule_is_edited(sql: SqlClient, zone: str) -> None:
    stored_past_every_check(sql, "bad", **CRON, timezone="Mars/Olympus", dst_policy="wall_clock")
    fire(sql, "bad")
    assert row(sql, "bad").set_aside_reason
    sql.change("stampeded_schedules", {"key": "bad"}, timezone=zone, paused=False)
    assert row(sql, "bad").set_aside_reason is None
    assert fire(sql, "bad")
