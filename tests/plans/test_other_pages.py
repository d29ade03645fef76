"""What acknowledging, sweeping, pruning and counting read: what they change, and not the table."""

from __future__ import annotations

from datetime import timedelta

import pytest
from psycopg.rows import tuple_row

from django_stampeded import functions
from tests.plans.measure import MANY, pages, plans_shown
from tests.plans.test_claim_pages import finished, future_before_the_due, own_partition
from tests.sql.client import SqlClient

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@pytest.fixture(params=["partition", "default", "analyzed", "unknown"])
def crowded(sql: SqlClient, request: pytest.FixtureRequest) -> SqlClient:
    """A queue with many finished and many future jobs; `unknown`: statistics know other queues and not this one."""
    if request.param == "partition":
        own_partition(sql)
    if request.param == "unknown":
        sql.run("ALTER TABLE stampeded_jobs_default SET (autovacuum_enabled = false)")
        for other in ("a", "b", "c"):
            sql.enqueue_many(100, queue=other)
        sql.run("ANALYZE stampeded_jobs")
    finished(sql)
    future_before_the_due(sql)
    if request.param == "analyzed":
        sql.run("ANALYZE stampeded_jobs")
    return sql


def test_one_jobs_outcome_is_written_by_its_key(crowded: SqlClient) -> None:
    job = crowded.started()
    lease = (job.queue, job.id, job.claimed_by, job.attempt)
    assert pages(crowded, "stampeded_touch", *lease) < 40
    assert pages(crowded, "stampeded_complete", *lease) < 100
    assert pages(crowded, "stampeded_release", *lease) < 100
    assert pages(crowded, "stampeded_fail", *lease, "raised", "boom") < 150
    assert pages(crowded, "stampeded_checkpoint", *lease, "{}") < 40
    assert pages(crowded, "stampeded_step", *lease, "charge", "{}") < 60
    assert pages(crowded, "stampeded_progress", *lease, 1) < 60


def test_one_jobs_outcome_is_not_looked_for_among_all_that_its_worker_runs_and_ran(sql: SqlClient) -> None:
    own_partition(sql)
    sql.enqueue_many(MANY)
    jobs = sql.claim(limit=MANY // 2)
    columns = [[getattr(job, name) for job in jobs[: MANY // 4]] for name in ("queue", "id", "attempt")]
    sql.call("stampeded_complete_many", sql.worker, *columns)
    job = jobs[-1]
    lease = (job.queue, job.id, job.claimed_by, job.attempt)
    assert pages(sql, "stampeded_touch", *lease) < 40
    assert pages(sql, "stampeded_complete", *lease) < 60
    assert pages(sql, "stampeded_release", *lease) < 60
    assert pages(sql, "stampeded_snooze", *lease, 1000) < 60
    assert pages(sql, "stampeded_fail", *lease, "raised", "boom") < 80
    assert pages(sql, "stampeded_checkpoint", *lease, "{}") < 40


def test_many_outcomes_are_written_by_their_keys(crowded: SqlClient) -> None:
    crowded.enqueue_many(50)
    jobs = crowded.claim(limit=50)
    columns = [[getattr(job, name) for job in jobs] for name in ("queue", "id", "attempt")]
    for verb in ("complete", "release", "touch"):
        assert pages(crowded, f"stampeded_{verb}_many", crowded.worker, *columns) < 50 * 60, verb


def test_a_job_is_found_by_its_id_alone(crowded: SqlClient) -> None:
    id = crowded.enqueue()
    plan = crowded.value("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM stampeded_jobs WHERE id = %s", id)
    assert plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"] < 30


def test_sweeps_that_find_nothing_read_little(crowded: SqlClient) -> None:
    crowded.started()
    assert pages(crowded, "stampeded_reap") < 100
    assert pages(crowded, "stampeded_expire") < 100
    # One statement for each final state, planned anew each time: catalog pages, and the same however many jobs there are.
    assert pages(crowded, "stampeded_prune", 30 * DAY, 1000, 30 * DAY) < 200
    assert pages(crowded, "stampeded_claim_due_schedules") < 20


def test_pruning_reads_only_what_is_old_enough(crowded: SqlClient) -> None:
    for state in ("completed", "discarded"):
        crowded.enqueue_many(5, state=state, finished_at=-30 * DAY)
    assert pages(crowded, "stampeded_prune", DAY, 1000, DAY) < 10 * 30 + 60


def test_pruning_the_ledger_reads_only_what_is_old_enough(sql: SqlClient) -> None:
    sql.insert("stampeded_schedules", key="k", queue="q", task="t", interval_secs=60)
    sql.run(
        "INSERT INTO stampeded_cron_occurrences (cron_key, occurrence_token, enqueued_at) "
        "SELECT 'k', n::text, now() - CASE WHEN n <= 5 THEN interval '40 days' ELSE interval '1 day' END "
        "FROM generate_series(1, %s) n",
        MANY,
    )
    assert pages(sql, "stampeded_prune_occurrences") < 60


def test_the_newest_retryable_jobs_are_found_beside_many_that_wait(sql: SqlClient) -> None:
    sql.enqueue_many(5, state="retryable")
    sql.enqueue_many(MANY)
    sql.run("ANALYZE stampeded_jobs")
    query = "SELECT id FROM stampeded_jobs WHERE state = 'retryable' ORDER BY id DESC LIMIT 50"
    plan = sql.value(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}")  # type: ignore[arg-type]
    assert plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"] < 40


def test_reading_the_counts_stays_cheap_though_nobody_maintains(sql: SqlClient) -> None:
    view = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM stampeded_queue_counts"

    def cost() -> int:
        plan = sql.value(view)  # type: ignore[arg-type]
        return int(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])

    rows = "SELECT count(*) FROM stampeded_count_deltas"
    for _ in range(4):
        for _ in range(1000):
            sql.enqueue()
        sql.run("VACUUM stampeded_count_deltas")  # autovacuum's part, which may come late
        # About one statement in 256 folds: that 2,000 pass without one is as good as impossible.
        assert sql.value(rows) < 2000 and cost() < 100  # type: ignore[arg-type]


@pytest.mark.parametrize("queues", [1, 300])
def test_the_counts_of_many_queues_cost_by_the_queue(sql: SqlClient, queues: int) -> None:
    for _ in range(3):
        for number in range(queues):
            sql.enqueue(f"queue {number}")
    sql.call("stampeded_fold_counts", 1)
    assert sql.value("SELECT count(*) FROM stampeded_count_deltas") <= queues + 1


def test_pruning_reads_over_nothing_that_another_queue_keeps_longer(sql: SqlClient) -> None:
    for queue in ("long", "short"):
        own_partition(sql, queue)
    sql.insert("stampeded_queue_policies", queue="long", keep_completed_secs=10**8)
    sql.insert("stampeded_queue_policies", queue="short", keep_completed_secs=3600)
    sql.enqueue_many(MANY, "long", state="completed", finished_at=-30 * DAY)
    sql.enqueue_many(10, "short", state="completed", finished_at=-HOUR * 2)
    sql.enqueue_many(MANY, "short", state="completed", finished_at=-HOUR / 2)
    sql.enqueue_many(10, "other", state="completed", finished_at=-30 * DAY)
    assert pages(sql, "stampeded_prune", DAY, 1000, DAY) < 20 * 30 + 300
    assert sql.call("stampeded_prune", DAY, 1000, DAY)[0][0] == 20


def test_waiting_for_a_job_costs_the_same_however_many_wait_for_it(sql: SqlClient) -> None:
    parent, *waiting, last = sql.enqueue_many(302)
    call = ("q", last, ["q"], [parent])
    few = pages(sql, "stampeded_depend", *call)
    for id in waiting:
        sql.call("stampeded_depend", "q", id, ["q"], [parent])
    assert pages(sql, "stampeded_depend", *call) < few + 60


def test_asking_after_jobs_and_telling_their_progress_leaves_other_partitions_alone(sql: SqlClient) -> None:
    own_partition(sql)
    others = [own_partition(sql, f"other {n}") for n in range(3)]
    job = sql.started()
    with plans_shown(sql) as plans, sql.connection.cursor(row_factory=tuple_row) as cursor:
        assert functions.states(cursor, [functions.Ack(job.queue, job.id, job.attempt)]) == {job.id: "executing"}
        assert sql.call("stampeded_progress", job.queue, job.id, job.claimed_by, job.attempt, 1) == [(True,)]
    shown = "\n".join(plans)
    assert shown.count("stampeded_jobs_q_") >= 2
    assert not [name for name in (*others, "stampeded_jobs_default") if name.strip('"') in shown]
