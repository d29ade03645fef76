"""Fixtures of the SQL tests: clients on the test database, and a clean install after each test.

The schema is installed once per session, in a database of its own. After a test every table of
the install is emptied and every partition but the DEFAULT one is dropped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg
import pytest
from psycopg import sql as build

from tests.sql.client import SqlClient, search_path_option

Connect = Callable[..., SqlClient]
Params = dict[str, Any]

NUMBERS = count()  # each folder of tests has a database of its own

KEPT = ("dbname", "user", "password", "host", "port", "sslmode", "sslrootcert")

CLEAN = """
DO $$
DECLARE
    partition regclass;
    filled text;
    has_rows boolean;
    found regclass;
BEGIN
    FOR partition IN
        SELECT c.oid::regclass FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'stampeded_jobs'::regclass
          AND pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT'
    LOOP
        EXECUTE format('DROP TABLE %s', partition);
    END LOOP;
    FOR found IN
        SELECT c.oid::regclass FROM pg_class c
        WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) AND c.relkind IN ('r', 'p')
          AND NOT c.relispartition AND c.relname LIKE 'stampeded\\_%'
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', found) INTO has_rows;
        IF has_rows THEN
            filled := concat_ws(', ', filled, found::text);
        END IF;
    END LOOP;
    IF filled IS NOT NULL THEN
        EXECUTE 'TRUNCATE ' || filled || ' CASCADE';
    END IF;
END
$$
"""


@pytest.fixture(scope="session")
def server(django_test_environment: None) -> Params:
    """What psycopg needs to connect to the server that the tests use."""
    from django.db import connections

    found = connections["default"].get_connection_params()
    return {key: found[key] for key in KEPT if found.get(key)}


@contextmanager
def database(server: Params, name: str, options: str = "") -> Iterator[Params]:
    """An empty database of that name, dropped at the end."""
    identifier = build.Identifier(name)
    with psycopg.connect(**server, autocommit=True) as admin:
        admin.execute(build.SQL("CREATE DATABASE {} " + options).format(identifier))  # type: ignore[arg-type]
        try:
            yield {**server, "dbname": name}
        finally:
            admin.execute(build.SQL("DROP DATABASE {} WITH (FORCE)").format(identifier))


@pytest.fixture(scope="session")
def params(server: Params, django_db_blocker: Any) -> Iterator[Params]:
    """A database of these tests' own with the schema installed, for the whole session."""
    with database(server, f"stampeded_sql_{os.getpid()}_{next(NUMBERS)}") as params:
        with django_db_blocker.unblock():
            migrate(params)
        yield params


@contextmanager
def clients(params: Params, schema: str | None = None) -> Iterator[Connect]:
    """A maker of clients, all of which are closed and cleaned up after."""
    made: list[SqlClient] = []

    def connect() -> SqlClient:
        made.append(SqlClient(params, schema))
        return made[-1]

    try:
        yield connect
    finally:
        for client in made:
            client.close()
        cleaner = SqlClient(params, schema)
        try:
            cleaner.run(CLEAN)
        finally:
            cleaner.close()


@pytest.fixture
def connect(params: Params) -> Iterator[Connect]:
    """Makes clients, each with a connection (and a worker) of its own."""
    with clients(params) as connect:
        yield connect


@pytest.fixture
def sql(connect: Connect) -> SqlClient:
    return connect()


def migrate(params: Params, *target: str, schema: str | None = None) -> None:
    """Run ``migrate`` in this process on that database, and in *schema*, made when missing."""
    from django.core.management import call_command
    from django.db import connections

    alias = f"{params['dbname']} {schema}"
    default = connections.settings["default"]
    options = dict(default["OPTIONS"])
    if schema:
        options["options"] = search_path_option(schema)
        with psycopg.connect(**params, autocommit=True) as admin:
            admin.execute(build.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(build.Identifier(schema)))
    address = {key.upper(): params.get(key, "") for key in ("user", "password", "host", "port")}
    connections.settings[alias] = {**default, **address, "NAME": params["dbname"], "OPTIONS": options}
    try:
        call_command("migrate", *target, database=alias, verbosity=0, interactive=False)
    finally:
        connections[alias].close()
        del connections[alias]
        del connections.settings[alias]


def drop_schema(params: Params, schema: str) -> None:
    with psycopg.connect(**params, autocommit=True) as admin:
        admin.execute("SET client_min_messages = warning")
        admin.execute(build.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(build.Identifier(schema)))


@pytest.fixture(scope="module")
def second_install(params: Params, django_db_blocker: Any) -> Iterator[str]:
    """Another install, in a schema whose name needs quoting."""
    schema = "Weird Name-1"
    with django_db_blocker.unblock():
        migrate(params, schema=schema)
    yield schema
    drop_schema(params, schema)
