"""What a worker process does when it is told to end, and what it exits with."""

from __future__ import annotations

import shutil
import signal
import time

import pytest

from tests.acceptance.project import eventually

SOON_S = 15.0
"""Generous, and far below the grace period that a lost signal would cost."""


@pytest.fixture(autouse=True, params=[0, pytest.param(1, marks=pytest.mark.slow)], ids=["alone", "supervised"])
def supervised(request, project):
    """Everything here is true of a worker in one process and of one in a child process."""
    project.supervised = request.param


@pytest.mark.slow
def test_a_rolling_deploy_loses_no_job_and_runs_none_twice(project):
    project.enqueue("effect", 1500, "jsonb_build_object('n', n, 'seconds', 0.002)")
    for _ in range(3):
        worker = project.worker("--threads=4", "--no-maintenance")
        seen = project.begun()
        eventually(lambda seen=seen: project.begun() >= seen + 100)
        assert worker.stop() == 0
        assert project.states().get("executing", 0) == 0
        assert project.value("SELECT count(*) FROM stampeded_workers") == 0
    project.worker("--threads=4")
    eventually(lambda: project.states() == {"completed": 1500})
    assert project.rows("SELECT count(*), count(DISTINCT n), max(attempt) FROM effects") == [(1500, 1500, 1)]
    assert project.rows("SELECT DISTINCT attempt, errors::text FROM stampeded_jobs") == [(1, "[]")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_running_job_ends_before_the_process_does(project, number):
    worker = project.worker()
    project.enqueue("begin_and_end", 1, "jsonb_build_object('n', n, 'seconds', 1)")
    eventually(project.begun)
    worker.send(number)
    assert worker.wait() == 0
    assert project.states() == {"completed": 1}


@pytest.mark.pooled
def test_a_second_signal_ends_the_process_at_once_and_hands_the_job_back(project):
    worker = project.worker("--grace-period=600")
    project.enqueue("until_told", 1, "'{}'")
    eventually(project.begun)
    worker.send(signal.SIGTERM)
    eventually(lambda: "A second signal stops at once" in worker.output)
    worker.send(signal.SIGTERM)
    assert worker.wait(SOON_S) == 128 + signal.SIGTERM
    assert project.rows("SELECT state, attempt FROM stampeded_jobs") == [("available", 0)]


@pytest.mark.pooled
def test_a_job_that_outlives_the_grace_period_is_handed_back_and_the_process_ends(project):
    worker = project.worker("--grace-period=0.2")
    project.enqueue("until_told", 1, "'{}'")
    eventually(project.begun)
    worker.send(signal.SIGTERM)
    assert worker.wait(SOON_S) == 0
    assert project.rows("SELECT state, attempt FROM stampeded_jobs") == [("available", 0)]


@pytest.mark.slow
@pytest.mark.parametrize("after_ms", [0, 100, 300, 600, 1000])
@pytest.mark.parametrize("database", ["there", "away"])
def test_a_signal_during_the_start_is_honoured(project, after_ms, database):
    """Case C60. Before Python handles signals, the default action ends the process: nothing has begun by then."""
    url = project.url if database == "there" else "postgres://postgres@127.0.0.1:9/nowhere"
    worker = project.manage("runstampeded", url=url)
    time.sleep(after_ms / 1000)
    worker.send(signal.SIGTERM)
    assert worker.wait(SOON_S) in (0, -signal.SIGTERM)
    assert "Traceback" not in worker.output
    assert project.value("SELECT count(*) FROM stampeded_workers") == 0


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_the_worker_may_be_process_1_of_a_container(project):
    """Case C62: the kernel drops signals that process 1 does not handle."""
    worker = project.manage("runstampeded", before=("unshare", "-pf", "--mount-proc", "--kill-child"))
    eventually(lambda: not worker.alive or project.value("SELECT count(*) FROM stampeded_workers"))
    if not worker.alive:
        pytest.skip(f"unshare is not allowed here: {worker.output}")
    assert project.supervised or project.value("SELECT pid FROM stampeded_workers") == 1
    project.enqueue("begin_and_end", 1, "jsonb_build_object('n', n, 'seconds', 1)")
    eventually(project.begun)
    with open(f"/proc/{worker.pid}/task/{worker.pid}/children") as children:
        (child,) = children.read().split()
    import os

    os.kill(int(child), signal.SIGTERM)
    assert worker.wait(SOON_S) == 0
    assert project.states() == {"completed": 1}


@pytest.mark.slow
def test_a_child_that_a_job_forks_ends_when_it_is_told_to(project):
    worker = project.worker()
    project.enqueue("fork_and_terminate", 1, "'{}'")
    eventually(lambda: project.states() == {"completed": 1})
    assert worker.alive
    project.enqueue("effect", 5)
    eventually(lambda: project.states() == {"completed": 6}, "the worker to live on with its connections")
    assert worker.stop() == 0


@pytest.mark.pooled
@pytest.mark.slow
def test_draining_runs_what_is_due_and_exits_with_0(project):
    project.enqueue("effect", 200)
    for flag in ("--drain", "--once"):
        assert project.manage("runstampeded", flag).wait() == 0
    assert project.states() == {"completed": 200}
    assert project.begun() == 200


@pytest.mark.pooled
@pytest.mark.slow
def test_maintenance_alone_ends_on_a_signal_and_runs_no_job(project):
    project.enqueue("effect", 1)
    upkeep = project.manage("runstampeded", "--no-worker")
    eventually(lambda: "has the maintenance alone and runs no jobs" in upkeep.output)
    assert upkeep.stop() == 0
    assert project.states() == {"available": 1}
