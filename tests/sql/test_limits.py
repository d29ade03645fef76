"""Pause and max_running bind the claim itself, so that a worker in any language obeys them."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from tests.sql.client import Row, SqlClient


def policy(sql: SqlClient, queue: str = "q", **columns: object) -> Row:
    return sql.insert("stampeded_queue_policies", queue=queue, **columns)


def claim_many(sql: SqlClient, queues: list[str], limit: int) -> list[Row]:
    return sql.call("stampeded_claim_many", queues, sql.worker, limit)


# -- pause -----------------------------------------------------------------------------


def test_a_paused_queue_takes_jobs_and_gives_none(sql: SqlClient) -> None:
    sql.call("stampeded_pause", "q", "the printer is on fire")
    id = sql.enqueue()
    other = sql.enqueue("other")
    assert sql.claim(limit=10) == []
    assert [job.id for job in claim_many(sql, ["q", "other"], 10)] == [other]
    sql.call("stampeded_resume", "q")
    assert [job.id for job in sql.claim(limit=10)] == [id]


def test_a_pause_says_since_when_and_why(sql: SqlClient) -> None:
    sql.call("stampeded_pause", "q", "the printer is on fire")
    paused = sql.one("SELECT * FROM stampeded_queue_policies")
    assert paused.paused_at is not None and paused.paused_reason == "the printer is on fire"
    sql.call("stampeded_resume", "q")
    resumed = sql.one("SELECT * FROM stampeded_queue_policies")
    assert (resumed.paused_at, resumed.paused_reason) == (None, None)


def test_pausing_and_resuming_keep_the_rest_of_the_policy(sql: SqlClient) -> None:
    policy(sql, max_running=3, max_wait_secs=60, verdict="rush", reason="late")
    for verb in ("pause", "pause", "resume", "resume"):
        sql.call(f"stampeded_{verb}", "q")
        row = sql.one("SELECT * FROM stampeded_queue_policies")
        assert (row.max_running, row.max_wait_secs, row.verdict, row.reason) == (3, 60, "rush", "late")


def test_resuming_a_queue_that_nobody_paused_is_no_error(sql: SqlClient) -> None:
    sql.call("stampeded_resume", "never heard of")
    sql.enqueue("never heard of")
    assert len(sql.claim("never heard of")) == 1


def test_a_job_that_runs_in_a_paused_queue_can_still_be_finished(sql: SqlClient) -> None:
    jobs = [sql.started() for _ in range(3)]
    sql.call("stampeded_pause", "q")
    assert sql.touch(jobs[0]) and sql.complete(jobs[0])
    assert sql.fail(jobs[1]) and sql.release(jobs[2])
    assert sql.claim(limit=10) == []


def test_a_pause_written_by_hand_binds_as_well(sql: SqlClient) -> None:
    policy(sql, paused_at=sql.now())
    sql.enqueue()
    assert sql.claim() == []


def test_a_pause_ends_by_itself_when_it_was_said_to(sql: SqlClient) -> None:
    sql.enqueue()
    until = sql.now() + timedelta(hours=1)
    sql.call("stampeded_pause", "q", "deploy", until)
    assert sql.claim() == []
    assert sql.value("SELECT stampeded_next_due('q')") == until, "the worker learns when to look again"
    assert sql.value("SELECT stampeded_next_due('q', false)") <= sql.now()
    assert sql.call("stampeded_queues_with_work") == []
    sql.change("stampeded_queue_policies", {"queue": "q"}, paused_until=timedelta(seconds=-1))
    assert [row[0] for row in sql.call("stampeded_queues_with_work")] == ["q"]
    assert sql.value("SELECT stampeded_next_due('q')") <= sql.now()
    assert len(sql.claim()) == 1


def test_a_pause_after_one_that_has_ended_is_a_new_one(sql: SqlClient) -> None:
    policy(sql, paused_at=sql.now() - timedelta(days=3), paused_until=sql.now() - timedelta(days=2), paused_reason="old")
    sql.call("stampeded_pause", "q")
    row = sql.one("SELECT now() - paused_at < interval '1 day' AS anew, * FROM stampeded_queue_policies")
    assert (row.anew, row.paused_until, row.paused_reason) == (True, None, None)


def test_nothing_is_claimed_while_everything_is_paused(sql: SqlClient) -> None:
    for queue in ("a", "b"):
        sql.enqueue_many(2, queue)
    sql.call("stampeded_pause", "b")
    sql.call("stampeded_pause", "*", "the database moves")
    assert claim_many(sql, ["a", "b"], 9) == [] == sql.claim("a")
    assert sql.call("stampeded_queues_with_work") == [] and sql.value("SELECT stampeded_next_due('a')") is None
    sql.call("stampeded_resume", "*")
    assert {job.queue for job in claim_many(sql, ["a", "b"], 9)} == {"a"}, "b was paused by itself"
    sql.call("stampeded_resume", "b")
    assert len(sql.claim("b", 9)) == 2


def test_the_policy_of_all_queues_can_only_pause(sql: SqlClient) -> None:
    for column in ("max_running", "max_wait_secs", "keep_completed_secs"):
        with pytest.raises(psycopg.IntegrityError):
            policy(sql, "*", **{column: 3})
    with pytest.raises(psycopg.IntegrityError):
        policy(sql, "*", fair_tenants=True)


# -- max_running -------------------------------------------------------------------------


def test_no_more_jobs_run_at_once_than_the_queue_allows(sql: SqlClient) -> None:
    policy(sql, max_running=3)
    sql.enqueue_many(10)
    assert len(sql.claim(limit=2)) == 2
    assert len(sql.claim(limit=2, worker=sql.register())) == 1
    assert sql.claim(limit=2) == []
    assert len(sql.jobs()) == 10 and sql.counts()["q", "executing"] == 3


@pytest.mark.parametrize("end", ["complete", "fail", "release"])
def test_a_slot_is_free_as_soon_as_its_job_ends(sql: SqlClient, end: str) -> None:
    policy(sql, max_running=1)
    sql.enqueue_many(3)
    for _ in range(3):
        (job,) = sql.claim(limit=5)
        assert sql.claim(limit=5) == []
        getattr(sql, end)(job)


def test_a_claimed_job_of_old_takes_a_slot(sql: SqlClient) -> None:
    policy(sql, max_running=1)
    sql.enqueue(state="claimed")
    sql.enqueue()
    assert sql.claim() == []


def test_the_limit_of_one_queue_is_no_limit_for_another(sql: SqlClient) -> None:
    policy(sql, "tight", max_running=1)
    sql.enqueue_many(5, "tight")
    sql.enqueue_many(5, "free")
    claimed = claim_many(sql, ["tight", "free"], 10)
    assert [job.queue for job in claimed] == ["tight"] + ["free"] * 5


def test_a_limit_that_is_lowered_lets_the_running_end_and_starts_none(sql: SqlClient) -> None:
    sql.enqueue_many(6)
    running = sql.claim(limit=4)
    policy(sql, max_running=2)
    assert sql.claim(limit=4) == []
    for job, free in zip(running, (0, 0, 1, 1), strict=True):
        sql.complete(job)
        claimed = sql.claim(limit=4)
        assert len(claimed) == free


def test_a_limit_that_is_lifted_binds_no_more(sql: SqlClient) -> None:
    policy(sql, max_running=1)
    sql.enqueue_many(4)
    assert len(sql.claim(limit=4)) == 1
    sql.change("stampeded_queue_policies", {"queue": "q"}, max_running=None)
    assert len(sql.claim(limit=4)) == 3


def test_the_limit_is_exact_however_the_counts_stand(sql: SqlClient) -> None:
    policy(sql, max_running=2)
    sql.enqueue_many(5)
    sql.run("SET session_replication_role = replica")
    sql.run("UPDATE stampeded_jobs SET state = 'executing' WHERE id = (SELECT id FROM stampeded_jobs LIMIT 1)")
    sql.run("RESET session_replication_role")
    assert len(sql.claim(limit=5)) == 1


def test_the_first_jobs_are_taken_under_a_limit_too(sql: SqlClient) -> None:
    policy(sql, max_running=2)
    for priority in (3, 1, 2):
        sql.enqueue(priority=priority)
    assert [job.priority for job in sql.claim(limit=3)] == [1, 2]


# -- verdicts ------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", ["steady", "rush", "hold"])
def test_a_verdict_is_advice_and_binds_no_claim(sql: SqlClient, verdict: str) -> None:
    policy(sql, verdict=verdict, decided_at=sql.now())
    sql.enqueue()
    assert len(sql.claim()) == 1
