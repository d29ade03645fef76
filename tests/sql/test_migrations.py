"""Installing and taking back: at once, by a plain role, on a server too old, beside other things."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql as build

from tests.sql.client import SqlClient
from tests.sql.fixtures import Connect, Params, clients, database, drop_schema, migrate
from tests.sql.old_server import OldServer
from tests.sql.test_schemas import lead_a_whole_life

ROOT = Path(__file__).resolve().parents[2]


def url(params: Params) -> str:
    password = f":{quote(params['password'], safe='')}" if params.get("password") else ""
    return f"postgres://{params['user']}{password}@{params['host']}:{params['port']}/{params['dbname']}"


def manage(params: Params, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "manage.py", *command],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url(params), "PYTHONWARNINGS": "ignore"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, err = process.communicate(timeout=240)
    return process.returncode, out + err


def objects(params: Params, schema: str = "public") -> list[str]:
    """Every table, index, view, function, trigger and check of the install, with its definition."""
    queries = {
        "relations": "SELECT relname || relkind::text || relpersistence::text || coalesce(reloptions::text, '')"
        " || coalesce(pg_get_expr(relpartbound, oid), '') FROM pg_class WHERE relnamespace = {ns}",
        "columns": "SELECT c.relname || '.' || a.attname || format_type(a.atttypid, a.atttypmod) || a.attnotnull"
        " FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE c.relnamespace = {ns} AND a.attnum > 0",
        "indexes": "SELECT pg_get_indexdef(indexrelid) FROM pg_index JOIN pg_class c ON c.oid = indexrelid"
        " WHERE c.relnamespace = {ns}",
        "functions": "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = {ns}",
        "triggers": "SELECT pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid"
        " WHERE c.relnamespace = {ns} AND NOT tgisinternal",
        "checks": "SELECT conname || pg_get_constraintdef(o.oid) FROM pg_constraint o WHERE connamespace = {ns}",
        "views": "SELECT viewname || definition FROM pg_views WHERE schemaname = {schema}",
    }
    namespace = build.SQL("(SELECT oid FROM pg_namespace WHERE nspname = {})").format(build.Literal(schema))
    found: list[str] = []
    with psycopg.connect(**params) as connection:
        for kind, query in queries.items():
            filled = build.SQL(query).format(ns=namespace, schema=build.Literal(schema))  # type: ignore[arg-type]
            found += [f"{kind}: {row[0]}" for row in connection.execute(filled)]
    return sorted(each for each in found if "django_migrations" not in each)


# -- several at once --------------------------------------------------------------------------------


@pytest.mark.slow
def test_eight_migrate_at_once_on_a_fresh_database_all_succeed_with_one_schema(server: Params, params: Params) -> None:
    with database(server, f"at_once_{os.getpid()}") as fresh:
        processes = [manage(fresh, "migrate", "--verbosity", "0") for _ in range(8)]
        outcomes = [finished(process) for process in processes]
        assert [code for code, _ in outcomes] == [0] * 8, [text for code, text in outcomes if code]
        assert objects(fresh) == objects(params)
        with psycopg.connect(**fresh) as connection:
            query = "SELECT app, name, count(*) FROM django_migrations GROUP BY 1, 2 HAVING count(*) > 1"
            assert connection.execute(query).fetchall() == []


def test_migrating_again_changes_nothing(params: Params, sql: SqlClient, django_db_blocker: Any) -> None:
    before = objects(params)
    with django_db_blocker.unblock():
        migrate(params)
    assert objects(params) == before


# -- and back ----------------------------------------------------------------------------------------


@pytest.fixture
def schema(params: Params) -> Iterator[str]:
    yield "there and back"
    drop_schema(params, "there and back")


def test_migrating_to_zero_leaves_nothing_and_back_again_everything(
    params: Params, schema: str, django_db_blocker: Any
) -> None:
    with django_db_blocker.unblock():
        migrate(params, "stampeded", "zero", schema=schema)
        empty = objects(params, schema)
        migrate(params, "stampeded", schema=schema)
        full = objects(params, schema)
        with clients(params, schema) as connect:
            sql = connect()
            sql.call("stampeded_create_queue", "own")
            sql.call("stampeded_create_queue", "unlogged", True)
            sql.enqueue("own", dedup_scope="s")
            sql.started("other")
        migrate(params, "stampeded", "zero", schema=schema)
        # django-pgtrigger takes its triggers back and leaves their functions, for it can't tell who else calls them.
        assert [each for each in objects(params, schema) if "pgtrigger" not in each] == empty
        migrate(params, "stampeded", schema=schema)
        assert objects(params, schema) == full
    with clients(params, schema) as connect:
        lead_a_whole_life(connect())


# -- by whom, and where --------------------------------------------------------------------------------


@pytest.fixture
def plain_role(server: Params) -> Iterator[Params]:
    """A role without any right but that of owning one database."""
    role = f"plain_{os.getpid()}"
    with psycopg.connect(**server, autocommit=True) as admin:
        admin.execute(build.SQL("CREATE ROLE {} LOGIN").format(build.Identifier(role)))
    try:
        with database(server, f"of_{role}", f"OWNER {role}") as owned:
            yield {**owned, "user": role}
    finally:
        with psycopg.connect(**server, autocommit=True) as admin:
            admin.execute(build.SQL("DROP ROLE {}").format(build.Identifier(role)))


def test_the_owner_of_the_database_needs_no_other_right(plain_role: Params) -> None:
    code, text = finished(manage(plain_role, "migrate", "--verbosity", "0"))
    assert code == 0, text
    sql = SqlClient(plain_role)
    try:
        assert sql.value("SELECT NOT rolsuper FROM pg_roles WHERE rolname = current_user")
        lead_a_whole_life(sql)
    finally:
        sql.close()


def test_another_role_works_with_the_rights_on_the_tables_alone(sql: SqlClient, connect: Connect) -> None:
    role = f"worker_{os.getpid()}"
    schema = sql.value("SELECT current_schema()")
    sql.run(f"CREATE ROLE {role}")  # type: ignore[arg-type]
    sql.run(f"GRANT USAGE ON SCHEMA {schema} TO {role}")  # type: ignore[arg-type]
    sql.run(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}")  # type: ignore[arg-type]
    sql.run(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}")  # type: ignore[arg-type]
    worker = connect()
    try:
        worker.run(f"SET ROLE {role}")  # type: ignore[arg-type]
        job = worker.started(dead_letter_queue="dead")
        assert worker.touch(job) and worker.checkpoint(job, {"row": 1})
        assert worker.fail(job, "unrecoverable")[0].dead_lettered
        assert worker.complete(worker.claim("dead")[0])
        assert worker.counts() == {("q", "discarded"): 1, ("dead", "completed"): 1}
        worker.call("stampeded_fold_counts", 1)
    finally:
        worker.close()
        sql.run(f"DROP OWNED BY {role}")  # type: ignore[arg-type]
        sql.run(f"DROP ROLE {role}")  # type: ignore[arg-type]


def told(text: str, part: str) -> str:
    """The line of the output that holds *part*; a traceback is no answer."""
    assert "Traceback" not in text
    return next(line for line in text.splitlines() if part in line)


def test_a_database_that_is_not_utf8_is_refused_in_one_sentence(server: Params) -> None:
    options = "ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    with database(server, f"latin1_{os.getpid()}", options) as latin:
        code, text = finished(manage(latin, "migrate", "--verbosity", "0"))
        assert code != 0
        assert "UTF8" in told(text, "LATIN1")
        assert not [each for each in objects(latin) if "stampeded" in each]


@pytest.mark.slow
@pytest.mark.parametrize("command", [["migrate", "--verbosity", "0"], ["check", "--database", "default"]])
def test_a_server_that_is_too_old_is_refused_with_the_versions_found_and_needed(
    old_server: OldServer, command: list[str]
) -> None:
    code, text = finished(manage(old_server.params, *command))
    assert code != 0
    assert re.search(rf"\b{old_server.version}\b", told(text, "PostgreSQL 18"))


@pytest.mark.slow
def test_a_worker_refuses_a_server_that_is_too_old_when_it_starts(old_server: OldServer) -> None:
    code, text = finished(manage(old_server.params, "runstampeded", "--once"))
    assert code != 0
    assert re.search(rf"\b{old_server.version}\b", told(text, "PostgreSQL 18"))


def test_a_worker_refuses_a_database_without_the_schema_and_says_what_cures_it(server: Params) -> None:
    with database(server, f"bare_{os.getpid()}") as bare:
        code, text = finished(manage(bare, "runstampeded", "--once"))
        assert code != 0
        assert "not installed" in told(text, "manage.py migrate")


@pytest.fixture(scope="module")
def old_server() -> Iterator[OldServer]:
    if not OldServer.installed():
        pytest.skip("no PostgreSQL before 18 is installed on this machine")
    with OldServer() as server:
        yield server
