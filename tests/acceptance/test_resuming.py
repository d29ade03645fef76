"""Long jobs whose processes are killed go on where they were, and others see how far they are."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress

import pytest

from tests.acceptance.project import Process, Project, eventually

KILLS = int(os.environ.get("RESUME_KILLS", "3"))
"""How often the import is killed. RESUME_KILLS=200 takes a quarter of an hour."""
A_WORKER = 3
"""So many children of a supervisor are killed; the next ones would be replaced later and later."""
ROWS = 10_000
SEED = int(os.environ.get("RESUME_SEED", "0")) or random.randrange(1 << 32)

pytestmark = pytest.mark.slow


def start(project: Project, task: str, args: str = "'{}'") -> None:
    project.rows(
        "INSERT INTO stampeded_jobs (queue, task, args, max_attempts, max_interruptions) "
        f"SELECT 'default', 'tests.testapp.long_jobs.{task}', {args}, 30000, 30000"
    )


def imported(project: Project) -> int:
    return project.value("SELECT count(*) FROM effects")


@pytest.mark.timeout(3600)
def test_an_import_that_is_killed_at_random_resumes_at_its_cursor_and_each_row_is_there_once(project: Project) -> None:
    draw = random.Random(SEED)
    chunk = max(1, min(100, ROWS // (KILLS * 10)))
    start(project, "import_rows", f"jsonb_build_object('rows', {ROWS}, 'chunk', {chunk}, 'seconds', 0.02)")
    worker = project.worker("--threads=1", "--processes=1", DEAD_AFTER=2)
    killed = 0
    for kill in range(1, KILLS + 1):
        upto = (kill - 1) * ROWS // (KILLS + 1) + draw.randrange(1, ROWS // (KILLS + 1))
        eventually(lambda upto=upto: imported(project) >= upto, f"row {upto} (seed {SEED})")
        time.sleep(draw.random() * 0.02)
        killed += kill_child(worker)
        if kill % A_WORKER == 0 and kill < KILLS:
            worker.end()
            worker = project.worker("--threads=1", "--processes=1", DEAD_AFTER=2)
    eventually(lambda: project.states() == {"completed": 1}, f"the end of the import (seed {SEED})", timeout=600)
    assert killed == KILLS
    assert project.rows("SELECT count(*), count(DISTINCT n), min(n), max(n) FROM effects") == [(ROWS, ROWS, 1, ROWS)]
    # Each attempt began where the one before it had ended.
    spans = project.rows("SELECT min(n), max(n) FROM effects GROUP BY attempt ORDER BY 1")
    assert [first for first, _ in spans] == [1, *(last + 1 for _, last in spans[:-1])]
    assert worker.stop() == 0
    assert project.rows("SELECT done, total, message FROM stampeded_progress") == [(ROWS, ROWS, "importing")]


def kill_child(worker: Process) -> bool:
    """Kill the worker process that the supervisor has started, and wait until it is gone."""
    (pid,) = eventually(lambda: worker.children, "a child")
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: pid not in worker.children, "the end of the child")
        return True
    return False


def test_a_job_in_a_process_of_its_own_has_steps_and_progress_too(project: Project) -> None:
    project.worker()
    start(project, "reports_from_a_process")
    seen = "SELECT done, total, message FROM stampeded_progress"
    eventually(lambda: project.rows(seen) == [(1, 3, "first")], "its progress")
    assert project.value("SELECT checkpoint FROM stampeded_jobs") == {
        "stampeded_steps": {"charge": {"done": True, "result": 1}}
    }
    project.rows("INSERT INTO effects (n) VALUES (99)")
    eventually(lambda: project.states() == {"completed": 1})
    eventually(lambda: project.rows(seen) == [(3, 3, "last")], "its last word")
