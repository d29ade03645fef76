"""What is written: nothing when nothing changed, in place where that can be, and no multixacts."""

from __future__ import annotations

from datetime import timedelta

from tests.races.together import together
from tests.sql.client import SqlClient
from tests.sql.fixtures import Connect

WRITES = (
    "SELECT coalesce(sum(pg_stat_get_xact_tuples_inserted(oid) + pg_stat_get_xact_tuples_updated(oid)"
    " + pg_stat_get_xact_tuples_deleted(oid)), 0)::int FROM pg_class"
    " WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')"
)


def test_an_idle_install_writes_nothing(sql: SqlClient) -> None:
    job = sql.started()
    sql.enqueue(scheduled_at=timedelta(days=1))
    sql.enqueue(state="completed", finished_at=timedelta(0))
    sql.insert("stampeded_schedules", key="k", queue="q", task="t", interval_secs=60, next_run_at=timedelta(days=1))
    sql.insert("stampeded_queue_policies", queue="q", max_running=5)
    sql.call("stampeded_fold_counts", 1)
    with sql.transaction():
        before = sql.value(WRITES)
        assert sql.claim() == []
        for function in ("reap", "expire", "prune", "prune_occurrences", "claim_due_schedules", "fold_counts"):
            sql.call(f"stampeded_{function}")
        assert sql.fail(job._replace(attempt=7)) == [] and sql.complete(job._replace(attempt=7)) == []
        sql.call("stampeded_resume", "q")
        assert sql.value(WRITES) == before


def test_beats_and_checkpoints_stay_on_their_page(sql: SqlClient) -> None:
    jobs = [sql.started() for _ in range(3)]
    hot = "SELECT pg_stat_get_xact_tuples_hot_updated('stampeded_jobs_default'::regclass)"
    with sql.transaction():
        before = sql.value(hot)  # type: ignore[arg-type]
        for job in jobs:
            assert sql.touch(job) and sql.checkpoint(job, {"row": 1})
        assert sql.value(hot) - before == 6  # type: ignore[arg-type]


def test_a_workers_beats_stay_on_their_page(sql: SqlClient) -> None:
    worker = sql.worker
    hot = "SELECT pg_stat_get_xact_tuples_hot_updated('stampeded_workers'::regclass)"
    with sql.transaction():
        before = sql.value(hot)  # type: ignore[arg-type]
        for _ in range(5):
            sql.call("stampeded_heartbeat", worker)
            sql.change("stampeded_workers", {"id": worker}, waiting=False)
        assert sql.value(hot) - before == 10  # type: ignore[arg-type]


def test_working_makes_no_multixacts(sql: SqlClient, connect: Connect) -> None:
    def next_multixact() -> int:
        sql.run("CHECKPOINT")
        return int(sql.value("SELECT next_multixact_id::text FROM pg_control_checkpoint()"))

    jobs = 400
    sql.enqueue_many(jobs)
    workers, looker = [connect() for _ in range(3)], connect()
    assert all(worker.worker for worker in workers)
    before = next_multixact()

    def work(client: SqlClient) -> None:
        for _ in range(jobs // 20):
            for job in client.claim(limit=10):
                client.touch(job)
                client.checkpoint(job, {"row": 1})
                client.complete(job)

    def look() -> None:
        for _ in range(30):
            looker.call("stampeded_reap")
            looker.call("stampeded_expire")
            looker.rows("SELECT * FROM stampeded_jobs LIMIT 100")

    together(*[lambda w=worker: work(w) for worker in workers], look)  # type: ignore[misc]
    assert next_multixact() - before < jobs // 4


def test_a_finished_job_is_small(sql: SqlClient) -> None:
    for _ in range(5):
        sql.enqueue_many(200, "q", task="app.tasks.send_mail", args={"to": "someone@example.org"})
        jobs = sql.claim(limit=200)
        columns = [[getattr(job, name) for job in jobs] for name in ("queue", "id", "attempt")]
        sql.call("stampeded_complete_many", sql.worker, *columns)
    size = sql.value("SELECT avg(pg_column_size(j.*)) FROM stampeded_jobs j")
    assert size <= 330
