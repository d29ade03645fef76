"""A worker that has run many jobs is no larger than one that has run a few."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.acceptance.project import Process, Project, eventually

ROUNDS = 6
THREADS = 8
OF_OURS = 5  # claimer, acker, heartbeat, listener, maintenance
JOBS = int(os.environ.get("SOAK_JOBS", "24000")) // ROUNDS
"""Jobs in each round. SOAK_JOBS=200000 takes as long as those jobs take."""
MIXED = (
    ("noop", "jsonb_build_object('n', n)", 0.7),
    ("effect", "jsonb_build_object('n', n)", 0.15),  # opens a connection of Django's
    ("async_noop", "jsonb_build_object('n', n)", 0.1),
    ("fail", "jsonb_build_object('text', 'failed ' || n)", 0.05),
)


class Size:
    """What a process takes from its machine and its server."""

    def __init__(self, project: Project, process: Process) -> None:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
        self.resident_kib = int(status["VmRSS"].split()[0])
        self.threads = int(status["Threads"])
        self.files = len(os.listdir(f"/proc/{process.pid}/fd"))
        self.connections = project.value(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    def __repr__(self) -> str:
        return f"{self.resident_kib} KiB, {self.threads} threads, {self.files} files, {self.connections} connections"


@pytest.mark.slow
@pytest.mark.direct
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="sizes of processes are read from /proc")
@pytest.mark.timeout(3600)
def test_a_worker_does_not_grow_with_the_jobs_it_has_run(project: Project) -> None:
    worker = project.worker(f"--threads={THREADS}")
    sizes = []
    for _ in range(ROUNDS):
        for task, args, share in MIXED:
            columns, values = (", max_attempts", ", 1") if task == "fail" else ("", "")
            project.enqueue(task, int(JOBS * share), args, columns, values)
        eventually(
            lambda: set(project.states()) <= {"completed", "discarded"}, "the round's jobs to be final", timeout=60 + JOBS / 50
        )
        sizes.append(Size(project, worker))
        project.rows("SELECT stampeded_prune('0 s', 1000000, '0 s')")
    warm, last = sizes[1], sizes[-1]
    print(f"\n{ROUNDS * JOBS} jobs: " + "; ".join(map(repr, sizes)))
    assert last.resident_kib - warm.resident_kib < 20 * 1024
    assert last.threads <= warm.threads
    # Idle threads close their connections, so how many there are depends on the moment; the bound doesn't.
    assert last.connections <= THREADS + OF_OURS
    assert last.files - last.connections <= warm.files - warm.connections + 2
    assert worker.stop() == 0
