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

# Deleting without triggers is the quickest way to empty small tables, truncating the one to empty grown ones.
CLEAN = """
SET session_replication_role = replica;
SET client_min_messages = warning;
DO $$
DECLARE
    partition regclass;
    grown text;
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
        IF (SELECT sum(pg_relation_size(relid)) > 1000000 FROM pg_partition_tree(found)) THEN
            grown := concat_ws(', ', grown, found::text);
        ELSE
            EXECUTE format('DELETE FROM %s', found);
        END IF;
    END LOOP;
    IF grown IS NOT NULL THEN
        EXECUTE 'TRUNCATE ' || grown || ' CASCADE';
    END IF;
END
$$;
RESET ALL
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

    def administer(statement: str) -> None:
        # From the database that is always there: Django's test database may be dropped before this one.
        with psycopg.connect(**{**server, "dbname": "postgres"}, autocommit=True) as admin:
            admin.execute(build.SQL(statement).format(build.Identifier(name)))  # type: ignore[arg-type]

    administer("CREATE DATABASE {} " + options)
    try:
        yield {**server, "dbname": name}
    finally:
        administer("DROP DATABASE {} WITH (FORCE)")


@pytest.fixture(scope="session")
def params(server: Params, django_db_blocker: Any) -> Iterator[Params]:
    """A database of these tests' own with the schema installed, for the whole session."""
    with database(server, f"stampeded_sql_{os.getpid()}_{next(NUMBERS)}") as params:
        with django_db_blocker.unblock():
            migrate(params)
        yield params


@contextmanager
def clients(params: Params, schema: str | None = None, idle: list[SqlClient] | None = None) -> Iterator[Connect]:
    """A maker of clients, after which the install is clean; *idle* lends and takes back connections."""
    lent = [] if idle is None else idle
    made: list[SqlClient] = []

    def connect() -> SqlClient:
        made.append(lent.pop() if lent else SqlClient(params, schema))
        return made[-1]

    try:
        yield connect
    finally:
        lent += [client for client in made if client.start_anew()]
        cleaner = lent.pop() if lent else SqlClient(params, schema)
        cleaner.run(CLEAN)
        lent.append(cleaner)
        while len(lent) > (0 if idle is None else 3):
            lent.pop().close()


@pytest.fixture(scope="session")
def idle(params: Params) -> Iterator[list[SqlClient]]:
    """Connections that wait for the next test: a new one has to learn the catalog first."""
    waiting: list[SqlClient] = []
    yield waiting
    for client in waiting:
        client.close()


@pytest.fixture
def connect(params: Params, idle: list[SqlClient]) -> Iterator[Connect]:
    """Makes clients, each with a connection (and a worker) of its own."""
    with clients(params, idle=idle) as connect:
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
