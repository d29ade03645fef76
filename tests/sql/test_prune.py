"""stampeded_prune and stampeded_prune_occurrences: what is old enough goes, and is counted."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.sql.client import SqlClient
from tests.sql.fixtures import Connect

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)


def finished(sql: SqlClient, state: str, age: timedelta, **columns: object) -> object:
    return sql.enqueue(state=state, finished_at=-age, inserted_at=-age, scheduled_at=-age, **columns)


@pytest.mark.parametrize(("state", "kept_for"), [("completed", HOUR), ("discarded", 7 * DAY), ("cancelled", 7 * DAY)])
def test_a_finished_job_is_kept_for_its_time_to_the_second(sql: SqlClient, state: str, kept_for: timedelta) -> None:
    kept = finished(sql, state, kept_for - 30 * SECOND)
    finished(sql, state, kept_for + SECOND)
    assert sql.call("stampeded_prune")[0][0] == 1
    assert [job.id for job in sql.jobs()] == [kept]


def test_how_long_each_is_kept_can_be_given(sql: SqlClient) -> None:
    for state in ("completed", "discarded", "cancelled"):
        finished(sql, state, DAY)
    assert sql.call("stampeded_prune", 2 * DAY, 100, 2 * DAY)[0][0] == 0
    assert sql.call("stampeded_prune", p_older_than=2 * DAY, p_failed_older_than=HOUR)[0][0] == 2
    assert [job.state for job in sql.jobs()] == ["completed"]
    assert sql.call("stampeded_prune", HOUR)[0][0] == 1


def test_a_job_that_is_not_finished_is_never_pruned(sql: SqlClient) -> None:
    for state in ("available", "retryable", "claimed", "executing"):
        finished(sql, state, 1000 * DAY)
    assert sql.call("stampeded_prune")[0][0] == 0
    assert len(sql.jobs()) == 4


def test_age_counts_from_the_end_and_not_from_the_beginning(sql: SqlClient) -> None:
    sql.enqueue(state="completed", inserted_at=-300 * DAY, finished_at=-HOUR / 2)
    assert sql.call("stampeded_prune")[0][0] == 0


@pytest.mark.parametrize("limit", [0, 1, 4, 7, 100])
def test_the_limit_holds_over_all_states_together(sql: SqlClient, limit: int) -> None:
    for state in ("completed", "discarded", "cancelled"):
        for _ in range(3):
            finished(sql, state, 30 * DAY)
    assert sql.call("stampeded_prune", HOUR, limit)[0][0] == min(limit, 9)
    assert len(sql.jobs()) == 9 - min(limit, 9)


def test_pruning_goes_on_until_nothing_old_is_left_in_any_partition(sql: SqlClient) -> None:
    sql.call("stampeded_create_queue", "q")
    for queue in ("q", "other"):
        sql.enqueue_many(30, queue, state="completed", finished_at=-DAY)
    removed = []
    while not removed or removed[-1]:
        removed.append(sql.call("stampeded_prune", HOUR, 25)[0][0])
    assert removed == [25, 25, 10, 0]
    assert sql.counts() == {}


@pytest.mark.parametrize("period", ["day", "week", "month"])
def test_a_completed_job_that_holds_its_period_stays_until_the_bucket_ends(sql: SqlClient, period: str) -> None:
    job = sql.started(dedup_scope="s", dedup_period=period)
    sql.complete(job)
    sql.set_job(job.id, finished_at=-2 * HOUR)
    assert sql.call("stampeded_prune")[0][0] == 0
    sql.set_job(job.id, inserted_at=-32 * DAY)
    assert sql.call("stampeded_prune")[0][0] == 1


def test_a_row_that_must_stay_does_not_stop_those_behind_it(sql: SqlClient) -> None:
    for number in range(5):
        job = sql.started(dedup_scope=str(number), dedup_period="month")
        sql.complete(job)
        sql.set_job(job.id, finished_at=-3 * HOUR)
    finished(sql, "completed", 2 * HOUR)
    removed = [sql.call("stampeded_prune", HOUR, 2)[0][0] for _ in range(3)]
    assert sum(removed) == 1 and len(sql.jobs()) == 5


def test_a_cancelled_or_discarded_job_holds_no_period(sql: SqlClient) -> None:
    for kind in ("unrecoverable", "cancelled"):
        job = sql.started(dedup_scope="s", dedup_period="month")
        sql.fail(job, kind)
        sql.set_job(job.id, finished_at=-8 * DAY)
    assert sql.call("stampeded_prune")[0][0] == 2


# -- by queue and state ------------------------------------------------------------------


def keeping(sql: SqlClient, queue: str = "q", **days: float) -> None:
    columns = {f"keep_{state}_secs": int(number * 86_400) for state, number in days.items()}
    sql.insert("stampeded_queue_policies", queue=queue, **columns)


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("state", ["completed", "discarded", "cancelled"])
@pytest.mark.parametrize("days", [0, 3, 30])
def test_a_queue_keeps_the_jobs_of_a_state_for_as_long_as_its_policy_says(
    sql: SqlClient, state: str, days: int, partitioned: bool
) -> None:
    if partitioned:
        sql.call("stampeded_create_queue", "q")
    keeping(sql, **{state: days})
    for queue in ("q", "other"):
        for age in (1, 8, 31):
            finished(sql, state, age * DAY, queue=queue)
    pruned = sql.call("stampeded_prune", 10 * DAY, 1000, 10 * DAY)[0][0]
    assert len(sql.jobs("other")) == 2
    assert len(sql.jobs("q")) == {0: 0, 3: 1, 30: 2}[days]
    assert pruned == 6 - len(sql.jobs("q")) - len(sql.jobs("other"))


def test_a_state_that_the_policy_leaves_open_goes_by_the_age_given(sql: SqlClient) -> None:
    keeping(sql, discarded=100)
    for state in ("completed", "discarded", "cancelled"):
        finished(sql, state, 10 * DAY)
    sql.call("stampeded_prune")
    assert [job.state for job in sql.jobs()] == ["discarded"]


def test_the_limit_holds_over_queues_with_and_without_an_age_of_their_own(sql: SqlClient) -> None:
    keeping(sql, completed=1)
    for queue in ("q", "other"):
        sql.enqueue_many(10, queue, state="completed", finished_at=-2 * DAY)
    removed = [sql.call("stampeded_prune", HOUR, 8)[0][0] for _ in range(4)]
    assert removed == [8, 8, 4, 0]


def test_a_job_that_somebody_holds_locked_is_left_for_the_next_time(sql: SqlClient, connect: Connect) -> None:
    keeping(sql, completed=1)
    kept = finished(sql, "completed", 2 * DAY)
    finished(sql, "completed", 2 * DAY)
    other = connect()
    with other.transaction():
        other.rows("SELECT FROM stampeded_jobs WHERE id = %s FOR UPDATE", kept)
        assert sql.call("stampeded_prune")[0][0] == 1
    assert [job.id for job in sql.jobs()] == [kept]
    assert sql.call("stampeded_prune")[0][0] == 1


def test_old_entries_of_the_ledger_go_after_thirty_days(sql: SqlClient) -> None:
    sql.insert("stampeded_schedules", key="k", queue="q", task="t", interval_secs=60)
    for days in (0, 29, 31, 400):
        sql.insert(
            "stampeded_cron_occurrences",
            cron_key="k", occurrence_token=str(days), enqueued_at=-days * DAY,
        )  # fmt: skip
    assert sql.call("stampeded_prune_occurrences")[0][0] == 2
    left = sql.rows("SELECT occurrence_token FROM stampeded_cron_occurrences ORDER BY id")
    assert [row[0] for row in left] == ["0", "29"]
    assert sql.call("stampeded_prune_occurrences", 10 * DAY)[0][0] == 1
