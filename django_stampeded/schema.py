"""How the SQL gets into a database and how a process tells whether it is the right one.

Owns the migration operations that install the numbered files of sql/, the schema's version and the lock under which several
`migrate` take turns. What the files say is theirs; the operations only run them, in the schema that comes first in the
connection's search_path, to which every function is then bound.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.apps import apps as installed_apps
from django.core.management.base import CommandError
from django.db import connections
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.operations.base import Operation
from django.db.migrations.recorder import MigrationRecorder
from django.db.models.signals import post_migrate, pre_migrate

from django_stampeded.exceptions import SchemaMismatch, ServerTooOld

if TYPE_CHECKING:
    from django.apps import AppConfig
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor
    from django.db.migrations.state import ProjectState

SQL_DIR = Path(__file__).parent / "sql"
MANIFEST = SQL_DIR / "manifest.json"

SCHEMA_VERSION = 1
"""The version of the SQL that this code was written for. It runs on this one and on the next."""

OLDEST_SERVER = 180000

_LONGEST_WAIT = 600  # seconds
_LOCK_KEY = 0x5354414D50454445  # "STAMPEDE"; any number will do as long as every version uses this one


def statements(name: str) -> str:
    """The text of one SQL file, named as `functions/claim_v01`."""
    return (SQL_DIR / f"{name}.sql").read_text(encoding="utf-8")


def checksums() -> dict[str, str]:
    """What each SQL file hashes to now, as the manifest keeps it."""
    return {
        str(path.relative_to(SQL_DIR).with_suffix("")): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(SQL_DIR.rglob("*.sql"))
    }


def write_manifest() -> None:
    """Records the files as they are: for a file that no release has had yet. A released one never changes."""
    MANIFEST.write_text(json.dumps(checksums(), indent=1) + "\n", encoding="utf-8")


class _Install(Operation):
    """Runs SQL files forwards, and what takes them back backwards, with the install's own schema as the search_path.

    Whoever runs the same migration a moment later (through a pooler no lock of the session holds it off) waits here for the
    transaction-scoped lock and then finds nothing left to do.
    """

    reversible = True
    reduces_to_sql = True

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Nothing: the models' state is told by the operations beside this one."""

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        if schema_editor.connection.vendor == "postgresql" and self._allowed(app_label, schema_editor):
            self._run(schema_editor, self.forwards)

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        if schema_editor.connection.vendor == "postgresql" and self._allowed(app_label, schema_editor):
            self._run(schema_editor, self.backwards)

    def forwards(self, cursor: Any) -> Iterable[str]:
        raise NotImplementedError

    def backwards(self, cursor: Any) -> Iterable[str]:
        raise NotImplementedError

    @staticmethod
    def _allowed(app_label: str, schema_editor: BaseDatabaseSchemaEditor) -> bool:
        from django.db import router

        return router.allow_migrate(schema_editor.connection.alias, app_label)

    @staticmethod
    def _run(schema_editor: BaseDatabaseSchemaEditor, plan: Any) -> None:
        connection = schema_editor.connection
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_advisory_xact_lock(%s), current_schema(), current_setting('search_path')",
                [_LOCK_KEY],
            )
            _, schema, search_path = cursor.fetchone()
            if schema is None:
                raise CommandError(
                    "The search_path names no schema that exists, so there is nowhere to put the tables: "
                    "create the schema, or name another one in the role's search_path."
                )
            cursor.execute("SELECT set_config('search_path', format('%%I, pg_temp', %s::text), true)", [schema])
            for sql in plan(cursor):
                schema_editor.execute(sql, params=None)
            cursor.execute("SELECT set_config('search_path', %s, true)", [search_path])


class InstallTables(_Install):
    """Creates tables by files named `<table without stampeded_>_v01`; drops them again backwards."""

    def __init__(self, *files: str) -> None:
        self.files = files

    def deconstruct(self) -> tuple[str, Sequence[Any], dict[str, Any]]:
        return type(self).__name__, self.files, {}

    def describe(self) -> str:
        return f"Creates {', '.join(_object_of(name) for name in self.files)}"

    def forwards(self, cursor: Any) -> Iterable[str]:
        for name in self.files:
            cursor.execute("SELECT to_regclass(%s)", [_object_of(name)])
            if cursor.fetchone()[0] is None:
                yield statements(f"tables/{name}")

    def backwards(self, cursor: Any) -> Iterable[str]:
        for name in reversed(self.files):
            yield f"DROP TABLE IF EXISTS {_object_of(name)} CASCADE"


class InstallFunctions(_Install):
    """Installs function files. Backwards, each goes back to the file it `replaces`, or is dropped where there is none."""

    def __init__(self, *files: str, replaces: Sequence[str] = ()) -> None:
        self.files = files
        self.replaces = tuple(replaces)

    def deconstruct(self) -> tuple[str, Sequence[Any], dict[str, Any]]:
        return type(self).__name__, self.files, {"replaces": self.replaces} if self.replaces else {}

    def describe(self) -> str:
        return f"Installs {', '.join(self.files)}"

    def forwards(self, cursor: Any) -> Iterable[str]:
        for name in self.files:
            yield statements(f"functions/{name}")

    def backwards(self, cursor: Any) -> Iterable[str]:
        before = {_object_of(name): name for name in self.replaces}
        for name in reversed(self.files):
            if _object_of(name) in before:
                yield statements(f"functions/{before[_object_of(name)]}")
            else:
                yield f"DROP FUNCTION IF EXISTS {_object_of(name)} CASCADE"


class InstallTriggers(_Install):
    """Creates the triggers of one table by a file of its name, unless `trigger` stands already."""

    def __init__(self, file: str, trigger: str) -> None:
        self.file = file
        self.trigger = trigger

    def deconstruct(self) -> tuple[str, Sequence[Any], dict[str, Any]]:
        return type(self).__name__, (self.file, self.trigger), {}

    def describe(self) -> str:
        return f"Creates the triggers of {_object_of(self.file)}"

    def forwards(self, cursor: Any) -> Iterable[str]:
        cursor.execute(
            "SELECT count(*) FROM pg_trigger WHERE tgrelid = %s::regclass AND tgname = %s",
            [_object_of(self.file), self.trigger],
        )
        if not cursor.fetchone()[0]:
            yield statements(f"triggers/{self.file}")

    def backwards(self, cursor: Any) -> Iterable[str]:
        return ()  # they go with their functions


def _object_of(file: str) -> str:
    return "stampeded_" + file.rpartition("_v")[0]


def check_server(connection: BaseDatabaseWrapper) -> None:
    """Refuses a server that can't run the SQL.

    Raises ServerTooOld for one before PostgreSQL 18, SchemaMismatch for a database that isn't UTF8.
    """
    with connection.cursor() as cursor:
        check_server_settings(cursor)


def check_server_settings(cur: Any) -> None:
    """The same by a cursor of any driver."""
    cur.execute(
        "SELECT current_setting('server_version_num')::int, current_setting('server_version'), "
        "current_setting('server_encoding')"
    )
    number, version, encoding = cur.fetchone()
    if number < OLDEST_SERVER:
        raise ServerTooOld(
            f"django_stampeded needs PostgreSQL 18 or newer and this server is {version.split()[0]}: "
            "upgrade the server, or point DATABASES at another one."
        )
    if encoding != "UTF8":
        raise SchemaMismatch(
            f"django_stampeded needs a database in the encoding UTF8 and this one is in {encoding}: "
            "create the database with ENCODING 'UTF8'."
        )


def check_schema(cur: Any) -> None:
    """Refuses a database whose SQL this code can't work with; returns None where it can.

    `cur` is a cursor of any driver. Raises ServerTooOld or SchemaMismatch, each with the command that cures it.

    Example: `check_schema(connection.cursor())`
    """
    check_server_settings(cur)
    cur.execute("SELECT to_regprocedure('stampeded_schema_version()') IS NOT NULL")
    if not cur.fetchone()[0]:
        raise SchemaMismatch("The tables of django_stampeded are not installed here: run `manage.py migrate stampeded`.")
    cur.execute("SELECT stampeded_schema_version()")
    installed = cur.fetchone()[0]
    if installed < SCHEMA_VERSION:
        raise SchemaMismatch(
            f"The SQL of django_stampeded in this database has version {installed} and this code needs {SCHEMA_VERSION}: "
            "run `manage.py migrate stampeded`."
        )
    if installed > SCHEMA_VERSION + 1:
        raise SchemaMismatch(
            f"The SQL of django_stampeded in this database has version {installed} and this code knows {SCHEMA_VERSION} "
            f"and {SCHEMA_VERSION + 1}: upgrade it with `pip install --upgrade django-stampeded`."
        )


def _before_migrate(sender: AppConfig, using: str, plan: list[Any], apps: Any = None, **_: object) -> None:
    """Refuses a server that won't do, then waits until no other process migrates this database.

    Django makes its plan before anybody could lock anything, so the one that waited finds it out of date: when another has
    applied it meanwhile, nothing is left to do, and the models that Django goes on with are brought up to what stands now.
    The lock is the session's; it ends after the last app's post_migrate (where permissions are made, once) or with the
    connection.
    """
    connection = connections[using]
    if connection.vendor != "postgresql":
        return
    if any(m.app_label == sender.label and not back for m, back in plan):
        try:
            check_server(connection)
        except (ServerTooOld, SchemaMismatch) as error:
            raise CommandError(str(error)) from None
    _wait_for_turn(connection)
    if not plan:  # whoever applied it is through with its permissions now, and there is nothing to hold others up for
        _end_turn(connection)
        return
    post_migrate.connect(_after_migrate, sender=_last_app(), dispatch_uid="stampeded.migrate_unlock")
    if not any(back for _, back in plan):
        _drop_what_is_done(connection, plan, apps)


def _drop_what_is_done(connection: BaseDatabaseWrapper, plan: list[Any], apps: Any) -> None:
    applied = MigrationRecorder(connection).applied_migrations()
    left = [(migration, back) for migration, back in plan if (migration.app_label, migration.name) not in applied]
    if left and len(left) < len(plan):
        raise CommandError(
            "Another process has applied some of these migrations meanwhile, and not all: run `manage.py migrate` again."
        )
    if not left:
        plan.clear()
        now = MigrationExecutor(connection)._create_project_state(with_applied_migrations=True)  # type: ignore[attr-defined]
        vars(apps).update(vars(now.apps))


def _last_app() -> AppConfig:
    """The app whose signals Django sends last."""
    return [config for config in installed_apps.get_app_configs() if config.models_module is not None][-1]


def _wait_for_turn(connection: BaseDatabaseWrapper) -> None:
    give_up = time.monotonic() + _LONGEST_WAIT
    with connection.cursor() as cursor:
        while True:
            cursor.execute("SELECT pg_try_advisory_lock(%s)", [_LOCK_KEY])
            if cursor.fetchone()[0]:
                return
            if time.monotonic() > give_up:
                raise CommandError(
                    f"Another process has been migrating this database for {_LONGEST_WAIT // 60} minutes: "
                    "wait until it has finished, or end it, and run `manage.py migrate` again."
                )
            time.sleep(0.1)


def _end_turn(connection: BaseDatabaseWrapper) -> None:
    """Gives the lock back, as often as it was taken: a migrate that failed has left it with the session."""
    with connection.cursor() as cursor:
        held = True
        while held:
            cursor.execute(
                "SELECT pg_advisory_unlock(%s) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() "
                "AND (classid::bigint << 32) | objid::bigint = %s AND objsubid = 1",
                [_LOCK_KEY, _LOCK_KEY],
            )
            held = cursor.fetchone() is not None


def _after_migrate(sender: AppConfig, using: str, **_: object) -> None:
    connection = connections[using]
    if connection.vendor == "postgresql":
        _end_turn(connection)


def connect_migrate_lock(config: AppConfig) -> None:
    """Lets several `manage.py migrate` that start at once take turns. Called once, by the app's ready()."""
    pre_migrate.connect(_before_migrate, sender=config, dispatch_uid="stampeded.migrate_lock")
