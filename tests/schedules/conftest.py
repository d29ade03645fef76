"""Fixtures of the schedules' tests: a database whose transactions are real ones, and tasks that are forgotten again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_stampeded import registry
from tests.schedules.support import Table


@pytest.fixture
def table(transactional_db: None) -> Iterator[Table]:
    """The schedules, their ledger and their jobs, by a connection such as maintenance has."""
    table = Table()
    table.rows("DELETE FROM stampeded_schedules")  # a flush writes anew what the last test had declared
    yield table
    table.close()


@pytest.fixture
def own_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No task is registered but those that the test declares."""
    monkeypatch.setattr(registry, "_tasks", {})
    monkeypatch.setattr(registry, "_names", {})
    monkeypatch.setattr(registry, "broken", [])
