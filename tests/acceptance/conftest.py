"""A server of these tests' own, as durable as a real one, that they may stop and crash."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from django_stampeded.testing.postgres import LocalPostgres
from tests.acceptance.project import ROOT, Project, emptied
from tests.testapp.tasks import EFFECTS


@pytest.fixture(scope="session")
def server() -> Iterator[LocalPostgres]:
    with LocalPostgres(settings={"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}) as server:
        yield server


@pytest.fixture(scope="session")
def installed(server: LocalPostgres, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a database in which the project is migrated."""
    first = Project(server.url, tmp_path_factory.mktemp("install"))
    first.rows("CREATE DATABASE acceptance")
    url = server.url.rpartition("/")[0] + "/acceptance"
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity=0"], env=first.env(url), cwd=ROOT, check=True, capture_output=True
    )
    Project(url, first.folder).rows(EFFECTS)
    return url


@pytest.fixture
def project(installed: str, tmp_path: Path) -> Iterator[Project]:
    with emptied(Project(installed, tmp_path)) as project:
        yield project
