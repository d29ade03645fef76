"""A destination that fails among healthy ones, before several worker processes: judged by the record of what started."""

from __future__ import annotations

import pytest

from tests.acceptance.project import Project, eventually

AILING = 400
"""Jobs of the destination that is away."""
HEALTHY = 600
PROBES_SEEN = 4


def enqueue(project: Project, task: str, count: int, destination: str, queue: str = "default") -> None:
    project.rows(
        "INSERT INTO stampeded_jobs (queue, task, args, destination, backoff_base_ms, backoff_max_ms) "
        f"SELECT %s, 'tests.testapp.tasks.{task}', jsonb_build_object('n', n), %s, 1, 1 FROM generate_series(1, %s) n",
        queue,
        destination,
        count,
    )


def completed(project: Project, task: str) -> int:
    return project.value("SELECT count(*) FROM stampeded_jobs WHERE state = 'completed' AND task LIKE %s", f"%.{task}")


def breaker(project: Project, column: str) -> object:
    return project.value(f"SELECT {column} FROM stampeded_breakers WHERE key = 'ailing'")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_failing_destination_gets_only_probes_while_healthy_ones_go_on_and_recovers_when_it_heals(project: Project) -> None:
    project.rows("INSERT INTO effects (n) VALUES (-1)")
    enqueue(project, "call_out", AILING, "ailing")
    for destination in ("fine", "well"):
        enqueue(project, "effect", HEALTHY // 2, destination)
    worker = project.worker("--processes=2", "--threads=4", "--no-maintenance")
    eventually(lambda: completed(project, "effect") == HEALTHY, "the healthy destinations' jobs", timeout=120)
    eventually(lambda: breaker(project, f"openings >= {PROBES_SEEN}"), "probes to fail", timeout=120)
    failed = project.value("SELECT sum(attempt) FROM stampeded_jobs WHERE task LIKE '%%.call_out'")
    assert failed < AILING / 2, "only what had started when it opened, and probes, may have failed"
    assert completed(project, "call_out") == 0

    project.rows("DELETE FROM effects WHERE n = -1")
    eventually(lambda: completed(project, "call_out") == AILING, "all jobs of the destination that healed", timeout=120)
    assert worker.stop() == 0
    assert breaker(project, "state") == "closed"
    assert project.states() == {"completed": AILING + HEALTHY}
    assert project.value("SELECT max(deferrals) FROM stampeded_jobs") <= 5
    spent = project.value("SELECT sum(attempt - 1) FROM stampeded_jobs")
    assert spent < AILING / 2, f"attempts are spent on failures alone, and few of those there are: {spent}"
