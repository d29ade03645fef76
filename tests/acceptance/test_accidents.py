"""Processes that are killed, servers that go away: no job is lost, and the worker carries on by itself."""

from __future__ import annotations

import signal
import time

import pytest

from tests.acceptance.project import eventually

pytestmark = pytest.mark.slow

WORK = "jsonb_build_object('n', n, 'seconds', 0.002)"


@pytest.mark.pooled
def test_jobs_of_a_killed_worker_are_taken_back_and_run(project):
    """Case C08's worse sibling: kill -9 under load."""
    project.enqueue("effect", 600, WORK, ", max_interruptions", ", 5")
    for _ in range(2):
        worker = project.worker("--threads=4", "--no-maintenance")
        seen = project.begun()
        eventually(lambda seen=seen: project.begun() >= seen + 60)
        worker.send(signal.SIGKILL)
        worker.wait()
    assert project.states().get("executing", 0) > 0
    project.worker("--threads=4", DEAD_AFTER=2)
    eventually(lambda: project.states() == {"completed": 600})
    assert project.value("SELECT count(DISTINCT n) FROM effects") == 600
    assert project.value("SELECT count(*) FROM stampeded_jobs WHERE attempt = 1") > 500


@pytest.mark.pooled
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_server_that_goes_away_under_load_is_waited_for(project, server, how):
    """Cases C67, C70 and C163: reconnecting for ever, and without a flood of lines."""
    project.enqueue("effect", 800, WORK)
    worker = project.worker("--threads=4")
    eventually(lambda: project.begun() >= 100)
    (server.stop if how == "stop" else server.kill)()
    time.sleep(3)
    assert worker.alive
    server.start()
    eventually(lambda: project.states() == {"completed": 800})
    assert project.value("SELECT count(DISTINCT n) FROM effects") == 800
    project.enqueue("effect", 10)
    eventually(lambda: project.states() == {"completed": 810})
    complaints = [line for line in worker.output.splitlines() if "database" in line.lower()]
    assert 0 < len(complaints) < 20, worker.output
    assert "Traceback" not in worker.output.replace("attempt", "")
    assert worker.stop() == 0


# A pooler lets a client wait while its server is away, so what a worker says meanwhile is of a direct connection.
@pytest.mark.direct
def test_a_worker_that_starts_before_its_server_waits_for_it(project, server):
    server.stop()
    try:
        worker = project.manage("runstampeded")
        eventually(lambda: "does not answer" in worker.output)
        assert worker.output.count("does not answer") == 1
    finally:
        server.start()
    project.enqueue("effect", 5)
    eventually(lambda: project.states() == {"completed": 5})
    assert worker.stop() == 0


@pytest.mark.direct
def test_stopping_while_the_server_is_away_takes_no_grace_period(project, server):
    worker = project.worker("--grace-period=600")
    server.stop()
    try:
        eventually(lambda: "does not answer" in worker.output)
        worker.send(signal.SIGTERM)
        assert worker.wait(20) == 0
    finally:
        server.start()


@pytest.mark.pooled
def test_outcomes_survive_an_outage_that_begins_while_jobs_run(project, server):
    """The acker keeps what it could not record, and no job runs twice for it."""
    worker = project.worker("--threads=4")
    project.enqueue("sleep", 4, "'{\"seconds\": 2}'")
    eventually(lambda: project.states() == {"executing": 4})
    server.stop()
    time.sleep(3)
    server.start()
    eventually(lambda: project.states() == {"completed": 4})
    assert project.value("SELECT max(attempt) FROM stampeded_jobs") == 1
    assert worker.alive


def test_a_process_that_a_job_ends_costs_no_other_job(project):
    project.enqueue("exit_process", 1, "'{\"status\": 3}'", ", max_interruptions", ", 0")
    worker = project.worker("--threads=1")
    assert worker.wait() == 3
    project.enqueue("effect", 20)
    project.worker(DEAD_AFTER=2)
    eventually(lambda: project.states() == {"completed": 20, "discarded": 1})
    assert project.value("SELECT failure_kind FROM stampeded_jobs WHERE state = 'discarded'") == "worker_missing"


@pytest.mark.pooled
def test_a_worker_that_was_suspended_goes_on_as_another_one(project):
    """Cases C15 and C137: SIGSTOP for longer than it takes to be dead."""
    worker = project.worker("--no-maintenance", "--threads=2")
    project.enqueue("until_told", 1, "'{\"limit\": 20}'", ", backoff_base_ms, backoff_max_ms", ", 1, 1")
    eventually(project.begun)
    worker.send(signal.SIGSTOP)
    project.worker("--threads=2", DEAD_AFTER=2)
    eventually(lambda: project.value("SELECT attempt FROM stampeded_jobs") == 2)
    project.rows("DELETE FROM stampeded_workers WHERE last_heartbeat < now() - interval '2 s'")
    worker.send(signal.SIGCONT)
    eventually(lambda: "goes on as" in worker.output)
    eventually(lambda: "lease lost" in worker.output)
    assert project.rows("SELECT state, attempt FROM stampeded_jobs") == [("executing", 2)]
    project.rows("UPDATE stampeded_jobs SET state = 'cancelled' WHERE state = 'executing'")
    project.enqueue("effect", 20)
    eventually(lambda: project.states().get("completed") == 20)
    assert worker.stop() == 0


@pytest.mark.direct
def test_connections_stay_few_and_go_away_when_there_is_no_work(project):
    """Case C130: leaking connections."""
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND backend_type = 'client backend' AND application_name <> 'onlooker'"
    )
    worker = project.worker("--threads=4")
    project.enqueue("backends", 1500)
    project.enqueue("async_effect", 100)
    most = 0
    while project.states().get("completed", 0) < 1600:
        most = max(most, project.value(others))
    assert most <= 4 + 5, "one for each thread, and claimer, acker, listener, heartbeat, maintenance"
    eventually(lambda: project.value(others) <= 5, "idle threads to close their connections")
    assert worker.stop() == 0
    eventually(lambda: project.value(others) == 0)
