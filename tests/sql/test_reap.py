"""stampeded_reap: taking back the jobs of workers that are dead or gone."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.sql.client import SqlClient
from tests.sql.test_expire import ODD

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


def test_the_jobs_of_a_dead_worker_are_taken_back_as_worker_missing(sql: SqlClient) -> None:
    job = sql.started()
    sql.silence_worker(sql.worker, 6 * MINUTE)
    (reaped,) = sql.call("stampeded_reap")
    assert reaped._asdict() == {"id": job.id, "queue": "q", "worker_id": sql.worker}
    after = sql.job(job.id)
    assert (after.state, after.failure_kind) == ("retryable", "worker_missing")
    assert (after.interruptions, after.attempt, after.claimed_by) == (1, 1, None)
    assert [entry["kind"] for entry in after.errors] == ["worker_missing"]
    assert after.last_error and after.error_fingerprint


def test_the_jobs_of_a_live_worker_are_left_alone(sql: SqlClient) -> None:
    job = sql.started()
    sql.silence_worker(sql.worker, 4 * MINUTE)
    sql.silence(job.id, DAY)
    assert sql.call("stampeded_reap") == []
    assert sql.job(job.id).state == "executing"


def test_how_long_a_worker_may_be_silent_can_be_given(sql: SqlClient) -> None:
    sql.started()
    sql.silence_worker(sql.worker, MINUTE)
    assert sql.call("stampeded_reap", 2 * MINUTE) == []
    assert len(sql.call("stampeded_reap", p_dead_after=MINUTE / 2)) == 1


def test_only_the_dead_workers_jobs_are_taken(sql: SqlClient) -> None:
    dead = sql.register()
    mine = sql.started()
    sql.enqueue_many(3)
    theirs = {job.id for job in sql.claim(limit=3, worker=dead)}
    sql.silence_worker(dead, DAY)
    assert {row.id for row in sql.call("stampeded_reap")} == theirs
    assert sql.job(mine.id).state == "executing"


def test_two_workers_of_one_host_and_pid_are_not_taken_for_each_other(sql: SqlClient) -> None:
    one, two = (sql.register(hostname="app", pid=1) for _ in range(2))
    sql.enqueue_many(2)
    (lost,), (kept,) = sql.claim(worker=one), sql.claim(worker=two)
    sql.silence_worker(one, DAY)
    assert [row.id for row in sql.call("stampeded_reap")] == [lost.id]
    assert sql.job(kept.id).claimed_by == two


def test_jobs_whose_worker_row_is_gone_are_dead_by_their_own_last_sign(sql: SqlClient) -> None:
    silent, alive = sql.started(), sql.started()
    sql.run("DELETE FROM stampeded_workers")
    sql.silence(silent.id, 6 * MINUTE)
    sql.silence(alive.id, 6 * MINUTE)
    sql.touch(alive)
    (reaped,) = sql.call("stampeded_reap")
    assert (reaped.id, reaped.worker_id) == (silent.id, silent.claimed_by)
    assert sql.job(alive.id).state == "executing"


def test_a_worker_that_beats_again_is_no_longer_dead(sql: SqlClient) -> None:
    sql.started()
    sql.silence_worker(sql.worker, DAY / 2)
    sql.call("stampeded_heartbeat", sql.worker)
    assert sql.call("stampeded_reap") == []


def test_a_dead_workers_row_stays_a_day_and_then_goes(sql: SqlClient) -> None:
    ages = {hours: sql.register() for hours in (0, 1, 23, 25, 1000)}
    for hours, worker in ages.items():
        sql.silence_worker(worker, timedelta(hours=hours))
    sql.call("stampeded_reap")
    left = {row.id for row in sql.rows("SELECT id FROM stampeded_workers")}
    assert left == {ages[0], ages[1], ages[23]}


def test_the_last_jobs_of_a_worker_dead_for_days_are_taken_back_with_its_row(
    sql: SqlClient,
) -> None:
    job = sql.started()
    sql.silence_worker(sql.worker, 3 * DAY)
    assert len(sql.call("stampeded_reap")) == 1
    assert sql.job(job.id).state == "retryable"
    assert sql.rows("SELECT id FROM stampeded_workers") == []


def test_a_row_of_a_worker_that_registered_a_moment_ago_stays(sql: SqlClient) -> None:
    worker = sql.register()
    assert sql.call("stampeded_reap", timedelta(seconds=30)) == []
    assert sql.value("SELECT id FROM stampeded_workers") == worker


@pytest.mark.parametrize("columns", ODD.values(), ids=ODD)
def test_a_row_thought_impossible_is_reaped_with_the_others(sql: SqlClient, columns: dict[str, object]) -> None:
    odd, plain = sql.started(), sql.started()
    for job in (odd, plain):
        sql.silence(job.id, DAY)
    sql.set_job(odd.id, **columns)
    sql.silence_worker(sql.worker, DAY / 2)
    assert {row.id for row in sql.call("stampeded_reap")} == {odd.id, plain.id}
    assert sql.job(odd.id).state == "retryable"


def test_jobs_of_a_dead_worker_that_hold_dedup_slots_come_back_together(sql: SqlClient) -> None:
    jobs = [sql.started(dedup_scope=f"acct:{n}") for n in range(3)]
    sql.silence_worker(sql.worker, DAY / 2)
    assert len(sql.call("stampeded_reap")) == 3
    assert [sql.job(job.id).dedup_key for job in jobs] == [job.dedup_key for job in jobs]


def test_a_job_that_kills_its_workers_frees_its_key_in_the_end(sql: SqlClient) -> None:
    id = sql.enqueue(dedup_scope="acct:1", dead_letter_queue="dead")
    for _ in range(2):
        worker = sql.register()
        sql.run("UPDATE stampeded_jobs SET scheduled_at = now()")
        assert len(sql.claim(worker=worker)) == 1
        sql.silence_worker(worker, DAY / 2)
        sql.call("stampeded_reap")
    assert sql.job(id).state == "discarded"
    sql.enqueue(dedup_scope="acct:1")
    assert [letter.source_id for letter in sql.jobs("dead")] == [id]


def test_one_row_that_cannot_be_taken_back_does_not_stop_the_others(sql: SqlClient) -> None:
    jobs = [sql.started() for _ in range(10)]
    sql.silence_worker(sql.worker, DAY / 2)
    sql.run("ALTER TABLE stampeded_jobs ADD CONSTRAINT operators_rule CHECK (task <> 'odd' OR state = 'executing')")
    try:
        sql.set_job(jobs[4].id, task="odd")
        sql.notices.clear()
        assert len(sql.call("stampeded_reap")) == 9
        assert sql.counts() == {("q", "retryable"): 9, ("q", "executing"): 1}
        assert any(str(jobs[4].id) in notice.text for notice in sql.notices)
        assert sql.call("stampeded_reap") == [], "the second sweep"
    finally:
        sql.run("ALTER TABLE stampeded_jobs DROP CONSTRAINT operators_rule")


# -- registering and beating -----------------------------------------------------------


def test_a_heartbeat_moves_the_workers_last_sign(sql: SqlClient) -> None:
    worker, other = sql.register(), sql.register()
    for id in (worker, other):
        sql.silence_worker(id, DAY)
    sql.call("stampeded_heartbeat", worker)
    ages = dict(sql.rows("SELECT id, now() - last_heartbeat < '1 hour' FROM stampeded_workers"))
    assert ages == {worker: True, other: False}


def test_the_heartbeat_of_a_worker_nobody_knows_is_no_error(sql: SqlClient) -> None:
    sql.call("stampeded_heartbeat", "00000000-0000-0000-0000-000000000000")
    sql.call("stampeded_heartbeat", None)
    assert sql.rows("SELECT id FROM stampeded_workers") == []


def test_a_worker_registers_with_host_and_pid_alone(sql: SqlClient) -> None:
    row = sql.insert("stampeded_workers", hostname="h", pid=2**31 - 1)
    assert (row.queues, row.metadata, row.started_at) == ([], {}, row.last_heartbeat)
    assert row.waiting is True, "who never says anything counts as waiting"
