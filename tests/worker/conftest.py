"""The table in which the tests' jobs leave their traces."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection, connections

from django_stampeded.worker import django_connections
from tests.testapp.tasks import EFFECTS


@pytest.fixture
def kept_open() -> Iterator[None]:
    """Django's connections stay open between jobs, as they do in a worker's process."""
    before = {alias: dict(connections.settings[alias]) for alias in connections}
    django_connections.keep_open()
    yield
    for alias, settings in before.items():
        connections.settings[alias].clear()
        connections.settings[alias].update(settings)


@pytest.fixture
def effects(transactional_db: None) -> Iterator[None]:
    """An empty table `effects`, in a database whose transactions are real ones."""
    with connection.cursor() as cur:
        cur.execute(EFFECTS)
    yield
    with connection.cursor() as cur:
        cur.execute("RESET ALL")
        cur.execute("DROP TABLE effects")
