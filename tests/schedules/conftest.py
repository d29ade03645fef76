"""Fixtures of the schedules' tests: a database whose transactions are real ones, and tasks that are forgotten again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from django_stampeded import registry
from tests.schedules.support import Table


@pytest.fixture
def table(transactional_db: None) -> Iterator[Table]:
    """The schedules, their ledger and their jobs, by a connection such as maintenance has."""
    table = Table()
    table.rows("DELETE FROM stampeded_schedules")  # a flush writes anew what the last test had declared
    yield table
    table.close()


@pytest.fixture(autouse=True)
def _no_schedule_for_others(request: pytest.FixtureRequest, django_db_blocker: Any) -> Iterator[None]:
    """Set up before the database is, so done after its flush, which writes anew what the test had declared."""
    yield
    if "table" in request.fixturenames or "transactional_db" in request.fixturenames:
        with django_db_blocker.unblock(), connection.cursor() as cursor:
            cursor.execute("DELETE FROM stampeded_schedules")


@pytest.fixture
def own_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No task is registered but those that the test declares."""
    monkeypatch.setattr(registry, "_tasks", {})
    monkeypatch.setattr(registry, "_names", {})
    monkeypatch.setattr(registry, "broken", [])
