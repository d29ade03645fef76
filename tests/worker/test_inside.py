"""What a job does while it runs: checkpoints, steps and progress, with real transactions and workers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection, transaction

from django_stampeded import functions, insights
from django_stampeded.worker.inline import run_once
from tests.testapp import long_jobs
from tests.worker.support import column, drain, eventually, real_transactions, rows, value, working

pytestmark = real_transactions


def traces() -> list[tuple[int, int]]:
    return rows("SELECT n, attempt FROM effects ORDER BY at")


def checkpoint(job: Any) -> Any:
    return json.loads(column("checkpoint::text", job))


def told(job: Any) -> tuple[Any, ...] | None:
    found = rows("SELECT done, total, message, attempt FROM stampeded_progress WHERE job_id = %s", job.id)
    return found[0] if found else None


@pytest.mark.parametrize(
    ("fail_at", "second"),
    [
        ("", []),
        ("after charge", [0, 1, 2]),
        ("row 1", [2]),
        ("row 2", []),
        ("after mail", []),
        ("after again", []),
    ],
)
def test_a_retry_does_what_is_left_of_the_steps(effects, fail_at, second):
    job = long_jobs.by_steps.enqueue(rows=3, fail_at=fail_at)
    drain()
    assert [n for n, attempt in traces() if attempt == 2] == second
    assert sorted(n for n, _ in traces()) == [-1, 0, 1, 2]
    assert job.result() == [-1, {"at": [1, 2]}]


@pytest.mark.parametrize(("fail_at", "second"), [("row 1", [2]), ("after mail", [])])
def test_async_jobs_have_steps_and_checkpoints_too(effects, fail_at, second):
    long_jobs.by_async_steps.enqueue(rows=3, fail_at=fail_at)
    drain()
    assert [n for n, attempt in traces() if attempt == 2] == second
    assert sorted(n for n, _ in traces()) == [-2, -1, 0, 1, 2]


def test_the_record_of_a_step_commits_or_vanishes_with_its_work(effects):
    long_jobs.steps_in_a_transaction.enqueue()
    drain()
    assert traces() == [(2, 1), (3, 2)]


def test_a_step_of_a_stolen_job_rolls_its_work_back(effects):
    job = long_jobs.step_after_theft.enqueue()
    drain()
    assert traces() == []
    assert column("state", job) == "executing"


def test_a_plain_checkpoint_and_steps_keep_out_of_each_other_s_way(effects):
    job = long_jobs.both.enqueue()
    with connection.cursor() as cur, transaction.atomic():
        worker_id = functions.register_worker(cur, "here", 1, [], {})
    with connection.cursor() as cur:
        run_once(cur, worker_id, ["default"], 1, "default")
        assert checkpoint(job) == {
            "stampeded_steps": {"first": {"done": True, "result": 1}, "second": {"done": True, "result": 2}},
            "state": {"cursor": 2},
        }
        (run,) = run_once(cur, worker_id, ["default"], 1, "default")
    assert traces() == [(1, 1), (2, 1)]
    assert column("state", job) == "completed", run


@pytest.mark.parametrize(("every", "written", "last"), [(1, 10, 10), (4, 2, 8), (10, 1, 10)])
def test_of_every_so_many_checkpoints_one_is_written(effects, every, written, last):
    job = long_jobs.seldom.enqueue(calls=10, every=every)
    drain()
    assert (column("checkpoint_seq", job), checkpoint(job)) == (written, {"n": last})


def test_a_number_of_calls_that_is_none_is_refused(effects):
    job = long_jobs.seldom.enqueue(calls=1, every=0)
    drain()
    assert "every is a number of calls, 1 or more" in column("last_error", job)


@pytest.mark.parametrize("many", [False, True])
def test_results_that_cannot_be_kept_discard_the_job_so_that_the_work_is_not_done_again(effects, many):
    job = long_jobs.returns_too_much.enqueue(many=many)
    drain()
    assert (column("state", job), column("attempt", job)) == ("discarded", 1)
    assert '"report ' in column("last_error", job)
    assert ("8192" in column("last_error", job)) != many


def test_a_name_that_ran_already_fails_the_attempt_and_not_the_step(effects):
    job = long_jobs.one_name_twice.enqueue()
    drain()
    assert traces() == [(1, 1)]
    assert 'Step "charge" ran in this attempt already' in column("last_error", job)


def test_progress_is_seen_while_the_job_is_in_a_transaction_of_its_own(effects):
    job = long_jobs.reports_in_a_transaction.enqueue()
    with working():
        eventually(lambda: told(job) == (40, 100, "page 4 of 10", 1), "its progress")
        assert column("checkpoint", job) is None
        facts = insights.facts(insights.find(job.id))
        assert facts.progress is not None and facts.progress.words == "40 %: page 4 of 10"
        rows("INSERT INTO effects (n) VALUES (99)")
        eventually(lambda: column("state", job) == "completed")
    assert told(job) == (40, 100, "page 4 of 10", 1)


def test_the_last_word_of_a_job_is_written_when_the_worker_ends(effects):
    job = long_jobs.tracks.enqueue(rows=20_000)
    drain()
    assert told(job) == (20_000, 20_000, "counting", 1)


def test_progress_that_nobody_can_write_costs_the_job_nothing(effects):
    job = long_jobs.tracks.enqueue(rows=10)
    rows("ALTER TABLE stampeded_progress ADD CONSTRAINT never CHECK (message <> 'counting')")
    try:
        drain()
    finally:
        rows("ALTER TABLE stampeded_progress DROP CONSTRAINT never")
    assert column("state", job) == "completed"
    assert told(job) is None


def test_progress_of_a_job_goes_with_a_retry_and_with_the_job(effects):
    job = long_jobs.tracks.enqueue(rows=10, fail=True)
    drain()
    assert told(job) == (10, 10, "counting", 1)
    with connection.cursor() as cur:
        assert functions.retry(cur, "default", job.id) is not None
    assert told(job) is None
    drain()
    assert told(job) == (10, 10, "counting", 2)
    with connection.cursor() as cur:
        assert functions.delete(cur, "default", job.id) == "retryable"
    assert value("SELECT count(*) FROM stampeded_progress") == 0
