"""Children that crash, are killed or replaced, and a parent that dies: only what had really started is charged."""

from __future__ import annotations

import os
import signal

import pytest

from tests.acceptance.project import Project, eventually

SOON_S = 20.0


def test_a_job_that_segfaults_among_a_thousand_is_the_only_one_charged(project):
    """Case C08's cure for prefetch: what was claimed and not started is released, what had ended is recorded."""
    project.enqueue("effect", 500)
    project.enqueue("segfault", 1, "'{}'", ", dead_letter_queue, backoff_base_ms", ", 'dead', 1")
    project.enqueue("effect", 500, "jsonb_build_object('n', 500 + n)")
    worker = project.worker("--processes=1", "--threads=1", "--queue=default")
    eventually(lambda: project.states() == {"completed": 1000, "discarded": 1, "available": 1})
    crashed = project.rows(
        "SELECT state, interruptions, failure_kind, jsonb_path_query_array(errors, '$[*].exit_status')::text"
        " FROM stampeded_jobs WHERE task LIKE '%%segfault' AND queue = 'default'"
    )
    assert crashed == [("discarded", 2, "worker_exited", "[139, 139]")]
    assert project.rows(
        "SELECT DISTINCT attempt, interruptions, errors::text FROM stampeded_jobs WHERE state = 'completed'"
    ) == [(1, 0, "[]")]
    assert project.value("SELECT count(*) FROM stampeded_jobs WHERE queue = 'dead'") == 1
    assert project.rows("SELECT count(*), count(DISTINCT n) FROM effects WHERE n > 0") == [(1000, 1000)]
    assert worker.stop() == 0
    assert "was ended by signal 11 (SIGSEGV)" in worker.output
    assert project.value("SELECT count(*) FROM stampeded_workers") == 0


@pytest.mark.pooled
@pytest.mark.slow
def test_a_job_that_exits_its_process_is_charged_with_the_status(project):
    project.enqueue("exit_process", 1, "jsonb_build_object('status', 7)")
    worker = project.worker("--processes=1")
    eventually(lambda: project.states() == {"discarded": 1})
    assert project.rows("SELECT failure_kind, errors -> -1 ->> 'exit_status' FROM stampeded_jobs") == [("worker_exited", "7")]
    assert worker.stop() == 0


@pytest.mark.pooled
@pytest.mark.slow
def test_children_killed_under_load_lose_nothing_and_are_replaced(project):
    project.enqueue("effect", 800, "jsonb_build_object('n', n, 'seconds', 0.002)", ", max_interruptions", ", 20")
    worker = project.worker("--processes=2", "--threads=2")
    for _ in range(3):
        seen = project.begun()
        eventually(lambda seen=seen: project.begun() >= seen + 50)
        os.kill(eventually(lambda: worker.children)[0], signal.SIGKILL)
    eventually(lambda: project.states() == {"completed": 800})
    assert project.value("SELECT count(DISTINCT n) FROM effects") == 800
    charged = project.value("SELECT count(*) FROM stampeded_jobs WHERE errors <> '[]'")
    assert charged <= 3 * 2
    twice = project.value("SELECT count(*) FROM (SELECT job FROM effects GROUP BY job HAVING count(*) > 1) AS again")
    assert twice <= charged
    assert worker.stop() == 0


@pytest.mark.pooled
def test_children_whose_parent_is_killed_end_in_order_by_themselves(project):
    worker = project.worker("--processes=2", "--threads=2")
    eventually(lambda: project.value("SELECT count(*) FROM stampeded_workers") == 2)
    project.enqueue("begin_and_end", 4, "jsonb_build_object('n', n, 'seconds', 1)")
    eventually(lambda: project.begun() == 4)
    children = worker.children
    worker.send(signal.SIGKILL)
    worker.wait()
    eventually(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in children))
    assert project.states() == {"completed": 4}
    assert project.value("SELECT count(*) FROM stampeded_workers") == 0


@pytest.mark.slow
def test_the_second_signal_to_the_parent_ends_the_children_at_once(project):
    worker = project.worker("--processes=2", "--grace-period=600")
    project.enqueue("until_told", 2, "'{}'")
    eventually(lambda: project.begun() == 2)
    worker.send(signal.SIGTERM)
    eventually(lambda: "A second signal stops at once" in worker.output)
    worker.send(signal.SIGTERM)
    assert worker.wait(SOON_S) == 128 + signal.SIGTERM
    assert project.rows("SELECT DISTINCT state, attempt FROM stampeded_jobs") == [("available", 0)]


@pytest.mark.slow
def test_a_signal_to_every_process_is_one_orderly_end(project):
    """As a service manager or a terminal sends it, before the parent passes it on."""
    worker = project.worker("--processes=2")
    project.enqueue("begin_and_end", 2, "jsonb_build_object('n', n, 'seconds', 1)")
    eventually(lambda: project.begun() == 2)
    for pid in (worker.pid, *worker.children):
        os.kill(pid, signal.SIGTERM)
    assert worker.wait(SOON_S) == 0
    assert project.states() == {"completed": 2}


@pytest.mark.slow
def test_processes_that_have_run_their_share_are_replaced_without_loss(project):
    """Case C161."""
    project.enqueue("effect", 2000)
    worker = project.worker("--processes=1", "--threads=4", "--max-jobs=300")
    eventually(lambda: project.states() == {"completed": 2000})
    assert project.rows("SELECT count(*), count(DISTINCT n), max(attempt) FROM effects") == [(2000, 2000, 1)]
    by_worker = project.rows("SELECT count(*) FROM stampeded_jobs GROUP BY attempted_by[1]")
    assert len(by_worker) >= 7
    assert max(count for (count,) in by_worker) <= 300
    assert worker.stop() == 0
    assert "worker_exited" not in worker.output


@pytest.mark.slow
def test_children_that_keep_dying_are_replaced_later_and_later_and_it_shows(project):
    project.enqueue("exit_process", 1, "jsonb_build_object('status', 9)", ", max_interruptions, backoff_base_ms", ", 100, 1")
    worker = project.worker("--processes=1")
    eventually(lambda: "Children keep dying" in worker.output)
    eventually(lambda: project.rows("SELECT 1 FROM stampeded_workers WHERE metadata ->> 'children' = 'keep dying'"))
    assert worker.stop() == 0
    assert project.value("SELECT count(*) FROM stampeded_workers") == 0


@pytest.mark.slow
def test_processes_that_grow_are_replaced_without_loss(project):
    project.enqueue("hoard", 30)
    worker = project.worker("--processes=1", "--threads=1", "--max-rss=250")
    eventually(lambda: project.states() == {"completed": 30})
    assert project.rows("SELECT count(*), count(DISTINCT n), max(attempt) FROM effects") == [(30, 30, 1)]
    eventually(lambda: "250 are allowed" in worker.output, "it to be noticed")
    eventually(lambda: worker.output.count("takes jobs of") > 1, "a successor")
    assert worker.stop() == 0


@pytest.mark.direct
@pytest.mark.slow
def test_a_job_that_was_started_when_the_server_was_away_too_is_settled_when_it_is_back(project, server):
    """The child dies while nobody can be told: its parent tells it later, and starts another one meanwhile.

    A pooler lets a client wait for minutes while its server is away, so what is said meanwhile is of a direct connection.
    """
    worker = project.worker("--processes=1")
    project.enqueue("until_told", 1, "'{}'")
    eventually(project.begun)
    server.stop()
    try:
        os.kill(worker.children[0], signal.SIGKILL)
        eventually(lambda: "does not answer the supervisor" in worker.output)
    finally:
        server.start()
    eventually(lambda: project.value("SELECT interruptions FROM stampeded_jobs") == 1)
    assert project.value("SELECT failure_kind FROM stampeded_jobs") == "worker_exited"
    assert worker.output.count("does not answer the supervisor") == 1


@pytest.mark.slow
def test_a_database_that_will_not_do_is_one_sentence_of_the_children_and_ends_the_parent(project, tmp_path):
    project.rows("DROP DATABASE IF EXISTS bare")
    project.rows("CREATE DATABASE bare")
    bare = Project(project.url.rpartition("/")[0] + "/bare", tmp_path)
    try:
        worker = bare.manage("runstampeded", "--processes=3", "--verbosity=0")
        assert worker.wait() == 1
        assert worker.output.count("manage.py migrate stampeded") == 1
        assert "Traceback" not in worker.output
        assert "keep dying" not in worker.output
    finally:
        bare.end()


@pytest.mark.slow
def test_children_that_drain_end_and_are_not_replaced_unless_they_died(project):
    project.enqueue("effect", 100, "jsonb_build_object('n', n, 'seconds', 0.01)")
    project.enqueue("exit_process", 1, "jsonb_build_object('status', 5)", ", backoff_base_ms", ", 1")
    worker = project.manage("runstampeded", "--drain", "--processes=2", "--threads=1")
    assert worker.wait() == 0
    assert project.states().get("completed") == 100, worker.output
    assert project.value("SELECT count(*) FROM stampeded_workers") == 0


@pytest.mark.slow
def test_a_child_that_gets_a_signal_itself_ends_in_order_and_is_replaced(project):
    worker = project.worker("--processes=1")
    project.enqueue("begin_and_end", 1, "jsonb_build_object('n', n, 'seconds', 1)")
    eventually(project.begun)
    os.kill(worker.children[0], signal.SIGTERM)
    eventually(lambda: worker.output.count("takes jobs of") == 2, "another child")
    assert project.states() == {"completed": 1}
    assert worker.stop() == 0


@pytest.mark.slow
def test_a_child_that_does_not_end_is_killed_and_its_job_taken_back(project):
    """A job that never lets go of the interpreter: no thread of its process can do anything about it."""
    worker = project.worker("--processes=1", "--grace-period=1")
    project.enqueue("hog_for_ever", 1, "'{}'")
    eventually(project.begun)
    worker.send(signal.SIGTERM)
    assert worker.wait(90) == 0
    assert "did not end in time and are killed" in worker.output
    assert project.rows("SELECT state, failure_kind, interruptions FROM stampeded_jobs") == [("retryable", "worker_exited", 1)]


@pytest.mark.slow
def test_a_job_that_lets_no_thread_of_its_process_run_is_not_taken_for_abandoned(project):
    """Case C17: the supervisor beats for its child meanwhile."""
    project.manage("runstampeded", "--no-worker", DEAD_AFTER=3)
    worker = project.worker("--processes=1", "--no-maintenance", DEAD_AFTER=3)
    project.enqueue("hog_at_once", 1, "jsonb_build_object('seconds', 9)")
    eventually(lambda: project.states() == {"completed": 1})
    assert project.rows("SELECT attempt, errors::text FROM stampeded_jobs") == [(1, "[]")]
    assert project.begun() == 1
    assert "The supervisor beats for it" in worker.output
    assert worker.stop() == 0
