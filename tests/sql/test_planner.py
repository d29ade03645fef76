"""The planner's figures and verdicts in the database, and what its ticks write."""

from __future__ import annotations

import pytest

from django_stampeded.maintenance.planner import Planner
from tests.sql.client import Row, SqlClient
from tests.sql.fixtures import Connect

WAITED = "clock_timestamp() - interval '1 minute'"


def policy(sql: SqlClient, queue: str = "q", **columns: object) -> None:
    sql.insert("stampeded_queue_policies", queue=queue, **columns)


def late(sql: SqlClient, queue: str = "q", seconds: int = 60, number: int = 1) -> None:
    sql.enqueue_many(number, queue=queue)
    sql.run("UPDATE stampeded_jobs SET scheduled_at = now() - %s * interval '1 second' WHERE queue = %s", seconds, queue)


def tick(sql: SqlClient) -> int:
    return Planner().run_once(sql.connection.cursor(row_factory=lambda _: tuple)).done  # type: ignore[arg-type, return-value]


def verdict(sql: SqlClient, queue: str = "q") -> Row:
    return sql.one(
        "SELECT verdict, reason, decided_at, xmin::text AS version FROM stampeded_queue_policies WHERE queue = %s", queue
    )


def test_a_late_queue_rushes_with_a_reason_and_is_steady_again_when_it_has_caught_up(sql: SqlClient) -> None:
    policy(sql, max_wait_secs=10)
    late(sql)
    assert tick(sql) == 1
    found = verdict(sql)
    assert found.verdict == "rush" and "waited" in found.reason and found.decided_at is not None
    assert dict(sql.rows("SELECT * FROM stampeded_verdicts()")) == {"q": "rush"}
    sql.complete(sql.claim()[0])
    assert tick(sql) == 1
    assert (verdict(sql).verdict, verdict(sql).reason) == ("steady", None)


def test_a_verdict_that_stands_is_written_again_only_before_it_goes_stale(sql: SqlClient) -> None:
    policy(sql, max_wait_secs=10)
    late(sql)
    tick(sql)
    assert tick(sql) == 0
    sql.run("UPDATE stampeded_queue_policies SET decided_at = decided_at - interval '11 seconds'")
    assert tick(sql) == 1


def test_a_quiet_system_writes_nothing(sql: SqlClient) -> None:
    policy(sql, max_wait_secs=10)
    policy(sql, "r")
    before = sql.rows("SELECT queue, xmin::text FROM stampeded_queue_policies ORDER BY queue")
    assert tick(sql) == 0
    assert sql.rows("SELECT queue, xmin::text FROM stampeded_queue_policies ORDER BY queue") == before


def test_a_stale_verdict_counts_as_none(sql: SqlClient) -> None:
    policy(sql, verdict="hold")
    sql.run("UPDATE stampeded_queue_policies SET decided_at = now() - interval '31 seconds'")
    assert sql.rows("SELECT * FROM stampeded_verdicts()") == []


def test_a_verdict_is_taken_back_when_the_policy_promises_nothing_any_more(sql: SqlClient) -> None:
    policy(sql, max_wait_secs=10)
    late(sql)
    tick(sql)
    sql.run("UPDATE stampeded_queue_policies SET max_wait_secs = NULL")
    assert tick(sql) == 1 and verdict(sql).verdict == "steady"


def test_a_queue_that_shares_workers_with_an_overdue_one_is_held_and_may_be_claimed_from_all_the_same(sql: SqlClient) -> None:
    sql.register(queues=["q", "r"])
    policy(sql, max_wait_secs=10)
    policy(sql, "r", max_wait_secs=1000)
    late(sql)
    sql.enqueue_many(1, queue="r")
    tick(sql)
    assert verdict(sql, "r").verdict == "hold" and "queue q" in verdict(sql, "r").reason
    assert len(sql.claim("r")) == 1


@pytest.mark.parametrize(
    "block",
    [
        "SELECT stampeded_pause('q')",
        "SELECT stampeded_report_breaker('destination', 'api', 'q', 10, 0)",
        "UPDATE stampeded_queue_policies SET max_running = 1",
    ],
)
def test_a_late_queue_that_workers_can_not_help_does_not_rush(sql: SqlClient, block: str) -> None:
    policy(sql, max_wait_secs=10)
    late(sql, number=2)
    sql.claim()
    sql.run(block)  # type: ignore[arg-type]
    assert tick(sql) == 0 and verdict(sql).verdict == "steady"


def test_verdicts_are_rewritten_within_their_page(sql: SqlClient) -> None:
    policy(sql, max_wait_secs=10)
    late(sql)
    sql.run("SELECT pg_stat_force_next_flush()")
    counts = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'stampeded_queue_policies'"
    before = sql.one(counts)
    for kind in ("rush", "steady") * 20:
        sql.run("SELECT stampeded_set_verdict('q', %s, 'why')", kind)
    sql.run("SELECT pg_stat_force_next_flush()")
    after = sql.one(counts)
    assert after.n_tup_upd - before.n_tup_upd == 40 == after.n_tup_hot_upd - before.n_tup_hot_upd


def test_two_planners_at_once_do_the_work_of_one(sql: SqlClient, connect: Connect) -> None:
    policy(sql, max_wait_secs=10)
    late(sql)
    assert tick(sql) + tick(connect()) == 1


@pytest.mark.parametrize("since, expected", [("1 second", "steady"), ("10 minutes", "rush")])
def test_a_breaker_that_nobody_tries_any_more_keeps_no_queue_from_rushing(sql: SqlClient, since: str, expected: str) -> None:
    policy(sql, max_wait_secs=10)
    late(sql)
    sql.run(
        "INSERT INTO stampeded_breakers (kind, key, state, retry_at, queues) "
        "VALUES ('destination', 'abandoned', 'open', clock_timestamp() - %s::interval, '{q}')",
        since,
    )
    tick(sql)
    assert verdict(sql).verdict == expected
