"""Rate limits: no window of the period's length holds more starts than allowed, whoever claims."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.races.together import together
from tests.sql.client import Row, SqlClient
from tests.sql.fixtures import Connect

HOUR = 3600
SECOND = timedelta(seconds=1)


def rated(sql: SqlClient, limit: int, secs: int = HOUR, queue: str = "q", **columns: object) -> None:
    sql.insert("stampeded_queue_policies", queue=queue, rate_limit=limit, rate_period_secs=secs, **columns)


def age(sql: SqlClient, by: timedelta) -> None:
    """As if every start on record had been made so much earlier."""
    sql.run("UPDATE stampeded_starts SET started_at = started_at - %s, expires_at = expires_at - %s", by, by)


def test_no_more_start_in_a_period_than_the_rate_allows(sql: SqlClient) -> None:
    rated(sql, 5)
    sql.enqueue_many(20)
    assert [len(sql.claim(limit=3)), len(sql.claim(limit=3)), len(sql.claim(limit=3))] == [3, 2, 0]


def test_a_job_that_ended_counts_for_the_whole_period(sql: SqlClient) -> None:
    rated(sql, 2)
    sql.enqueue_many(9)
    for job in sql.claim(limit=9):
        sql.complete(job)
        sql.call("stampeded_delete", job.queue, job.id)
    assert sql.claim(limit=9) == []


def test_another_attempt_of_the_same_job_is_another_start(sql: SqlClient) -> None:
    rated(sql, 3)
    sql.enqueue()
    for _ in range(3):
        (job,) = sql.claim()
        sql.fail(job)
    assert sql.claim() == []


def test_a_start_that_was_released_is_not_given_back(sql: SqlClient) -> None:
    rated(sql, 1)
    (job,) = [sql.enqueue()] and sql.claim()
    sql.release(job)
    assert sql.claim() == []


def test_a_claim_that_was_rolled_back_started_nothing(sql: SqlClient) -> None:
    rated(sql, 1)
    sql.enqueue()
    sql.run("BEGIN")
    assert len(sql.claim()) == 1
    sql.run("ROLLBACK")
    assert len(sql.claim()) == 1


def test_the_window_slides_and_does_not_begin_anew(sql: SqlClient) -> None:
    rated(sql, 4)
    sql.enqueue_many(20)
    assert len(sql.claim(limit=3)) == 3
    age(sql, timedelta(minutes=40))
    assert len(sql.claim(limit=3)) == 1
    age(sql, timedelta(minutes=19))
    assert sql.claim(limit=9) == []
    age(sql, timedelta(minutes=2))
    assert len(sql.claim(limit=9)) == 3, "the first three are out of the window, the fourth is not"
    age(sql, timedelta(hours=2))
    assert len(sql.claim(limit=9)) == 4, "what was not used is not saved up"


def test_a_rate_can_be_changed_at_any_time(sql: SqlClient) -> None:
    rated(sql, 10)
    sql.enqueue_many(40)
    assert len(sql.claim(limit=5)) == 5
    sql.change("stampeded_queue_policies", {"queue": "q"}, rate_limit=3)
    assert sql.claim(limit=9) == []
    sql.change("stampeded_queue_policies", {"queue": "q"}, rate_limit=7)
    assert len(sql.claim(limit=9)) == 2
    sql.change("stampeded_queue_policies", {"queue": "q"}, rate_limit=None, rate_period_secs=None)
    assert len(sql.claim(limit=9)) == 9


def test_rate_and_max_running_both_bind(sql: SqlClient) -> None:
    rated(sql, 5, max_running=2)
    sql.enqueue_many(20)
    started = 0
    for expected in (2, 2, 1, 0):
        jobs = sql.claim(limit=9)
        assert len(jobs) == expected
        started += len(jobs)
        for job in jobs:
            sql.complete(job)
    assert started == 5


def test_the_rate_of_one_queue_is_none_of_another(sql: SqlClient) -> None:
    rated(sql, 1, queue="slow")
    for queue in ("slow", "free"):
        sql.enqueue_many(5, queue)
    claimed = sql.call("stampeded_claim_many", ["slow", "free"], sql.worker, 20)
    assert [job.queue for job in claimed] == ["slow"] + ["free"] * 5


def test_what_no_window_reaches_any_more_is_cleared_away(sql: SqlClient) -> None:
    rated(sql, 1000, secs=1)
    sql.enqueue_many(60)
    for _ in range(50):
        sql.claim()
    age(sql, timedelta(minutes=1))
    sql.claim()
    assert sql.value("SELECT count(*) FROM stampeded_starts") == 1


def test_starts_of_a_limit_that_has_gone_are_pruned_and_those_that_count_stay(sql: SqlClient) -> None:
    for queue, secs in (("q", 1), ("r", HOUR)):
        rated(sql, 1000, secs, queue)
        sql.enqueue(queue=queue)
        sql.claim(queue)
    age(sql, timedelta(minutes=1))
    sql.run("DELETE FROM stampeded_queue_policies WHERE queue = 'q'")
    assert [sql.value("SELECT stampeded_prune_starts()") for _ in range(2)] == [1, 0]
    assert [row.queue for row in sql.rows("SELECT queue FROM stampeded_starts")] == ["r"]


def test_a_clock_that_was_set_back_lets_nothing_through(sql: SqlClient) -> None:
    rated(sql, 3)
    sql.enqueue_many(9)
    assert len(sql.claim(limit=2)) == 2
    age(sql, timedelta(minutes=-30))
    assert [len(sql.claim(limit=9)), len(sql.claim(limit=9))] == [1, 0]


def test_a_limited_queue_is_refused_to_a_claim_whose_snapshot_is_old(sql: SqlClient) -> None:
    rated(sql, 1)
    sql.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    with pytest.raises(Exception, match="READ COMMITTED"):
        sql.claim()
    sql.run("ROLLBACK")


# -- when to look again ----------------------------------------------------------------------------------------------


def next_due(sql: SqlClient) -> Row:
    return sql.one("SELECT stampeded_next_due('q') AS at, stampeded_next_due('q', false) AS due, clock_timestamp() AS now")


def test_a_queue_whose_rate_is_spent_says_when_it_may_start_the_next(sql: SqlClient) -> None:
    rated(sql, 3)
    sql.enqueue_many(9)
    assert next_due(sql).at <= sql.now()
    sql.claim(limit=2)
    age(sql, timedelta(minutes=30))
    sql.claim(limit=2)
    found = next_due(sql)
    assert timedelta(minutes=29) < found.at - found.now <= timedelta(minutes=30), (
        "when the first of the three leaves the window"
    )
    assert found.due <= found.now


def test_a_job_of_the_future_is_due_no_sooner_for_that(sql: SqlClient) -> None:
    rated(sql, 1, secs=60)
    sql.enqueue()
    sql.claim()
    sql.enqueue(scheduled_at=timedelta(hours=5))
    found = next_due(sql)
    assert found.at == found.due and found.at - found.now > timedelta(hours=4)


# -- many at once ----------------------------------------------------------------------------------------------------


MOST_IN_A_SECOND = """
    SELECT max(n) FROM (SELECT count(*) OVER (ORDER BY claimed_at RANGE BETWEEN CURRENT ROW AND '1 second' FOLLOWING) AS n
                          FROM stampeded_jobs WHERE claimed_at IS NOT NULL) w
"""


def test_many_claimers_at_once_keep_the_rate_in_every_window(sql: SqlClient, connect: Connect) -> None:
    rated(sql, 20, secs=1)
    sql.enqueue_many(70)
    claimers = [connect() for _ in range(4)]
    assert all(claimer.worker for claimer in claimers)

    def work(client: SqlClient) -> None:
        while client.value("SELECT EXISTS (SELECT FROM stampeded_jobs WHERE state = 'available')"):
            for job in client.claim(limit=7):
                client.complete(job)

    together(*[lambda c=claimer: work(c) for claimer in claimers])  # type: ignore[misc]
    assert sql.value("SELECT count(*) FROM stampeded_jobs WHERE state = 'completed' AND attempt = 1") == 70
    assert sql.value(MOST_IN_A_SECOND) == 20  # type: ignore[arg-type]
