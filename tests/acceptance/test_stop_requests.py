"""An operator asks a worker to stop on its row: it ends its jobs and is not replaced, and the maintenance goes on."""

from __future__ import annotations

from tests.acceptance.project import Project, eventually

LIVE = "SELECT id FROM stampeded_workers ORDER BY started_at"


def ask_to_stop(project: Project, number: int = 0) -> None:
    """Ask the worker that was the first to start, or the next one, and so on."""
    assert project.value("SELECT stampeded_stop_worker(%s)", project.rows(LIVE)[number][0])


def test_a_worker_without_maintenance_ends_its_job_and_its_process(project: Project) -> None:
    project.enqueue("effect", 1, "jsonb_build_object('n', 1, 'seconds', 2)")
    worker = project.worker("--no-maintenance", "--threads=1")
    eventually(lambda: project.states() == {"executing": 1})
    project.enqueue("effect", 1)
    ask_to_stop(project)
    assert worker.wait() == 0
    assert project.states() == {"completed": 1, "available": 1}
    assert project.rows(LIVE) == []
    assert "asked to stop by an operator" in worker.output


def test_a_process_that_has_the_maintenance_goes_on_with_that(project: Project) -> None:
    worker = project.worker()
    ask_to_stop(project)
    eventually(lambda: project.rows(LIVE) == [])
    project.rows("DELETE FROM stampeded_samples")
    eventually(lambda: project.value("SELECT count(*) FROM stampeded_samples"), "maintenance to take a sample")
    project.enqueue("effect", 1)
    assert worker.alive and project.states() == {"available": 1}
    assert worker.stop() == 0


def test_a_supervisor_does_not_replace_a_worker_that_was_asked_to_stop(project: Project) -> None:
    worker = project.worker("--processes=2")
    eventually(lambda: project.value("SELECT count(*) FROM stampeded_workers") == 2)
    assert len(worker.children) == 2
    ask_to_stop(project, 1)  # the first to start has the maintenance
    eventually(lambda: project.value("SELECT count(*) FROM stampeded_workers") == 1)
    eventually(lambda: len(worker.children) == 1)
    ask_to_stop(project)  # that in the process with the maintenance
    eventually(lambda: project.rows(LIVE) == [])
    project.rows("DELETE FROM stampeded_samples")
    eventually(lambda: project.value("SELECT count(*) FROM stampeded_samples"), "maintenance to take a sample")
    assert len(worker.children) == 1 and "silent" not in worker.output
    assert worker.stop() == 0
