"""The table in which the tests' jobs leave their traces."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection

from tests.testapp.tasks import EFFECTS


@pytest.fixture
def effects(transactional_db: None) -> Iterator[None]:
    """An empty table `effects`, in a database whose transactions are real ones."""
    with connection.cursor() as cur:
        cur.execute(EFFECTS)
    yield
    with connection.cursor() as cur:
        cur.execute("RESET ALL")
        cur.execute("DROP TABLE effects")
