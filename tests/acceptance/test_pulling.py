"""A plain Python program pulls jobs beside a worker, and each job is run once."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter

import pytest

from tests.acceptance.project import Process, Project, eventually

pytestmark = pytest.mark.slow
JOBS = int(os.environ.get("STAMPEDED_PULLED_JOBS", "3000"))
"""10000 is a fair test of some twenty seconds."""


def program(project: Project, name: str) -> Process:
    """The program, registered."""
    before = project.value("SELECT count(*) FROM stampeded_workers")
    process = Process([sys.executable, "-m", f"tests.acceptance.{name}"], project.env(), project.folder / f"{name}.log")
    project.processes.append(process)
    registered = "SELECT count(*) FROM stampeded_workers"
    eventually(lambda: not process.alive or project.value(registered) > before, "the program to register")
    assert process.alive, process.output
    return process


def test_each_job_is_run_once_by_a_worker_or_a_program_that_pulls(project: Project) -> None:
    pulling, worker = program(project, "pulling_program"), project.worker("--no-maintenance")
    project.enqueue("effect", JOBS)
    eventually(lambda: project.states() == {"completed": JOBS}, "all jobs to be completed", timeout=240)
    assert worker.stop() == 0 and pulling.stop() == 0, pulling.output
    pulled = json.loads(pulling.output.splitlines()[-1])
    ran = Counter(pulled) + Counter(dict(project.rows("SELECT n, count(*) FROM effects GROUP BY n")))
    assert set(ran.values()) == {1} and len(ran) == JOBS
    assert 0 < len(pulled) < JOBS
    assert project.value("SELECT max(attempt) FROM stampeded_jobs") == 1
    assert project.value("SELECT count(*) FROM stampeded_workers") == 0


def test_a_program_that_ends_without_closing_hands_its_jobs_back(project: Project) -> None:
    project.enqueue("noop", 3)
    code = (
        "import django; django.setup()\n"
        "from django_stampeded import Puller\n"
        "puller = Puller('default', max_leases=2); lease = puller.next(60); other = puller.next(60)\n"
        "lease.complete()\n"
    )
    process = Process([sys.executable, "-c", code], project.env(), project.folder / "ends.log")
    project.processes.append(process)
    assert process.wait() == 0, process.output
    assert project.rows("SELECT state, attempt, failure_kind FROM stampeded_jobs ORDER BY id") == [
        ("completed", 1, None),
        ("retryable", 1, "worker_exited"),
        ("available", 0, None),
    ]
    assert project.value("SELECT count(*) FROM stampeded_workers") == 0
