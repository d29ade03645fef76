"""What makes development and the first start easy: migrating, reloading, the worker inside of runserver."""

from __future__ import annotations

import os
import signal

import pytest

from tests.acceptance.project import Project, eventually

pytestmark = pytest.mark.slow


def test_workers_that_migrate_an_empty_database_at_once_take_turns(project, tmp_path):
    """Case C144."""
    project.rows("DROP DATABASE IF EXISTS fresh")
    project.rows("CREATE DATABASE fresh")
    fresh = Project(project.url.rpartition("/")[0] + "/fresh", tmp_path)
    try:
        workers = [fresh.manage("runstampeded", "--migrate", "--processes=1") for _ in range(2)]
        eventually(lambda: all("takes jobs of" in worker.output for worker in workers))
        assert [worker.stop() for worker in workers] == [0, 0]
        assert not any("Traceback" in worker.output for worker in workers)
    finally:
        fresh.end()


def test_migrating_waits_for_a_server_and_obeys_a_signal(project):
    worker = project.manage("runstampeded", "--migrate", url="postgres://postgres@127.0.0.1:9/nowhere")
    eventually(lambda: "does not answer the migration" in worker.output)
    assert worker.stop() == 0
    assert "Traceback" not in worker.output


def test_changed_code_is_run_by_new_processes(project, tmp_path):
    source = tmp_path / "changing.py"
    source.write_text("import os\nfrom tests.settings import *\nREDO = 1\n")
    worker = project.manage(
        "runstampeded", "--reload", "--processes=1", "--settings=changing", f"--pythonpath={tmp_path}", "--verbosity=1"
    )
    eventually(lambda: "takes jobs of" in worker.output)
    source.write_text("import os\nfrom tests.settings import *\nREDO = 22\n")
    eventually(lambda: "changed: starting the worker processes anew" in worker.output)
    eventually(lambda: worker.output.count("takes jobs of") == 2 and " ended." in worker.output)
    project.enqueue("effect", 5)
    eventually(lambda: project.states() == {"completed": 5})
    assert worker.stop() == 0


@pytest.mark.parametrize("flags", [["--noreload"], []])
def test_runserver_runs_jobs_too_where_that_is_wanted(project, tmp_path, flags):
    (tmp_path / "inline_settings.py").write_text(
        "from tests.settings import *\nDEBUG = True\nSTAMPEDED = {**STAMPEDED, 'INLINE_WORKER': True}\n"
    )
    port = 8000 + len(flags) + 431
    server = project.manage("runserver", str(port), *flags, "--settings=inline_settings", f"--pythonpath={tmp_path}")
    project.enqueue("effect", 5)
    eventually(lambda: project.states() == {"completed": 5})
    assert project.value("SELECT count(*) FROM stampeded_workers") == 1
    for pid in (*server.children, server.pid):  # as a terminal does
        os.kill(pid, signal.SIGINT)
    server.wait()
    eventually(lambda: project.value("SELECT count(*) FROM stampeded_workers") == 0)


def test_reloading_without_a_process_to_reload_is_one_sentence(project):
    worker = project.manage("runstampeded", "--reload", "--processes=0")
    assert worker.wait() == 1
    assert "--reload needs a process" in worker.output
    assert "Traceback" not in worker.output
