"""Everything works through PgBouncer in transaction mode, by polling."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from django_stampeded.testing.postgres import free_port
from tests.acceptance.project import eventually

POOLER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(POOLER is None, reason="needs pgbouncer")]


@pytest.fixture
def pooled(server) -> Iterator[str]:
    """The address of the database through a pooler with two server connections, which knows no prepared statements."""
    folder = Path(tempfile.mkdtemp(prefix="stampeded-pooler-", dir="/tmp"))
    port = free_port()
    (folder / "users.txt").write_text('"postgres" ""\n')
    (folder / "pooler.ini").write_text(
        f"""[databases]
acceptance = host=127.0.0.1 port={server.port} dbname=acceptance user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = 2
max_client_conn = 200
"""
    )
    command, drop = [str(POOLER), str(folder / "pooler.ini")], {}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        drop = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        for path in (folder, *folder.iterdir()):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", **drop)
    url = f"postgres://postgres@127.0.0.1:{port}/acceptance"

    def answers() -> bool:
        with psycopg.connect(url, prepare_threshold=None) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)

    try:
        eventually(answers, "the pooler to answer")
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)
        shutil.rmtree(folder, ignore_errors=True)


def test_jobs_run_through_a_pooler_that_pools_transactions(project, pooled):
    """Cases C21 and C72: no prepared statements, no LISTEN, and a cancellation that still arrives."""
    project.enqueue("effect", 300)
    workers = [project.manage("runstampeded", "--threads=4", url=pooled) for _ in range(2)]
    eventually(lambda: project.states() == {"completed": 300})
    assert project.rows("SELECT count(*), count(DISTINCT n) FROM effects") == [(300, 300)]
    polling = "SELECT count(*) FROM stampeded_workers WHERE metadata->>'notifications' = 'polling only'"
    eventually(lambda: project.value(polling) == 2)
    project.enqueue("effect", 10)
    eventually(lambda: project.states() == {"completed": 310})
    project.enqueue("until_told", 1, "'{}'")
    eventually(lambda: project.states().get("executing"))
    project.rows("SELECT stampeded_cancel(queue, id, 'enough') FROM stampeded_jobs WHERE state = 'executing'")
    eventually(lambda: any("was cancelled elsewhere" in worker.output for worker in workers))
    for worker in workers:
        assert "Polling only" in worker.output
        assert "prepared statement" not in worker.output
        assert "Traceback" not in worker.output
        assert worker.stop() == 0
    assert project.states() == {"completed": 310, "cancelled": 1}
