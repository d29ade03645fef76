"""System checks: what is set up wrong and can be seen before anything runs, each with an id and what to do.

Owns the ids. What a setting may be is in conf.py, what the database must be is in schema.py, which tasks are there in
registry.py; here their findings become messages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections

from django_stampeded import registry, scheduling, schema, zones
from django_stampeded.conf import problems, settings
from django_stampeded.exceptions import DuplicateTask, InvalidArguments, SchemaMismatch, ServerTooOld

_POOL_DEFAULT = 4  # psycopg_pool's own


def register_all() -> None:
    """Makes the checks known to Django. Called once, by the app's ready()."""
    for check in (
        check_apps,
        check_settings,
        check_database_alias,
        check_listen_database,
        check_pool,
        check_modules,
        check_tasks,
        check_schedules,
    ):
        register(_listed(check), "stampeded")
    register(_listed(check_database), Tags.database)


def check_apps() -> Iterator[CheckMessage]:
    """The apps that ours stands on are installed."""
    if not apps.is_installed("django.contrib.postgres"):
        yield Error(
            "django.contrib.postgres is not in INSTALLED_APPS.",
            hint="Add 'django.contrib.postgres': the models of django_stampeded have array fields.",
            id="stampeded.E001",
        )


def check_settings() -> Iterator[CheckMessage]:
    """STAMPEDED has no unknown name and no value out of range."""
    found = problems()
    for problem in found:
        yield Error(
            problem,
            hint="The reference of settings lists them all with their ranges.",
            id="stampeded.E002",
        )
    if not found and settings.DEAD_AFTER < 3 * settings.HEARTBEAT_INTERVAL:
        yield Error(
            "STAMPEDED['DEAD_AFTER'] is less than three times STAMPEDED['HEARTBEAT_INTERVAL'].",
            hint="Make it larger: a worker that is late with one heartbeat would lose its jobs while it runs them.",
            id="stampeded.E003",
        )


def check_database_alias() -> Iterator[CheckMessage]:
    """The alias in STAMPEDED['DATABASE'] is there and is PostgreSQL."""
    alias = _alias()
    if alias is None:
        return
    if alias not in connections:
        yield Error(
            f"STAMPEDED['DATABASE'] is {alias!r}, which DATABASES does not have.",
            hint=f"Name one of {', '.join(map(repr, connections))}.",
            id="stampeded.E004",
        )
    elif connections[alias].vendor != "postgresql":
        yield Error(
            f"The database {alias!r} that STAMPEDED['DATABASE'] names is not PostgreSQL.",
            hint="Jobs live in PostgreSQL 18 or newer: name another alias, or change its ENGINE.",
            id="stampeded.E005",
        )


def check_listen_database() -> Iterator[CheckMessage]:
    """The alias in STAMPEDED['LISTEN_DATABASE'], where there is one, is there and is PostgreSQL."""
    alias = None if problems() else settings.LISTEN_DATABASE
    if alias is not None and (alias not in connections or connections[alias].vendor != "postgresql"):
        yield Error(
            f"STAMPEDED['LISTEN_DATABASE'] is {alias!r}, which is no PostgreSQL database in DATABASES.",
            hint="Add a direct connection to the same database under that name, or leave the setting out.",
            id="stampeded.E014",
        )


def check_pool() -> Iterator[CheckMessage]:
    """A connection pool has a connection for each job thread; what the worker needs beside them it opens itself."""
    alias = _alias()
    if alias is None or alias not in connections or problems():
        return
    pool = connections[alias].settings_dict.get("OPTIONS", {}).get("pool")
    if not pool:
        return
    options = pool if isinstance(pool, dict) else {}
    size = options.get("max_size") or options.get("min_size") or _POOL_DEFAULT
    if size < settings.THREADS:
        yield Warning(
            f"The connection pool of the database {alias!r} has {size} connections for {settings.THREADS} job threads.",
            hint=f"In the worker's settings, set OPTIONS['pool']['max_size'] to {settings.THREADS} or more, "
            "or STAMPEDED['THREADS'] to fewer; jobs that find no connection wait and then fail.",
            id="stampeded.W001",
        )


def check_modules() -> Iterator[CheckMessage]:
    """Every app's tasks module was imported."""
    for module, error in registry.broken:
        if isinstance(error, DuplicateTask):
            yield Error(str(error), hint=f"It was met while importing {module}.", id="stampeded.E007")
        else:
            yield Error(
                f"{module} did not import: {type(error).__name__}: {error}",
                hint="Mend the module; until then its tasks are unknown and their jobs are put off.",
                id="stampeded.E006",
            )


def check_tasks() -> Iterator[CheckMessage]:
    """Every task's annotations can be decoded into, and its timeout comes before the job expires."""
    for task in registry.every():
        try:
            _ = task.signature and task.signature.decoders
        except InvalidArguments as exc:
            yield Error(
                str(exc),
                hint="Annotate parameters with what JSON decodes into, and import it at run time.",
                id="stampeded.E008",
            )
        if task.time_limit is not None and task.time_limit >= task.expire_seconds:
            yield Warning(
                f"Task {task.name!r} has a timeout of {task.time_limit:g} s, not shorter than its expire_seconds of "
                f"{task.expire_seconds}.",
                hint="Make expire_seconds larger: else a job whose worker can't beat is taken back before its timeout.",
                id="stampeded.W002",
            )


def check_schedules() -> Iterator[CheckMessage]:
    """Every declared schedule has a task that its arguments fit, a good timing, and a time zone that Python knows."""
    if problems():
        return
    for problem in scheduling.declarations()[1]:
        yield Error(
            problem.message,
            hint="Until that is mended it is left out, and what the table has of it stays as it is. "
            "A task that needs arguments gets them in STAMPEDED['SCHEDULES'].",
            id="stampeded.E012",
        )


def check_database(databases: Sequence[str] | None = None) -> Iterator[CheckMessage]:
    """The server is new enough, its encoding is UTF8, and the SQL installed is that of this code."""
    alias = _alias()
    if alias is None or alias not in (databases or ()) or connections[alias].vendor != "postgresql":
        return
    try:
        with connections[alias].cursor() as cursor:
            schema.check_server_settings(cursor)
            if not problems():
                yield from _check_zones(cursor)
            try:
                schema.check_schema(cursor)
            except SchemaMismatch as exc:
                if not _migrating():
                    # Only a warning, for an error would also stop the migrate that cures it.
                    yield Warning(str(exc), hint="A worker refuses to start until then.", id="stampeded.W003")
    except ServerTooOld as exc:
        yield Error(str(exc), hint="It uses uuidv7() and other things new in PostgreSQL 18.", id="stampeded.E009")
    except SchemaMismatch as exc:
        yield Error(str(exc), hint="Other encodings lack characters that arguments contain.", id="stampeded.E010")
    except DatabaseError as exc:
        yield Error(
            f"The database {alias!r} does not answer: {str(exc).strip().partition(chr(10))[0]}",
            hint="Check DATABASES and that the server is up.",
            id="stampeded.E011",
        )


def _check_zones(cursor: Any) -> Iterator[CheckMessage]:
    found = scheduling.declarations()[0]
    for problem in scheduling.unknown_zones(cursor, found):
        yield Error(problem.message, hint="Until then the schedule is left out.", id="stampeded.E013")
    names = {each.timing.timezone for each in found if each.timing.cron_expr}
    for message in zones.read_otherwise(cursor, names, datetime.now(UTC)).values():
        yield Warning(
            message,
            hint="Update the time zone data of whichever is older; schedules follow Python's. With PYTHONTZPATH set to nothing "
            "Python reads those of its package tzdata.",
            id="stampeded.W004",
        )


def _listed(check: Callable[..., Iterator[CheckMessage]]) -> Callable[..., Iterable[CheckMessage]]:
    wants_databases = check is check_database

    def run(app_configs: Any = None, databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
        return list(check(databases) if wants_databases else check())

    return run


def _alias() -> str | None:
    """The alias in use, None where the setting is invalid (which check_settings reports)."""
    try:
        return settings.DATABASE
    except ImproperlyConfigured:
        return None


def _migrating() -> bool:
    # `migrate` runs the database checks before it does what they would ask for.
    return sys.argv[1:2] == ["migrate"]
