"""What every test package shares: which tests the everyday run leaves out."""

from pathlib import Path

import pytest

TESTS = Path(__file__).parent

# Whole processes, servers and machines' worth of waiting. CI runs them all; so does `make test ARGS="-m ''"`.
SLOW = (
    "acceptance",
    "bench",
    "demo",
    "packaging",
    "plans",
    "polyglot",
    "races",
    "sql/test_migrations.py",
    "sql/test_mutations.py",
    "unit/test_cron_clock_changes.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what lies in a slow place."""
    slow = [TESTS / place for place in SLOW]
    for item in items:
        if any(item.path.is_relative_to(place) for place in slow):
            item.add_marker(pytest.mark.slow)
