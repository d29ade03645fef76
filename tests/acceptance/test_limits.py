"""Limits over several processes, judged by what the database has on record of every claim and every end."""

from __future__ import annotations

import os

import pytest

from tests.acceptance.project import Project, eventually

FEW_AT_ONCE = int(os.environ.get("LIMIT_JOBS", "300"))
"""Jobs of the queue that runs three at once. LIMIT_JOBS=5000 takes a minute or two."""
RATED = 150
RATE = 30
PATIENCE_S = 120 + FEW_AT_ONCE / 10

MOST_AT_ONCE = """
    SELECT max(running) FROM (
        SELECT sum(n) OVER (ORDER BY at, n) AS running
          FROM (SELECT queue, claimed_at AS at, 1 AS n FROM stampeded_jobs
                UNION ALL SELECT queue, finished_at, -1 FROM stampeded_jobs) e
         WHERE queue = 'default'
    ) r
"""
"""A job runs from when it was claimed until the statement that completed it."""

MOST_IN_A_SECOND = """
    SELECT max(n) FROM (SELECT count(*) OVER (ORDER BY claimed_at RANGE BETWEEN CURRENT ROW AND '1 second' FOLLOWING) AS n
                          FROM stampeded_jobs WHERE queue = 'rated') w
"""


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_four_processes_keep_the_limits_of_their_queues(project: Project) -> None:
    project.rows(
        "INSERT INTO stampeded_queue_policies (queue, max_running, rate_limit, rate_period_secs) "
        "VALUES ('default', 3, NULL, NULL), ('rated', NULL, %s, 1)",
        RATE,
    )
    worker = project.worker("--processes=4", "--threads=8", "--no-maintenance")
    eventually(lambda: project.value("SELECT count(*) FROM stampeded_workers") == 4, "all four to register")
    project.enqueue("noop", FEW_AT_ONCE)
    project.rows(
        "INSERT INTO stampeded_jobs (queue, task) SELECT 'rated', 'tests.testapp.tasks.noop' FROM generate_series(1, %s)", RATED
    )
    jobs = FEW_AT_ONCE + RATED
    eventually(lambda: project.states() == {"completed": jobs}, "every job to complete", timeout=PATIENCE_S)
    assert worker.stop() == 0
    assert project.value("SELECT count(*) FROM stampeded_jobs WHERE attempt = 1 AND deferrals = 0") == jobs
    assert project.value(MOST_AT_ONCE) <= 3
    assert project.value(MOST_IN_A_SECOND) <= RATE
