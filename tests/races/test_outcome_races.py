"""Two speak about one attempt at once: one is heard, the other told that it no longer owns the job."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import combinations

import pytest

from tests.races.together import FULL, together
from tests.sql.client import Row, SqlClient
from tests.sql.fixtures import Connect

ROUNDS = 40 if FULL else 10
Verb = Callable[[SqlClient, Row], object]

OUTCOMES: dict[str, Verb] = {
    "complete": SqlClient.complete,
    "fail": lambda sql, job: sql.fail(job, "unrecoverable"),
    "release": SqlClient.release,
    "cancel": lambda sql, job: sql.call("stampeded_cancel", job.queue, job.id),
    "discard": lambda sql, job: sql.call("stampeded_discard", job.queue, job.id),
    "reap": lambda sql, job: sql.call("stampeded_reap"),
    "expire": lambda sql, job: sql.call("stampeded_expire"),
}


def prepared(sql: SqlClient) -> Row:
    """A running job that its worker, the reaper and the expirer may all take."""
    sql.run("DELETE FROM stampeded_jobs")
    job = sql.started(dead_letter_queue="dead", max_attempts=1, expire_seconds=1, attempt=0)
    sql.silence(job.id, timedelta(days=1))
    sql.silence_worker(sql.worker, timedelta(hours=1))
    return job


@pytest.mark.parametrize(
    ("first", "second"),
    [*combinations(OUTCOMES, 2), ("fail", "fail"), ("release", "release"), ("complete", "complete"), ("reap", "reap"),
     ("expire", "expire"), ("discard", "discard")],
)  # fmt: skip
def test_of_two_outcomes_of_one_attempt_exactly_one_is_taken(sql: SqlClient, connect: Connect, first: str, second: str) -> None:
    one, two = connect(), connect()
    for _ in range(ROUNDS):
        job = prepared(sql)
        answers = together(lambda: OUTCOMES[first](one, job), lambda: OUTCOMES[second](two, job))  # noqa: B023
        taken = [verb for verb, answer in zip((first, second), answers, strict=True) if answer]
        after = sql.job(job.id)
        # A released job is waiting again: what acts on any unfinished job may take it after that.
        assert len(taken) == 1 or (taken[0] == "release" and taken[1] in ("cancel", "discard"))
        letters = sql.jobs("dead")
        assert len(letters) == (1 if after.state == "discarded" else 0)
        assert after.attempt == (0 if "release" in taken else 1)
        assert len(after.errors) <= 1
        assert sql.counts() == sql.true_counts()


def test_two_racing_failures_of_one_attempt_write_one_dead_letter(sql: SqlClient, connect: Connect) -> None:
    clients = [connect() for _ in range(6)]
    for _ in range(ROUNDS):
        job = prepared(sql)
        answers = together(*[lambda c=client, j=job: c.fail(j, "unrecoverable") for client in clients])  # type: ignore[misc]
        assert sorted(map(len, answers)) == [0, 0, 0, 0, 0, 1]
        assert len(sql.jobs("dead")) == 1 and len(sql.job(job.id).errors) == 1


def test_a_failure_that_waits_for_another_of_its_attempt_is_told_so(sql: SqlClient, connect: Connect) -> None:
    job = sql.started(dead_letter_queue="dead")
    one, two = connect(), connect()
    one.run("BEGIN")
    assert one.fail(job, "unrecoverable")

    def commit() -> list[Row]:
        sql.value("SELECT pg_sleep(0.2)")
        one.run("COMMIT")
        return []

    late, _ = together(lambda: two.fail(job, "raised"), commit)
    assert late == []
    assert (sql.job(job.id).state, len(sql.jobs("dead"))) == ("discarded", 1)


def test_a_racing_claim_and_cancel_leave_one_owner_or_none(sql: SqlClient, connect: Connect) -> None:
    one, two = connect(), connect()
    assert one.worker
    for _ in range(ROUNDS):
        sql.run("DELETE FROM stampeded_jobs")
        id = sql.enqueue()
        claimed, cancelled = together(
            lambda: one.claim(),
            lambda: two.call("stampeded_cancel", "q", id),  # noqa: B023
        )
        assert cancelled and sql.job(id).state == "cancelled"
        if claimed:
            assert one.complete(claimed[0]) == []


def test_two_retries_of_one_job_are_one_run(sql: SqlClient, connect: Connect) -> None:
    one, two = connect(), connect()
    for _ in range(ROUNDS):
        sql.run("DELETE FROM stampeded_jobs")
        id = sql.enqueue(state="discarded", attempt=3, max_attempts=3)
        together(*[lambda c=client: c.call("stampeded_retry", "q", id) for client in (one, two)])  # type: ignore[misc] # noqa: B023
        (job,) = sql.claim(limit=5)
        assert job.id == id
        sql.fail(job)
        assert sql.job(id).state == "discarded", "two clicks gave two more attempts"


def test_touching_and_completing_many_in_opposite_order_never_deadlocks(sql: SqlClient, connect: Connect) -> None:
    beat, ack, operator = connect(), connect(), connect()
    for _ in range(ROUNDS):
        sql.run("DELETE FROM stampeded_jobs")
        for queue in ("a", "b", "c"):
            sql.enqueue_many(60, queue)
        jobs = sql.call("stampeded_claim_many", ["a", "b", "c"], sql.worker, 180)

        def many(client: SqlClient, verb: str, jobs: list[Row]) -> int:
            columns = [[getattr(job, name) for job in jobs] for name in ("queue", "id", "attempt")]
            return len(client.call(f"stampeded_{verb}_many", sql.worker, *columns))

        def cancel_some() -> int:
            return len([job for job in jobs[::-17] if operator.call("stampeded_cancel", job.queue, job.id)])  # noqa: B023

        touched, completed, cancelled = together(
            lambda: many(beat, "touch", jobs),  # noqa: B023
            lambda: many(ack, "complete", jobs[::-1]),  # noqa: B023
            cancel_some,
        )
        assert completed + cancelled == len(jobs) >= touched
        assert sql.counts() == sql.true_counts()
