"""The dead letter: one copy for every way into 'discarded', with where it came from."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.sql.client import Row, SqlClient

DAY = timedelta(days=1)
COPIED = {
    "task": "mail.send", "args": {"to": "ann", "n": [1, None]}, "meta": {"django": {"a": 1}},
    "tenant_id": "acme", "priority": -7, "destination": "smtp", "max_attempts": 3,
    "expire_seconds": 77, "backoff_base_ms": 123, "backoff_max_ms": 45678,
}  # fmt: skip

Way = Callable[[SqlClient], Row]


def by_fail(kind: str, **columns: object) -> Way:
    def discard(sql: SqlClient) -> Row:
        return sql.failed(sql.started("q", dead_letter_queue="dead", **columns), kind)

    return discard


def by_expire(sql: SqlClient) -> Row:
    job = sql.started("q", dead_letter_queue="dead", max_attempts=1, expire_seconds=1)
    sql.silence(job.id, DAY)
    assert len(sql.call("stampeded_expire")) == 1
    return sql.job(job.id)


def by_reap(sql: SqlClient) -> Row:
    job = sql.started("q", dead_letter_queue="dead", max_interruptions=0)
    sql.silence_worker(sql.worker, timedelta(hours=1))
    assert len(sql.call("stampeded_reap")) == 1
    return sql.job(job.id)


def by_reap_without_a_worker(sql: SqlClient) -> Row:
    job = sql.started("q", dead_letter_queue="dead", max_interruptions=0)
    sql.run("DELETE FROM stampeded_workers")
    sql.silence(job.id, DAY)
    assert len(sql.call("stampeded_reap")) == 1
    return sql.job(job.id)


def by_hand(sql: SqlClient) -> Row:
    id = sql.enqueue("q", dead_letter_queue="dead")
    assert len(sql.call("stampeded_discard", "q", id, "not wanted")) == 1
    return sql.job(id)


WAYS: dict[str, Way] = {
    "raised": by_fail("raised", max_attempts=1),
    "timed_out": by_fail("timed_out", max_attempts=1),
    "heartbeat_lost": by_fail("heartbeat_lost", max_interruptions=0),
    "worker_exited": by_fail("worker_exited", max_interruptions=0),
    "worker_missing": by_fail("worker_missing", max_attempts=1),
    "breaker_open": by_fail("breaker_open", max_deferrals=0),
    "throttled": by_fail("throttled", max_deferrals=0),
    "unrecoverable": by_fail("unrecoverable"),
    "expire": by_expire,
    "reap": by_reap,
    "reap, worker row gone": by_reap_without_a_worker,
    "discard by hand": by_hand,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_way_into_discarded_writes_one_dead_letter_and_an_error(sql: SqlClient, way: Way) -> None:
    source = way(sql)
    assert source.state == "discarded"
    assert source.failure_kind is not None and len(source.errors) == 1
    (letter,) = sql.jobs("dead")
    assert (letter.source_id, letter.source_queue) == (source.id, "q")


def test_fail_tells_that_a_dead_letter_was_written(sql: SqlClient) -> None:
    job = sql.started(dead_letter_queue="dead")
    (answer,) = sql.fail(job, "unrecoverable")
    assert (answer.now_state, answer.dead_lettered) == ("discarded", True)


def test_no_dead_letter_is_written_before_the_end_or_without_a_queue_for_it(
    sql: SqlClient,
) -> None:
    sql.fail(sql.started(dead_letter_queue="dead"), "raised")
    sql.fail(sql.started("other"), "unrecoverable")
    assert sql.value("SELECT count(*) FROM stampeded_jobs") == 2


def test_the_letter_takes_the_jobs_settings_and_starts_afresh(sql: SqlClient) -> None:
    columns = {**COPIED, "dead_letter_queue": "dead", "dedup_scope": "s", "dedup_period": "day"}
    job = sql.started("q", **columns)
    sql.checkpoint(job, {"row": 1})
    sql.fail(job, "unrecoverable", "broken")
    (letter,) = sql.jobs("dead")
    for name, value in COPIED.items():
        assert getattr(letter, name) == value, name
    assert (letter.state, letter.attempt, letter.claimed_by) == ("available", 0, None)
    assert (letter.dead_letter_queue, letter.dedup_key) == (None, None)
    assert (letter.interruptions, letter.deferrals, letter.attempted_by) == (0, 0, [])
    assert letter.scheduled_at <= sql.now() and letter.finished_at is None
    assert [again.id for again in sql.claim("dead")] == [letter.id]


def test_the_letter_counts_the_attempts_that_were_made(sql: SqlClient) -> None:
    job = sql.started(max_attempts=3, dead_letter_queue="dead")
    for _ in range(2):
        sql.fail(job)
        (job,) = sql.claim()
    sql.fail(job)
    assert sql.jobs("dead")[0].source_attempts == 3


def test_a_letter_that_fails_in_its_turn_goes_nowhere(sql: SqlClient) -> None:
    sql.failed(sql.started(dead_letter_queue="dead"), "unrecoverable")
    (letter,) = sql.claim("dead")
    assert sql.failed(letter, "unrecoverable").state == "discarded"
    assert sql.value("SELECT count(*) FROM stampeded_jobs") == 2


def test_two_jobs_of_one_scope_may_both_leave_a_letter(sql: SqlClient) -> None:
    for _ in range(2):
        sql.fail(sql.started(dedup_scope="s", dead_letter_queue="dead"), "unrecoverable")
    assert len(sql.jobs("dead")) == 2


def test_the_discard_stands_when_the_letter_cannot_be_written(sql: SqlClient) -> None:
    sql.call("stampeded_create_queue", "dead")
    partition = sql.value(
        "SELECT c.oid::regclass::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = 'stampeded_jobs'::regclass"
        " AND pg_get_expr(c.relpartbound, c.oid) LIKE '%dead%'"
    )
    sql.run(f"ALTER TABLE {partition} ADD CONSTRAINT no_letters_today CHECK (false)")  # type: ignore[arg-type]
    job = sql.started(dead_letter_queue="dead")
    sql.notices.clear()
    (answer,) = sql.fail(job, "unrecoverable", "broken")
    assert (answer.now_state, answer.dead_lettered) == ("discarded", False)
    assert sql.warnings
    after = sql.job(job.id)
    assert (after.state, after.failure_kind) == ("discarded", "unrecoverable")
    assert "no_letters_today" in f"{after.last_error} {after.errors}"
    assert "broken" in f"{after.last_error} {after.errors}"
    assert sql.jobs("dead") == []
