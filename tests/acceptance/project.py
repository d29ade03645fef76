"""A project on a server of its own: real processes, started by `manage.py`, and what the database says of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 60.0


def eventually(condition: Callable[[], Any], what: str = "", timeout: float = DEADLINE_S) -> Any:
    """Wait until `condition` is true and return what it returned; a database that is away makes it false."""
    until = time.monotonic() + timeout
    while True:
        try:
            found = condition()
        except psycopg.OperationalError:
            found = None
        if found:
            return found
        if time.monotonic() > until:
            raise AssertionError(f"{what or condition} did not come true within {timeout:g} s")
        time.sleep(0.02)


class Process:
    """A process of `manage.py`. Its output is kept in a file, so that no pipe ever holds it up."""

    def __init__(self, command: list[str], env: Mapping[str, str], log: Path) -> None:
        self.log = log
        with open(log, "ab") as out:
            self.popen = subprocess.Popen(command, env=dict(env), cwd=ROOT, stdout=out, stderr=out, stdin=subprocess.DEVNULL)

    @property
    def pid(self) -> int:
        return self.popen.pid

    def send(self, number: int) -> None:
        self.popen.send_signal(number)

    def wait(self, timeout: float = DEADLINE_S) -> int:
        """The exit status."""
        return self.popen.wait(timeout)

    def stop(self) -> int:
        """SIGTERM, then the exit status."""
        self.send(signal.SIGTERM)
        return self.wait()

    @property
    def alive(self) -> bool:
        return self.popen.poll() is None

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def children(self) -> list[int]:
        """The process ids of its children."""
        try:
            return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]
        except OSError:
            return []

    def end(self) -> None:
        """Leave nothing running, whatever the test did."""
        if self.alive:
            children = self.children
            self.popen.kill()
            self.popen.wait()
            for pid in children:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


class Project:
    """The project, its database and its processes."""

    def __init__(self, url: str, folder: Path, through: str | None = None) -> None:
        self.url = url
        """Where these tests look."""
        self.through = through or url
        """Where the processes connect to."""
        self.folder = folder
        self.processes: list[Process] = []
        self.supervised = 0
        """How many children a worker has unless it is told; 0 for one that has no supervisor."""

    def env(self, url: str | None = None, **stampeded: Any) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))},
            "DATABASE_URL": url or self.through,
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "TEST_STAMPEDED": json.dumps(
                {"PROCESSES": self.supervised, "POLL_INTERVAL": 0.2, "HEARTBEAT_INTERVAL": 0.5, **stampeded}
            ),
            "PYTHONUNBUFFERED": "1",
        }

    def manage(self, *arguments: str, url: str | None = None, before: tuple[str, ...] = (), **stampeded: Any) -> Process:
        """Start `manage.py` with these arguments; `before` goes before the interpreter on the command line."""
        log = self.folder / f"{len(self.processes)}.log"
        command = [*before, sys.executable, "manage.py", *arguments]
        self.processes.append(Process(command, self.env(url, **stampeded), log))
        return self.processes[-1]

    def worker(self, *arguments: str, **stampeded: Any) -> Process:
        """A worker that has registered."""
        before = self.value("SELECT count(*) FROM stampeded_workers")
        process = self.manage("runstampeded", *arguments, **stampeded)
        eventually(
            lambda: not process.alive or self.value("SELECT count(*) FROM stampeded_workers") > before, "the worker to register"
        )
        assert process.alive, process.output
        return process

    def rows(self, sql: str, *params: Any) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True, application_name="onlooker") as connection:
            cur = connection.execute(sql, params or None)
            return cur.fetchall() if cur.description else []

    def value(self, sql: str, *params: Any) -> Any:
        return self.rows(sql, *params)[0][0]

    def enqueue(
        self, task: str, count: int = 1, args: str = "jsonb_build_object('n', n)", columns: str = "", values: str = ""
    ) -> None:
        """Insert jobs numbered from 1, as an enqueuer in any language does."""
        self.rows(
            f"INSERT INTO stampeded_jobs (queue, task, args{columns}) "
            f"SELECT 'default', 'tests.testapp.tasks.{task}', {args}{values} FROM generate_series(1, {count}) n"
        )

    def states(self) -> dict[str, int]:
        return dict(self.rows("SELECT state, count(*) FROM stampeded_jobs GROUP BY state"))

    def begun(self) -> int:
        return self.value("SELECT count(*) FROM effects")

    def end(self) -> None:
        for process in self.processes:
            process.end()


@contextmanager
def emptied(project: Project) -> Iterator[Project]:
    """The project without jobs, workers and effects; its processes are ended afterwards."""
    tables = ("jobs", "workers", "progress", "count_deltas", "queue_policies", "limits", "starts", "turns", "breakers")
    project.rows(f"TRUNCATE {', '.join(f'stampeded_{table}' for table in tables)}, effects")
    try:
        yield project
    finally:
        project.end()
