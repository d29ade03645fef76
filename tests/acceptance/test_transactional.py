"""Transactional jobs have their effects exactly once, however often their processes are killed.

TRANSACTIONAL_KILLS and TRANSACTIONAL_JOBS say how much of it; a long run has 200 and 5000.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator

import pytest

from tests.acceptance.project import Process, Project, eventually

KILLS = int(os.environ.get("TRANSACTIONAL_KILLS", "12"))
INCREMENTS = int(os.environ.get("TRANSACTIONAL_JOBS", "600"))
COUNTERS = 8
WORKERS = 2


@pytest.fixture
def counters(project: Project) -> Iterator[None]:
    project.rows("CREATE TABLE counters (id int PRIMARY KEY, value bigint NOT NULL DEFAULT 0)")
    project.rows(f"INSERT INTO counters (id) SELECT generate_series(1, {COUNTERS})")
    yield
    project.end()
    project.rows("DROP TABLE counters")


class Victims:
    """Workers that are killed while they run jobs, each replaced by another one."""

    def __init__(self, project: Project, dice: random.Random) -> None:
        self.project = project
        self.dice = dice
        self.workers = [self._start() for _ in range(WORKERS)]

    def _start(self) -> Process:
        return self.project.manage("runstampeded", "--processes=0", "--threads=4", DEAD_AFTER=2)

    def kill_one_at_work(self) -> None:
        running = (
            "SELECT count(*) FROM stampeded_jobs j JOIN stampeded_workers w ON w.id = j.claimed_by "
            "WHERE w.pid = %s AND j.state = 'executing'"
        )
        at_work = eventually(lambda: [each for each in self.workers if self.project.value(running, each.pid)], "one to work")
        victim = self.dice.choice(at_work)
        time.sleep(self.dice.uniform(0, 0.05))
        victim.popen.kill()
        victim.popen.wait()
        self.workers.remove(victim)
        self.workers.append(self._start())


@pytest.mark.pooled
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_counters_are_exact_though_the_processes_that_count_are_killed(project, counters, capsys):
    dice = random.Random(5)
    begin = time.monotonic()
    waits = [
        (dice.randint(1, COUNTERS), dice.choice([0.0, 0.02, 0.1]), dice.choice([0.0, 0.002, 0.02])) for _ in range(INCREMENTS)
    ]
    counter, before, after = map(list, zip(*waits, strict=True))
    project.rows(
        "INSERT INTO stampeded_jobs (queue, task, args, max_attempts, max_interruptions, backoff_base_ms, backoff_max_ms) "
        "SELECT 'default', 'tests.testapp.tasks.increment', jsonb_build_object('counter', c, 'before', b, 'after', a), "
        "1000, 1000, 10, 50 FROM unnest(%s::int[], %s::float8[], %s::float8[]) AS job (c, b, a)",
        counter,
        before,
        after,
    )
    victims = Victims(project, dice)
    done = "SELECT sum(value) FROM counters"
    for n in range(KILLS):
        eventually(lambda n=n: project.value(done) >= n * INCREMENTS // (KILLS + 2), "the counting to go on")
        victims.kill_one_at_work()
    eventually(lambda: project.states() == {"completed": INCREMENTS}, "every job to end", timeout=600)
    interrupted = project.rows("SELECT sum(interruptions), max(attempt) FROM stampeded_jobs")[0]
    with capsys.disabled():
        print(
            f"\n{INCREMENTS} increments in {time.monotonic() - begin:.0f} s, {KILLS} kills that interrupted {interrupted[0]} "
            f"attempts (one job up to {interrupted[1]}); the counters say {project.value(done)}"
        )
    assert project.value(done) == INCREMENTS
    expected = "SELECT (args ->> 'counter')::int, count(*) FROM stampeded_jobs GROUP BY 1 ORDER BY 1"
    assert project.rows("SELECT id, value FROM counters WHERE value > 0 ORDER BY id") == project.rows(expected)
    for worker in victims.workers:  # one that has only just been started would be ended by the signal itself
        eventually(lambda worker=worker: "takes jobs of" in worker.output, "the worker to have begun")
    assert [worker.stop() for worker in victims.workers] == [0] * WORKERS


@pytest.mark.slow
def test_jobs_in_processes_of_their_own_commit_with_their_work_too(project):
    ends = ("", "raise", "exit", "linger")
    for n, end in enumerate(ends, start=1):
        project.enqueue("whole_in_process", 1, f"jsonb_build_object('n', {n}, 'ending', '{end}')", ", max_attempts", ", 1")
    worker = project.worker("--threads=2", HEARTBEAT_INTERVAL=0.3)
    eventually(lambda: project.states() == {"completed": 2, "discarded": 2})
    ended = "SELECT (args ->> 'n')::int, state, attempt, failure_kind FROM stampeded_jobs ORDER BY 1"
    assert project.rows(ended) == [
        (1, "completed", 1, None),
        (2, "discarded", 1, "raised"),
        (3, "discarded", 1, "worker_exited"),
        (4, "completed", 1, None),
    ]
    assert project.rows("SELECT n FROM effects ORDER BY n") == [(1,), (4,)]
    eventually(lambda: project.value("SELECT count(*) FROM stampeded_workers") == 1)
    assert worker.stop() == 0
    assert "lease lost" not in worker.output
