"""Jobs in a process of their own: it can be killed, and its death costs only its job."""

from __future__ import annotations

import os
import signal

import pytest

from tests.acceptance.project import eventually

pytestmark = pytest.mark.slow


def ended(project, *states):
    eventually(lambda: sum(project.states().values()) == sum(project.states().get(state, 0) for state in states))


@pytest.mark.pooled
def test_isolated_jobs_share_a_process_and_fail_like_others(project):
    worker = project.worker("--threads=1")
    project.enqueue(
        "isolated", 3, """jsonb_build_object('n', n, 'end', (ARRAY['checkpoint', 'raise', ''])[n])""", ", max_attempts", ", 1"
    )
    ended(project, "completed", "discarded")
    assert project.states() == {"completed": 2, "discarded": 1}
    failed = project.rows(
        "SELECT failure_kind, last_error LIKE 'ValueError: number 2%%' FROM stampeded_jobs WHERE state = 'discarded'"
    )
    assert failed == [("raised", True)]
    pids = [pid for (pid,) in project.rows("SELECT DISTINCT n FROM effects")]
    assert len(pids) == 1
    assert pids != [worker.pid]
    assert worker.stop() == 0
    eventually(lambda: not os.path.exists(f"/proc/{pids[0]}"), "its process to end with the worker")


def test_an_isolated_job_is_killed_at_its_timeout_and_others_go_on(project):
    worker = project.worker()
    project.enqueue("block_in_process", 1, "jsonb_build_object('seconds', 600)", ", max_attempts", ", 1")
    project.enqueue("effect", 20)
    ended(project, "completed", "discarded")
    assert project.rows("SELECT failure_kind FROM stampeded_jobs WHERE state = 'discarded'") == [("timed_out",)]
    assert worker.stop() == 0


def test_an_isolated_job_that_crashes_costs_only_itself(project):
    worker = project.worker()
    project.enqueue("isolated", 1, "jsonb_build_object('n', 9, 'end', 'exit')", ", max_interruptions", ", 0")
    project.enqueue("isolated", 3)
    ended(project, "completed", "discarded")
    crashed = project.rows("SELECT failure_kind, errors -> -1 ->> 'exit_status' FROM stampeded_jobs WHERE state = 'discarded'")
    assert crashed == [("worker_exited", "9")]
    assert project.rows("SELECT count(DISTINCT attempted_by) FROM stampeded_jobs") == [(1,)], "the worker lives"
    assert worker.stop() == 0


def test_arguments_that_python_cannot_read_discard_an_isolated_job(project):
    worker = project.worker()
    project.enqueue("isolated", 1, "jsonb_build_object('n', repeat('9', 5000)::numeric)")
    project.enqueue("isolated", 1, "jsonb_build_object('n', (repeat('[', 5000) || repeat(']', 5000))::jsonb)")
    project.enqueue("isolated", 2)
    ended(project, "completed", "discarded")
    assert project.states() == {"completed": 2, "discarded": 2}
    assert project.rows("SELECT DISTINCT attempt, failure_kind FROM stampeded_jobs WHERE state = 'discarded'") == [
        (1, "unrecoverable")
    ]
    assert worker.stop() == 0


@pytest.mark.pooled
def test_an_isolated_job_is_killed_when_it_is_cancelled(project):
    worker = project.worker(HEARTBEAT_INTERVAL=90)
    project.enqueue("isolated", 1, "jsonb_build_object('n', 600, 'end', 'wait')")
    eventually(project.begun)
    pid = project.value("SELECT n FROM effects")
    project.rows("SELECT stampeded_cancel(queue, id) FROM stampeded_jobs")
    eventually(lambda: not os.path.exists(f"/proc/{pid}"), "its process to be gone")
    assert project.states() == {"cancelled": 1}
    assert worker.stop() == 0


def test_an_isolated_job_ends_when_its_worker_is_killed(project):
    worker = project.worker("--processes=0")
    project.enqueue("isolated", 1, "jsonb_build_object('n', 600, 'end', 'wait')")
    eventually(project.begun)
    pid = project.value("SELECT n FROM effects")
    worker.send(signal.SIGKILL)
    worker.wait()
    eventually(lambda: not os.path.exists(f"/proc/{pid}"), "its process to be gone")


def test_a_process_with_a_thread_lost_to_a_job_is_replaced(project):
    worker = project.worker("--processes=1", "--threads=2")
    project.enqueue("block_in_thread", 1, "jsonb_build_object('seconds', 300)", ", max_attempts", ", 1")
    eventually(lambda: project.states() == {"discarded": 1})
    assert "usleep" in project.value("SELECT last_error FROM stampeded_jobs")
    eventually(lambda: worker.output.count("takes jobs of") == 2, "a successor")
    eventually(lambda: " ended." in worker.output, "the old one to end")
    project.enqueue("effect", 10)
    eventually(lambda: project.states() == {"discarded": 1, "completed": 10})
    assert worker.stop() == 0
