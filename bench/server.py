"""The server that is measured: one of our own, as durable as a real one, with the tables in it.

Every contender of a comparison runs here, in turns, so that a noisy machine is noisy for all of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django

from django_stampeded.testing.postgres import LocalPostgres

SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
}
BARE = "bench_bare"


@contextmanager
def prepared() -> Iterator[str]:
    """Starts the server, sets Django up on it and migrates; yields the server's address."""
    with LocalPostgres(settings=SETTINGS) as server:
        os.environ["DATABASE_URL"] = server.url
        set_up()
        from django.core.management import call_command
        from django.db import connections

        call_command("migrate", verbosity=0)
        make_bare_table()
        try:
            yield server.url
        finally:
            connections.close_all()


def set_up() -> None:
    """Django in this process, on the server that DATABASE_URL names."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "bench.settings"
    django.setup()


def make_bare_table() -> None:
    """The jobs' table once more: the same columns, checks and indexes, partitioned likewise, but no triggers."""
    execute(f"CREATE TABLE {BARE} (LIKE stampeded_jobs INCLUDING ALL) PARTITION BY LIST (queue)")
    execute(f"CREATE TABLE {BARE}_default PARTITION OF {BARE} DEFAULT")
    storage = value("SELECT array_to_string(reloptions, ', ') FROM pg_class WHERE oid = 'stampeded_jobs_default'::regclass")
    if storage:
        execute(f"ALTER TABLE {BARE}_default SET ({storage})")


def empty() -> None:
    """Takes all jobs and workers away, and what earlier rounds left for the disk to do."""
    tables = value(
        "SELECT string_agg(c.oid::regclass::text, ', ') FROM pg_class c WHERE c.relkind IN ('r', 'p') "
        "AND c.relnamespace = current_schema()::regnamespace AND c.relname = ANY (%s)",
        ["stampeded_jobs", "stampeded_count_deltas", BARE],
    )
    execute(f"TRUNCATE {tables}")
    execute("DELETE FROM stampeded_workers")  # one that is left behind would have every INSERT notify
    execute("CHECKPOINT")


@contextmanager
def logged() -> Iterator[Callable[[], int]]:
    """Has the server log every statement; yields a function that counts those logged so far."""
    log = Path(value("SHOW data_directory")).parent / "server.log"
    execute("ALTER SYSTEM SET log_statement = 'all'")
    execute("SELECT pg_reload_conf()")
    try:
        yield lambda: len(re.findall(r"LOG:  (?:statement|execute)", log.read_text(errors="replace")))
    finally:
        execute("ALTER SYSTEM RESET log_statement")
        execute("SELECT pg_reload_conf()")


def execute(sql: str, *parameters: Any) -> None:
    """Runs one statement on Django's connection."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql, list(parameters) or None)


def value(sql: str, *parameters: Any) -> Any:
    """The first column of the first row that a statement returns."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql, list(parameters) or None)
        row = cursor.fetchone()
    return row[0] if row else None
