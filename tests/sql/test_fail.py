"""stampeded_fail: what each kind of failure decides, and what stands on record after it."""

from __future__ import annotations

from datetime import datetime

import psycopg
import pytest

from tests.sql.client import ATTEMPTS, DEATHS, REFUSALS, Row, SqlClient


def test_fail_tells_what_the_job_was_and_is(sql: SqlClient) -> None:
    job = sql.started(max_attempts=2)
    (answer,) = sql.fail(job)
    assert answer._asdict() == {
        "was": "executing", "now_state": "retryable", "dead_lettered": False,
    }  # fmt: skip
    (job,) = sql.claim()
    sql.set_job(job.id, state="claimed")
    (answer,) = sql.fail(job)
    assert answer._asdict() == {
        "was": "claimed", "now_state": "discarded", "dead_lettered": False,
    }  # fmt: skip


@pytest.mark.parametrize("kind", [*ATTEMPTS, *DEATHS])
def test_a_failure_with_attempts_left_is_retried(sql: SqlClient, kind: str) -> None:
    job = sql.started()
    after = sql.failed(job, kind, error="boom")
    assert (after.state, after.attempt, after.claimed_by) == ("retryable", 1, None)
    assert (after.failure_kind, after.last_error) == (kind, "boom")
    assert after.finished_at is None
    assert [again.id for again in sql.claim()] == [job.id]


@pytest.mark.parametrize("kind", ATTEMPTS)
def test_the_last_attempt_is_terminal(sql: SqlClient, kind: str) -> None:
    job = sql.started(max_attempts=3, attempt=1)
    after = sql.failed(job, kind)
    assert after.state == "retryable"
    (job,) = sql.claim()
    after = sql.failed(job, kind)
    assert (after.state, after.attempt) == ("discarded", 3)


def test_one_attempt_means_exactly_one_run(sql: SqlClient) -> None:
    after = sql.failed(sql.started(max_attempts=1))
    assert (after.state, after.attempt) == ("discarded", 1)
    assert sql.claim() == []


def test_an_unrecoverable_failure_is_terminal_at_once(sql: SqlClient) -> None:
    after = sql.failed(sql.started(), "unrecoverable", error="no such task")
    assert (after.state, after.failure_kind) == ("discarded", "unrecoverable")
    assert after.last_error == "no such task"


def test_a_terminal_failure_frees_the_dedup_slot_and_the_lease(sql: SqlClient) -> None:
    job = sql.started(dedup_scope="s", dedup_period="month")
    after = sql.failed(job, "unrecoverable")
    assert (after.claimed_by, after.dedup_key) == (None, None)
    assert job.claimed_at <= after.finished_at <= sql.now()
    sql.enqueue(dedup_scope="s", dedup_period="month")


def test_a_retry_keeps_the_dedup_slot(sql: SqlClient) -> None:
    job = sql.started(dedup_scope="s")
    for _ in range(5):
        assert sql.failed(job).dedup_key == job.dedup_key
        with pytest.raises(psycopg.errors.UniqueViolation):
            sql.enqueue(dedup_scope="s")
        (job,) = sql.claim()
    sql.complete(job)
    sql.enqueue(dedup_scope="s")


def test_a_retry_keeps_the_checkpoint_to_resume_from(sql: SqlClient) -> None:
    job = sql.started()
    sql.checkpoint(job, {"row": 7})
    assert sql.failed(job).checkpoint == {"row": 7}
    assert sql.claim()[0].checkpoint == {"row": 7}


@pytest.mark.parametrize("last", [False, True])
def test_a_cancellation_ends_in_the_state_cancelled(sql: SqlClient, last: bool) -> None:
    job = sql.started(dedup_scope="s", dead_letter_queue="dead", max_attempts=1 if last else 25)
    (answer,) = sql.fail(job, "cancelled", "by Ann")
    assert answer._asdict() == {
        "was": "executing", "now_state": "cancelled", "dead_lettered": False,
    }  # fmt: skip
    after = sql.job(job.id)
    assert (after.state, after.failure_kind, after.last_error) == ("cancelled", "cancelled", "by Ann")
    assert after.finished_at is not None and after.dedup_key is None
    assert sql.jobs("dead") == []


@pytest.mark.parametrize("kind", [None, "", "exploded", "Raised"])
def test_an_unknown_kind_is_refused_and_changes_nothing(sql: SqlClient, kind: str | None) -> None:
    job = sql.started()
    before = sql.job(job.id)
    with pytest.raises(psycopg.Error):
        sql.fail(job, kind)
    assert sql.job(job.id) == before


# -- refusals -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_refusal_gives_the_attempt_back_and_counts_a_deferral(sql: SqlClient, kind: str) -> None:
    job = sql.started(max_attempts=1)
    for deferrals in (1, 2, 3):
        after = sql.failed(job, kind)
        assert (after.attempt, after.deferrals, after.finished_at) == (0, deferrals, None)
        assert after.failure_kind == kind
        (job,) = sql.claim()


@pytest.mark.parametrize("kind", REFUSALS)
def test_refusals_past_their_limit_are_terminal(sql: SqlClient, kind: str) -> None:
    job = sql.started(max_deferrals=2)
    for _ in range(2):
        assert sql.failed(job, kind).state != "discarded"
        (job,) = sql.claim()
    assert sql.failed(job, kind).state == "discarded"


def test_no_deferral_at_all_can_be_asked_for(sql: SqlClient) -> None:
    assert sql.failed(sql.started(max_deferrals=0), "throttled").state == "discarded"


def test_a_deferral_counter_at_its_end_still_records_the_refusal(sql: SqlClient) -> None:
    job = sql.started(deferrals=32767, max_deferrals=32767)
    assert sql.failed(job, "throttled").state == "discarded"


def test_refusals_leave_the_last_error_alone_and_share_one_entry(sql: SqlClient) -> None:
    first = sql.failed(sql.started(), error="real")
    for kind in ("throttled", "breaker_open", "throttled"):
        (job,) = sql.claim()
        after = sql.failed(job, kind, error="not now")
        assert (after.last_error, after.error_fingerprint) == ("real", first.error_fingerprint)
    assert after.errors[0] == first.errors[0]
    assert [entry["kind"] for entry in after.errors] == ["raised", "throttled"]
    shared = after.errors[-1]
    assert shared["count"] == 3
    assert datetime.fromisoformat(shared["at"]) >= job.claimed_at


def test_refusals_never_push_real_failures_out(sql: SqlClient) -> None:
    job = sql.started()
    for number in range(10):
        sql.failed(job, error=f"real {number}")
        (job,) = sql.claim()
    for kind in REFUSALS * 3:
        after = sql.failed(job, kind)
        (job,) = sql.claim()
    real = [entry["message"] for entry in after.errors if entry["kind"] == "raised"]
    assert real == [f"real {number}" for number in range(10)]


def test_the_entry_of_the_refusals_stands_where_the_newest_stands(sql: SqlClient) -> None:
    job = sql.started()
    for kind in ("throttled", "raised", "raised", "breaker_open"):
        after = sql.failed(job, kind)
        (job,) = sql.claim()
    assert [entry["kind"] for entry in after.errors] == ["raised", "raised", "breaker_open"]
    assert after.errors[-1]["count"] == 2
    moments = [datetime.fromisoformat(entry["at"]) for entry in after.errors]
    assert moments == sorted(moments)


# -- the record ---------------------------------------------------------------------


def test_each_failure_adds_an_entry_newest_last(sql: SqlClient) -> None:
    job = sql.started(destination="api", max_interruptions=9)
    sql.fail(job, "raised", "first")
    (job,) = sql.claim()
    after = sql.failed(job, "worker_exited", error="second", exit_status=137)
    first, second = after.errors
    assert (first["attempt"], first["kind"], first["message"]) == (1, "raised", "first")
    assert (second["attempt"], second["kind"], second["message"]) == (2, "worker_exited", "second")
    assert (first["destination"], first.get("exit_status")) == ("api", None)
    assert (second["destination"], second["exit_status"]) == ("api", 137)
    for entry in after.errors:
        assert set(entry) >= {"at", "attempt", "kind", "message"}
        assert datetime.fromisoformat(entry["at"]).tzinfo is not None


@pytest.mark.parametrize("status", [-11, 0, 255, 2**31 - 1, None])
def test_an_exit_status_of_any_size_goes_on_record(sql: SqlClient, status: int | None) -> None:
    after = sql.failed(sql.started(), "worker_exited", exit_status=status)
    assert after.errors[-1].get("exit_status") == status


def test_the_ring_keeps_the_last_ten_failures(sql: SqlClient) -> None:
    job = sql.started()
    for number in range(13):
        after = sql.failed(job, error=f"error {number}")
        (job,) = sql.claim()
    assert [entry["message"] for entry in after.errors] == [f"error {n}" for n in range(3, 13)]
    assert [entry["attempt"] for entry in after.errors] == list(range(4, 14))


@pytest.mark.parametrize("letter", ["x", "é", "🐎"])
def test_a_long_error_is_cut_and_never_stops_the_record(sql: SqlClient, letter: str) -> None:
    after = sql.failed(sql.started(), error="head" + letter * 3_000_000)
    assert after.last_error[:5] == "head" + letter
    assert 3900 < len(after.last_error) <= 4000
    message = after.errors[-1]["message"]
    assert message[:5] == "head" + letter and 900 < len(message) <= 1000


@pytest.mark.parametrize("error", [None, ""])
def test_a_failure_without_a_word_is_recorded(sql: SqlClient, error: str | None) -> None:
    after = sql.failed(sql.started(), error=error)
    assert (after.state, after.failure_kind, len(after.errors)) == ("retryable", "raised", 1)


@pytest.mark.parametrize("error", ["quote ' \" \\ %s %I", "line\nline\ttab", "\x01\x7f", "日本 🐎"])
def test_any_text_an_error_holds_comes_back_as_it_was(sql: SqlClient, error: str) -> None:
    after = sql.failed(sql.started(), error=error)
    assert (after.last_error, after.errors[-1]["message"]) == (error, error)


def test_the_fingerprint_clusters_the_error(sql: SqlClient) -> None:
    one = sql.failed(sql.started(), error="Timeout after 30 s")
    two = sql.failed(sql.started("other"), error="timeout after 7 s")
    assert one.error_fingerprint == two.error_fingerprint
    assert one.error_fingerprint == sql.call("stampeded_fingerprint", "Timeout after 30 s")[0][0]


def test_a_thousand_failures_and_deferrals_leave_a_small_row(sql: SqlClient) -> None:
    job = sql.started(max_attempts=32767, max_deferrals=32767)
    for number in range(300):
        sql.fail(job, REFUSALS[number % 2] if number % 3 else "raised", "🐎" * 100_000)
        (job,) = sql.claim()
    columns = [f"pg_column_size({name}) AS {name}" for name in job._fields]
    sizes = sql.one(
        f"SELECT {', '.join(columns)} FROM stampeded_jobs WHERE id = %s",  # type: ignore[arg-type]
        job.id,
    )
    assert max(size or 0 for size in sizes) < 64 * 1024
    assert len(job.errors) <= 11 and len(job.attempted_by) <= 10


def test_racing_retries_of_different_jobs_do_not_touch_each_other(sql: SqlClient) -> None:
    jobs: list[Row] = [sql.started() for _ in range(3)]
    sql.fail(jobs[1])
    assert [sql.job(job.id).state for job in jobs] == ["executing", "retryable", "executing"]


def test_an_entry_says_where_the_attempt_ran_and_for_how_long(sql: SqlClient) -> None:
    job = sql.started()
    sql.run("UPDATE stampeded_jobs SET claimed_at = claimed_at - interval '90 s' WHERE id = %s", job.id)
    (entry,) = sql.failed(job).errors
    assert entry["worker"] == str(sql.worker)
    assert entry["node"] == sql.value("SELECT hostname FROM stampeded_workers WHERE id = %s", sql.worker)
    assert 90 <= entry["duration_s"] < 3690


def test_an_entry_names_no_node_where_the_worker_is_off_the_list_and_nothing_where_no_attempt_ran(sql: SqlClient) -> None:
    job = sql.started()
    sql.run("DELETE FROM stampeded_workers WHERE id = %s", sql.worker)
    (entry,) = sql.failed(job).errors
    assert entry["worker"] == str(job.claimed_by) and entry["node"] is None
    waiting = sql.enqueue()
    sql.call("stampeded_cancel", "q", waiting)
    assert not {"worker", "node", "duration_s"} & set(sql.job(waiting).errors[0])


def test_a_message_that_is_cut_short_keeps_its_trace_for_each_attempt(sql: SqlClient) -> None:
    long = "ValueError: no\n" + "x" * 3900
    job = sql.started()
    sql.fail(job, error=long)
    (job,) = sql.claim()
    sql.fail(job, error="ValueError: short\n  File 1")
    (job,) = sql.claim()
    after = sql.failed(job, "throttled", error=long)
    first, second, third = after.errors
    assert first["message"] == long[:1000] and first["trace"] == "x" * 2000
    assert "trace" not in second and "trace" not in third


def test_the_ring_stays_small_whatever_goes_wrong(sql: SqlClient) -> None:
    job = sql.started(max_attempts=30)
    for number in range(15):
        sql.fail(job, error=f"Error {number}\n" + "\U0001f600" * 4000)
        (job,) = sql.claim()
    assert len(job.errors) == 10
    assert sql.value("SELECT pg_column_size(errors) FROM stampeded_jobs WHERE id = %s", job.id) < 40 * 4 * 1024
