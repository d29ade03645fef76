"""A PgBouncer in transaction mode in front of a server, where that program is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from django_stampeded.testing.postgres import free_port
from tests.acceptance.project import eventually

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextmanager
def pooling(url: str, size: int) -> Iterator[str]:
    """The address of the database at `url` through a pooler with `size` server connections."""
    target = psycopg.conninfo.conninfo_to_dict(url)
    folder = Path(tempfile.mkdtemp(prefix="stampeded-pooler-", dir="/tmp"))
    port = free_port()
    (folder / "users.txt").write_text('"postgres" ""\n')
    (folder / "pooler.ini").write_text(
        f"""[databases]
{target["dbname"]} = host=127.0.0.1 port={target["port"]} dbname={target["dbname"]} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 200
server_login_retry = 1
"""
    )
    command, drop = [str(PROGRAM), str(folder / "pooler.ini")], {}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        drop = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        for path in (folder, *folder.iterdir()):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", **drop)
    pooled = f"postgres://postgres@127.0.0.1:{port}/{target['dbname']}"

    def answers() -> bool:
        with psycopg.connect(pooled, prepare_threshold=None) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)

    try:
        eventually(answers, "the pooler to answer")
        yield pooled
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)
        shutil.rmtree(folder, ignore_errors=True)
