"""A server of these tests' own, as durable as a real one, that they may stop and crash."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from django_stampeded.testing.postgres import LocalPostgres
from tests.acceptance.pooler import PROGRAM, pooling
from tests.acceptance.project import ROOT, Project, emptied
from tests.testapp.tasks import EFFECTS

THROUGH_POOLER = os.environ.get("THROUGH_POOLER", "")
"""`all`: run every test of a project through a pooler too that does not say that it is about a direct connection."""


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
def pooler(installed: str) -> Iterator[str]:
    """The address of the same database through a pooler in transaction mode, whose connections end with the test."""
    if PROGRAM is None:
        pytest.skip("needs pgbouncer")
    with pooling(installed, size=40) as url:
        yield url


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of the project through the pooler too: those of a majority, and all that it means something for where asked."""
    marks = {mark.name for mark in metafunc.definition.iter_markers()}
    if "project" in metafunc.fixturenames and "direct" not in marks and (THROUGH_POOLER == "all" or "pooled" in marks):
        metafunc.parametrize("route", ["direct", "pooled"], indirect=True)


@pytest.fixture
def route(request: pytest.FixtureRequest) -> str:
    """How the project's processes reach their database: `direct`, or `pooled`."""
    return getattr(request, "param", "direct")


@pytest.fixture
def project(installed: str, tmp_path: Path, route: str, request: pytest.FixtureRequest) -> Iterator[Project]:
    through = request.getfixturevalue("pooler") if route == "pooled" else None
    with emptied(Project(installed, tmp_path, through)) as project:
        yield project
