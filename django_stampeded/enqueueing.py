"""Writes jobs: the only place that INSERTs into stampeded_jobs, one at a time or in bulk.

A job is written on the Django connection in use, so it commits or rolls back with the data that caused it. Everything
is checked before anything is sent (tasks.py, arguments.py), so that no statement fails and spoils the transaction.

A duplicate is found by the unique index itself: INSERT ... ON CONFLICT DO NOTHING gives no row back, and the job
already there is then looked up by the same key. It may have ended between the two, and then it's the insert's turn again.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, ProgrammingError, connections, router, transaction

from django_stampeded.encoding import MAX_BYTES, too_large
from django_stampeded.exceptions import SchemaMismatch, StampededError
from django_stampeded.signals import job_enqueued

if TYPE_CHECKING:
    from django.db.backends.utils import CursorWrapper
    from django.db.models import Model

CHUNK_JOBS = 2_000
CHUNK_CHARACTERS = 4_194_304

SURELY_FITS = MAX_BYTES // 8
"""Up to here JSON text fits into MAX_BYTES as jsonb; `[0,0,0...]` grows most, to six times its text."""

_TRIES = 10


@dataclass(frozen=True, slots=True)
class EnqueuedJob:
    """A job in its queue. `created` is False where a job with the same dedup scope was already there; `id` is its id."""

    id: UUID
    queue: str
    task: str
    created: bool


@dataclass(frozen=True, slots=True)
class Column:
    """A column that all jobs of a task share: its value, and the SQL around it, such as `now() + %s`."""

    name: str
    value: Any
    sql: str = "%s"


class Blueprint:
    """What the jobs of one task have in common, and the statements made from it once.

    `columns` are those that differ from the table's defaults, `meta` the JSON text of the one that may be large;
    `dedup_period` is that of jobs with a scope; `using` is a database alias, None for the router's choice.
    """

    def __init__(
        self,
        task: str,
        queue: str,
        columns: Sequence[Column] = (),
        *,
        meta: str = "{}",
        dedup_period: str | None = None,
        using: str | None = None,
    ) -> None:
        self.task = task
        self.queue = queue
        self.using = using
        self.dedup_period = dedup_period
        self.meta = meta
        if meta != "{}":
            columns = [*columns, Column("meta", meta, "CAST(%s AS jsonb)")]
        self.columns = [Column("queue", queue, "CAST(%s AS text)"), Column("task", task, "CAST(%s AS text)"), *columns]
        self.values = [each.value for each in self.columns]

    @functools.cached_property
    def single(self) -> str:
        """INSERTs one job: the shared values, then args."""
        names, exprs = self._lists(self.columns)
        return f"INSERT INTO stampeded_jobs ({names}, args) VALUES ({exprs}, %s) RETURNING id"

    @functools.cached_property
    def bulk(self) -> str:
        """INSERTs many jobs: the shared values, then a JSON array of args."""
        names, exprs = self._lists(self.columns)
        return (
            f"INSERT INTO stampeded_jobs ({names}, args) "
            f"SELECT {exprs}, each FROM jsonb_array_elements(%s::jsonb) AS each RETURNING id"
        )

    @functools.cached_property
    def bulk_unique(self) -> str:
        """INSERTs many jobs but those whose key is taken: the shared values, the period, arrays of args and scopes."""
        names, exprs = self._lists(self.columns)
        return (
            f"INSERT INTO stampeded_jobs ({names}, args, dedup_scope, dedup_period) "
            f"SELECT {exprs}, each.args, each.scope, %s FROM unnest(%s::jsonb[], %s::text[]) AS each (args, scope) "
            f"{_ON_CONFLICT} RETURNING id, dedup_scope"
        )

    @staticmethod
    def _lists(columns: Sequence[Column]) -> tuple[str, str]:
        return ", ".join(each.name for each in columns), ", ".join(each.sql for each in columns)


# The index is partial and the table partitioned, so the index is described here and not named.
_ON_CONFLICT = "ON CONFLICT (queue, dedup_key) WHERE dedup_key IS NOT NULL DO NOTHING"

# The key as the generated column makes it, for a job that would be inserted now. LATERAL has each scope looked up in
# the unique index, whatever the planner thinks of the table's size.
_HOLDERS = """
SELECT wanted.scope, job.id
FROM unnest(%s::text[], %s::bytea[]) AS wanted (scope, digest)
CROSS JOIN LATERAL (
    SELECT id FROM stampeded_jobs
    WHERE queue = %s AND dedup_key IS NOT NULL AND dedup_key = wanted.digest || CASE
        WHEN %s::text IS NULL THEN ''::bytea
        ELSE (%s::text || extract(epoch FROM date_trunc(%s::text, now() AT TIME ZONE 'UTC'))::bigint::text)::bytea END
    LIMIT 1
) AS job
"""


def insert(blueprint: Blueprint, args: str, scope: str | None) -> EnqueuedJob:
    """Writes one job with `args`, a JSON text, unless `scope` is taken; then the job that holds it is returned."""
    using = _alias(blueprint)
    with _explained(using), connections[using].cursor() as cursor:
        _check_sizes(cursor, blueprint, (args,))
        if scope is None:
            cursor.execute(blueprint.single, [*blueprint.values, args])
            job = EnqueuedJob(cursor.fetchone()[0], blueprint.queue, blueprint.task, True)
        else:
            job = _insert_unless_taken(cursor, blueprint, [args], [scope])[0]
    _announce([job], using)
    return job


def insert_many(blueprint: Blueprint, rows: Iterable[tuple[str, str | None]]) -> list[EnqueuedJob]:
    """Writes a job for each pair of args and scope, all or none, holding one chunk of them in memory at a time.

    The result is in the order of `rows` and has the job already there in place of each duplicate.
    """
    using = _alias(blueprint)
    jobs: list[EnqueuedJob] = []
    with _explained(using), transaction.atomic(using=using), connections[using].cursor() as cursor:
        for args, scopes in _chunks(rows):
            _check_sizes(cursor, blueprint, args)
            if not scopes:
                cursor.execute(blueprint.bulk, [*blueprint.values, f"[{','.join(args)}]"])
                # Rows are inserted, and so returned, in the order of the array's elements.
                jobs += [EnqueuedJob(row[0], blueprint.queue, blueprint.task, True) for row in cursor.fetchall()]
            else:
                jobs += _insert_unless_taken(cursor, blueprint, args, scopes)
    _announce(jobs, using)
    return jobs


def _alias(blueprint: Blueprint) -> str:
    return blueprint.using or router.db_for_write(_job_model())


@functools.cache
def _job_model() -> type[Model]:
    # Looked up at the first use: tasks are defined while apps load, when models can't be imported yet.
    return apps.get_model("stampeded", "Job")


def _chunks(rows: Iterable[tuple[str, str | None]]) -> Iterator[tuple[list[str], list[str]]]:
    """Chunks of args and of scopes; no scopes where the task has none."""
    args: list[str] = []
    scopes: list[str] = []
    size = 0
    for text, scope in rows:
        args.append(text)
        if scope is not None:
            scopes.append(scope)
        size += len(text)
        if len(args) == CHUNK_JOBS or size >= CHUNK_CHARACTERS:
            yield args, scopes
            args, scopes, size = [], [], 0
    if args:
        yield args, scopes


def _insert_unless_taken(
    cursor: CursorWrapper, blueprint: Blueprint, args: list[str], scopes: Sequence[str]
) -> list[EnqueuedJob]:
    first = {scope: index for index, scope in reversed(list(enumerate(scopes)))}
    # Everyone asks for the keys in the same order, so that two that want the same ones can't wait for each other.
    missing = sorted(first)
    ids: dict[str, UUID] = {}
    created: set[str] = set()
    for _ in range(_TRIES):
        texts = [args[first[scope]] for scope in missing]
        cursor.execute(blueprint.bulk_unique, [*blueprint.values, blueprint.dedup_period, texts, missing])
        inserted = {scope: id for id, scope in cursor.fetchall()}
        created |= inserted.keys()
        ids |= inserted
        ids |= _holders(cursor, blueprint, [scope for scope in missing if scope not in ids])
        missing = [scope for scope in missing if scope not in ids]
        if not missing:
            return [
                EnqueuedJob(ids[scope], blueprint.queue, blueprint.task, scope in created and first[scope] == index)
                for index, scope in enumerate(scopes)
            ]
    raise StampededError(
        f"The jobs that hold the dedup scope of a {blueprint.task!r} kept ending while it was enqueued: enqueue it again."
    )


def _holders(cursor: CursorWrapper, blueprint: Blueprint, scopes: list[str]) -> dict[str, UUID]:
    if not scopes:
        return {}
    digests = [hashlib.sha256(scope.encode()).digest() for scope in scopes]
    period = blueprint.dedup_period
    cursor.execute(_HOLDERS, [scopes, digests, blueprint.queue, period, period, period])
    return dict(cursor.fetchall())


def _check_sizes(cursor: CursorWrapper, blueprint: Blueprint, args: Iterable[str]) -> None:
    """Asks the database how large what may be too large is: a CHECK that fails would spoil the transaction."""
    for path, text in (*(("args", each) for each in args), ("meta", blueprint.meta)):
        if len(text) > SURELY_FITS:
            cursor.execute("SELECT pg_column_size(%s::jsonb)", [text])
            size = cursor.fetchone()[0]
            if size > MAX_BYTES:
                raise too_large(path, size, MAX_BYTES)


def _announce(jobs: Sequence[EnqueuedJob], using: str) -> None:
    if job_enqueued.receivers:
        for job in jobs:
            if job.created:
                job_enqueued.send_robust(sender=EnqueuedJob, job=job, using=using)


@contextmanager
def _explained(using: str) -> Iterator[None]:
    """Turns the database's error into a sentence where the cause is a mistake in the project's set-up."""
    try:
        yield
    except DatabaseError as exc:
        if connections[using].vendor != "postgresql":
            raise ImproperlyConfigured(
                f"The database {using!r} that jobs are written to is not PostgreSQL: "
                "name another with using=, or route the app 'stampeded' to one with DATABASE_ROUTERS."
            ) from exc
        if isinstance(exc, ProgrammingError) and getattr(exc.__cause__, "sqlstate", None) == "42P01":
            raise SchemaMismatch(
                f"The database {using!r} has no table for jobs: run manage.py migrate --database {using}."
            ) from exc
        raise
