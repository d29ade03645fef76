"""A project whose default database is not the one with the jobs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.django_db(transaction=True)
def test_admin_and_command_line_work_when_the_default_database_is_sqlite() -> None:
    parts = urlsplit(os.environ["DATABASE_URL"])
    url = urlunsplit(parts._replace(path=f"/{connection.settings_dict['NAME']}"))
    environment = {
        **os.environ,
        "DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": "tests.surfaces.elsewhere.settings",
        "PYTHONPATH": str(ROOT),
        "ALLOWED_HOSTS": "testserver",
    }
    walk = [sys.executable, "-m", "tests.surfaces.elsewhere.walk"]
    done = subprocess.run(walk, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    try:
        assert (done.returncode, done.stdout.strip()) == (0, ""), done.stdout + done.stderr
    finally:
        with connection.cursor() as cursor:  # the flush of the test leaves the audit, which is only added to
            cursor.execute("TRUNCATE stampeded_audit")


@pytest.mark.django_db
def test_grave_commands_want_the_database_named_where_several_could_be_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    from django_stampeded.management.console import acting

    class Several(dict):  # type: ignore[type-arg]
        """Two PostgreSQL aliases, as `connections` would show them."""

    monkeypatch.setattr(acting, "connections", Several(default=connection, archive=connection))
    with pytest.raises(CommandError, match=r"Several PostgreSQL databases are configured \(archive, default\)"):
        call_command("stampeded", "prune", "--yes")
    call_command("stampeded", "prune", "--yes", "--database", "default")
