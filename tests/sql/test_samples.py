"""Samples: what the charts are drawn from, written once a slot by whoever maintains, and bounded whatever happens."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.races.together import together
from tests.sql.client import SqlClient
from tests.sql.fixtures import Connect

SHIFT = "UPDATE stampeded_samples SET slot = slot - %s, at = at - %s * interval '5 seconds'"


def sample(sql: SqlClient, queue: str = "q") -> Any:
    """A sample one slot after the last one; the queue's row, None where it was idle."""
    sql.run(SHIFT, 1, 1)
    before = sql.now()
    sql.call("stampeded_sample")
    rows = sql.rows("SELECT * FROM stampeded_samples WHERE queue = %s AND at >= %s", queue, before)
    return rows[0] if rows else None


def test_a_sample_shows_what_waits_runs_and_since_when(sql: SqlClient) -> None:
    sql.started()
    sql.enqueue(scheduled_at=timedelta(seconds=-90))
    sql.enqueue(scheduled_at=timedelta(days=1))
    sql.call("stampeded_sample")
    row = sql.one("SELECT * FROM stampeded_samples WHERE queue <> ''")
    assert (row.queue, row.available, row.retryable, row.executing) == ("q", 2, 0, 1)
    assert row.oldest_waiting_secs >= 90
    assert row.seconds is None and (row.completed, row.discarded, row.failures) == (0, 0, {})


def test_a_job_for_later_is_not_waiting(sql: SqlClient) -> None:
    sql.enqueue(scheduled_at=timedelta(days=1))
    sql.call("stampeded_sample")
    assert sql.one("SELECT * FROM stampeded_samples WHERE queue = 'q'").oldest_waiting_secs is None


def test_what_ended_between_two_samples_counts_also_where_it_was_deleted(sql: SqlClient) -> None:
    sql.enqueue("other")
    sql.complete(sql.started())
    sql.call("stampeded_sample")
    for _ in range(3):
        sql.complete(sql.started())
    sql.failed(sql.started(max_attempts=1), "raised")
    sql.run("DELETE FROM stampeded_jobs WHERE state = 'completed'")
    row = sample(sql)
    assert (row.completed, row.discarded, row.failures) == (3, 1, {"raised": 1})
    assert row.seconds > 0
    assert sql.value("SELECT count(*) FROM stampeded_tallies") == 0


def test_each_failure_counts_by_its_kind(sql: SqlClient) -> None:
    sql.enqueue("other")
    sql.call("stampeded_sample")
    job = sql.started()
    for kind in ("raised", "raised", "timed_out", "throttled"):
        sql.fail(job, kind, delay=0)
        job = sql.claim()[0]
    assert sample(sql).failures == {"raised": 2, "timed_out": 1, "throttled": 1}


def test_a_queue_that_is_new_starts_from_nothing(sql: SqlClient) -> None:
    sql.enqueue("other")
    sql.call("stampeded_sample")
    for _ in range(2):
        sql.complete(sql.started())
    assert sample(sql).completed == 2


def test_retrying_a_final_job_is_no_negative_throughput(sql: SqlClient) -> None:
    done = sql.started()
    sql.complete(done)
    sql.call("stampeded_sample")
    sql.call("stampeded_retry", "q", done.id)
    row = sample(sql)
    assert (row.available, row.completed) == (1, 0)


def test_a_final_job_that_moves_has_ended_in_neither_queue(sql: SqlClient) -> None:
    done = sql.started()
    sql.complete(done)
    sql.enqueue("other")
    sql.call("stampeded_sample")
    sql.call("stampeded_move", "q", done.id, "other")
    row = sample(sql, "other")
    assert (row.completed, list(row.final_counts)) == (0, [1, 0, 0])
    assert sql.value("SELECT max(completed) FROM stampeded_samples") == 0


def test_the_row_of_no_queue_has_all_of_them_together(sql: SqlClient) -> None:
    sql.enqueue("a")
    sql.call("stampeded_sample")
    sql.enqueue("b", scheduled_at=timedelta(seconds=-50))
    for queue in ("a", "b"):
        sql.fail(sql.claim(queue)[0], "raised")
    row = sample(sql, "")
    assert (row.available, row.retryable, row.executing, row.failures) == (0, 2, 0, {"raised": 2})


def test_an_install_without_jobs_is_sampled_too(sql: SqlClient) -> None:
    assert sql.call("stampeded_sample")[0][0] == 1
    assert sample(sql, "").seconds > 0


def test_an_idle_queue_leaves_rows_only_now_and_then(sql: SqlClient) -> None:
    sql.enqueue("busy")
    sql.complete(sql.started())
    sql.call("stampeded_sample")
    assert sample(sql) is None and sample(sql) is None
    sql.run(SHIFT, 121, 121)
    assert sample(sql).completed == 0


def test_a_slot_has_one_sample_whoever_takes_it(sql: SqlClient, connect: Connect) -> None:
    sql.enqueue()
    others = [connect() for _ in range(4)]
    together(*(lambda each=each: each.call("stampeded_sample") for each in others))  # type: ignore[misc]
    slots = sql.rows("SELECT slot, count(*) AS n FROM stampeded_samples WHERE queue = 'q' GROUP BY slot")
    assert slots and all(row.n == 1 for row in slots)


def test_old_samples_go_and_those_of_a_clock_that_was_ahead(sql: SqlClient) -> None:
    sql.enqueue()
    sql.call("stampeded_sample")
    sql.run(SHIFT, 1441, 1441)
    sql.call("stampeded_sample")
    assert sql.value("SELECT count(*) FROM stampeded_samples") == 2
    sql.run(SHIFT, -9999, -9999)
    sql.call("stampeded_sample")
    assert sql.value("SELECT count(*) FROM stampeded_samples WHERE at < now() + '1 hour'::interval") == 2
    assert sql.value("SELECT count(*) FROM stampeded_samples") == 2


def test_the_busiest_queues_get_a_row_where_there_are_too_many(sql: SqlClient) -> None:
    for number in range(5):
        sql.enqueue_many(number + 1, f"q{number}")
    sql.call("stampeded_sample", p_limit=2)
    assert sorted(row.queue for row in sql.rows("SELECT queue FROM stampeded_samples")) == ["", "q3", "q4"]


def test_tallies_that_nobody_samples_stay_few(sql: SqlClient) -> None:
    for _ in range(5):
        sql.run("INSERT INTO stampeded_tallies (queue, what, n) SELECT 'q', 'raised', 1 FROM generate_series(1, 200)")
        sql.call("stampeded_fold_counts")
    assert sql.one("SELECT count(*) AS rows, sum(n)::int AS n FROM stampeded_tallies") == (1, 1000)


def test_a_sample_waits_for_nobody_and_nobody_for_it(sql: SqlClient, connect: Connect) -> None:
    sql.enqueue()
    other = connect()
    with other.transaction():
        other.call("stampeded_sample")
        sql.failed(sql.claim()[0])
        assert sql.call("stampeded_sample")[0][0] == 0
    assert sql.value("SELECT count(*) FROM stampeded_tallies") == 1


def test_a_worker_is_asked_to_stop_once_and_only_if_it_is_on_record(sql: SqlClient) -> None:
    assert sql.call("stampeded_stop_worker", sql.worker)[0][0]
    first = sql.value("SELECT stop_requested_at FROM stampeded_workers")
    assert sql.call("stampeded_stop_worker", sql.worker)[0][0]
    assert sql.value("SELECT stop_requested_at FROM stampeded_workers") == first
    assert not sql.call("stampeded_stop_worker", "019aaaaa-0000-7000-8000-000000000001")[0][0]


def test_a_transaction_that_is_open_for_long_is_named(sql: SqlClient, connect: Connect) -> None:
    other = connect()
    with other.transaction():
        other.enqueue()
        pid = other.connection.info.backend_pid
        assert pid in [row.pid for row in sql.call("stampeded_long_transactions", timedelta(0))]
        assert pid not in [row.pid for row in sql.call("stampeded_long_transactions", timedelta(hours=1))]
    assert pid not in [row.pid for row in sql.call("stampeded_long_transactions", timedelta(0))]
