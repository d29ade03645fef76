"""Writes jobs: the only place that INSERTs into stampeded_jobs, one at a time or in bulk.

A job is written on the Django connection in use, so it commits or rolls back with the data that caused it. Everything
is checked before anything is sent (tasks.py, arguments.py), so that no statement fails and spoils the transaction.

A duplicate is found by the unique index itself: INSERT ... ON CONFLICT DO NOTHING gives no row back, and the job
already there is then looked up by the same key. It may have ended between the two, and then it's the insert's turn again. Where
a duplicate replaces it, that is done last; a job that somebody has started by then is one that was running when we came.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, ProgrammingError, connections, transaction

from django_stampeded import batch_functions
from django_stampeded.dedup_functions import holders, replace
from django_stampeded.encoding import MAX_BYTES, canonical, too_large
from django_stampeded.exceptions import BatchFinished, InvalidArguments, SchemaMismatch, StampededError
from django_stampeded.results import EnqueuedJob, database
from django_stampeded.signals import job_enqueued, job_replaced

if TYPE_CHECKING:
    from django.db.backends.utils import CursorWrapper

FIRST_LOOK = 100
PORTION_JOBS = 2_000
PORTION_CHARACTERS = 4_194_304

SURELY_FITS = MAX_BYTES // 8
"""Up to here JSON text fits into MAX_BYTES as jsonb; `[0,0,0...]` grows most, to six times its text."""

_TRIES = 10

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Column:
    """A column that all jobs of a task share: its value, and the SQL around it, such as `now() + %s`."""

    name: str
    value: Any
    sql: str = "%s"


class Blueprint:
    """What the jobs of one task have in common, and the statements made from it once.

    `columns` are those that differ from the table's defaults, `meta` the JSON text of the one that may be large. `scope` is
    their dedup scope, or `unique` says what it is made from: "task", "args" or the names of some; `period` goes with it, and
    `replace`: whether a job that waits under the scope takes what a duplicate has.
    `using` is a database alias, None for the router's choice. `batch` is the batch that they join, `parents` the jobs that they
    wait for.
    """

    def __init__(
        self,
        task: str,
        queue: str,
        columns: Sequence[Column] = (),
        *,
        meta: str = "{}",
        scope: str | None = None,
        unique: str | tuple[str, ...] | None = None,
        period: str | None = None,
        replace: bool = False,
        using: str | None = None,
        batch: UUID | None = None,
        parents: Sequence[tuple[str, UUID]] = (),
        on_discard: str = "fail",
    ) -> None:
        self.task = task
        self.batch = batch
        self.parents = parents
        self.on_discard = on_discard
        self.queue = queue
        self.using = using
        self.meta = meta
        self.scope = f"unique:{task}" if unique == "task" else scope
        self.unique = None if unique == "task" else unique
        self.period = period
        self.replace = replace
        if meta != "{}":
            columns = [*columns, Column("meta", meta, "CAST(%s AS jsonb)")]
        self.columns = [Column("queue", queue, "CAST(%s AS text)"), Column("task", task, "CAST(%s AS text)"), *columns]
        self.values = [each.value for each in self.columns]

    @property
    def has_scope(self) -> bool:
        """Whether jobs are written only if their scope is free."""
        return self.scope is not None or self.unique is not None

    def scope_of(self, args: str) -> str:
        """The dedup scope of a job with these arguments."""
        if self.scope is not None:
            return self.scope
        names = None if isinstance(self.unique, str) else self.unique
        return f"unique:{self.task}:{hashlib.sha256(canonical(args, names).encode()).hexdigest()}"

    def value_of(self, column: str) -> Any:
        """What the jobs have in a column, None where they have its default."""
        return next((each.value for each in self.columns if each.name == column), None)

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
            f"SELECT {exprs}, each.args, each.scope, CAST(%s AS text) "
            "FROM unnest(%s::jsonb[], %s::text[]) AS each (args, scope) "
            f"{_ON_CONFLICT} RETURNING id, dedup_scope"
        )

    @staticmethod
    def _lists(columns: Sequence[Column]) -> tuple[str, str]:
        return ", ".join(each.name for each in columns), ", ".join(each.sql for each in columns)


# The index is partial and the table partitioned, so the index is described here and not named.
_ON_CONFLICT = "ON CONFLICT (queue, dedup_key) WHERE dedup_key IS NOT NULL DO NOTHING"


def insert(blueprint: Blueprint, args: str) -> EnqueuedJob:
    """Writes one job with `args`, a JSON text, unless its scope is taken; then the job that holds it is returned."""
    using = database(blueprint.using)
    with _explained(using), _in_one(blueprint, using), connections[using].cursor() as cursor:
        _check_sizes(cursor, blueprint, (args,))
        _check_batch(cursor, blueprint)
        if blueprint.has_scope:
            job = _insert_unless_taken(cursor, blueprint, [args])[0]
        else:
            cursor.execute(blueprint.single, [*blueprint.values, args])
            job = EnqueuedJob(cursor.fetchone()[0], blueprint.queue, blueprint.task, True)
        _bind(cursor, blueprint, [job])
    _announce([job], using)
    return job


def insert_many(blueprint: Blueprint, items: Iterable[T], encode: Callable[[T], str]) -> list[EnqueuedJob]:
    """Writes a job for each item, all or none, holding two portions of them in memory at a time.

    `encode` gives the JSON text of an item's arguments. The result is in the order of the items and has the job already
    there in place of each duplicate.
    """
    using = database(blueprint.using)
    jobs: list[EnqueuedJob] = []
    source = iter(items)
    with _explained(using), transaction.atomic(using=using), connections[using].cursor() as cursor:
        _check_batch(cursor, blueprint)
        args = _first_portion(source, encode)
        while args:
            _check_sizes(cursor, blueprint, args)
            # Taken while the connection is idle, for the iterable may be one that queries it.
            following = list(islice(source, _portion_after(args)))
            if blueprint.has_scope:
                if not jobs:
                    _take_turn(cursor, blueprint, alone=not following)
                jobs += _insert_unless_taken(cursor, blueprint, args)
                args = _encoded(following, encode, len(jobs))
                continue
            with _in_flight(cursor):
                cursor.execute(blueprint.bulk, [*blueprint.values, f"[{','.join(args)}]"])
                args = _encoded(following, encode, len(jobs) + len(args))
                # Rows are inserted, and so returned, in the order of the array's elements.
                ids = [row[0] for row in cursor.fetchall()]
            jobs += map(EnqueuedJob, ids, repeat(blueprint.queue), repeat(blueprint.task), repeat(True))
        _bind(cursor, blueprint, jobs)
    _announce(jobs, using)
    return jobs


def _first_portion(source: Iterator[T], encode: Callable[[T], str]) -> list[str]:
    args = _encoded(list(islice(source, FIRST_LOOK)), encode, 0)
    if args:
        args += _encoded(list(islice(source, max(0, _portion_after(args) - len(args)))), encode, len(args))
    return args


def _take_turn(cursor: CursorWrapper, blueprint: Blueprint, *, alone: bool) -> None:
    """Keeps two bulks from waiting for each other's scopes.

    Those of one portion can't: each asks for its scopes in sorted order. One of several portions asks anew in each, so it
    has the task to itself until its transaction ends.
    """
    if blueprint.unique is None:
        return
    shared = "_shared" if alone else ""
    name = f"stampeded {blueprint.queue} {blueprint.task}"
    cursor.execute(f"SELECT pg_advisory_xact_lock{shared}(hashtextextended(%s, 0))", [name])


def _encoded(portion: list[T], encode: Callable[[T], str], first: int) -> list[str]:
    texts: list[str] = []
    try:
        for item in portion:
            texts.append(encode(item))
    except InvalidArguments as exc:
        number = first + len(texts)
        raise InvalidArguments(f"Item {number} of enqueue_many: {exc}", argument=exc.argument) from None
    return texts


def _portion_after(args: Sequence[str]) -> int:
    """How many jobs to take next, if they are as large as those of the last portion."""
    each = sum(map(len, args)) // len(args) + 1
    return max(1, min(PORTION_JOBS, PORTION_CHARACTERS // each))


def _in_flight(cursor: CursorWrapper) -> AbstractContextManager[Any]:
    """While it lasts, a statement that was executed runs in the server until its rows are fetched.

    Not where somebody wraps statements: a wrapper may put another statement in front (pgtrigger.ignore does), which
    can't be sent that way, or measure how long one takes.
    """
    connection = cursor.db
    if connection.execute_wrappers:
        return nullcontext()
    return connection.connection.pipeline()


def _insert_unless_taken(cursor: CursorWrapper, blueprint: Blueprint, args: list[str]) -> list[EnqueuedJob]:
    scopes = [blueprint.scope_of(each) for each in args]
    first = {scope: index for index, scope in reversed(list(enumerate(scopes)))}
    wanted = {scope: args[index] for scope, index in first.items()}
    if blueprint.replace:
        wanted |= zip(scopes, args, strict=True)  # the last one's
    ids, created = _insert_missing(cursor, blueprint, wanted)
    replaced = set()
    if blueprint.replace:
        # Not before all the others are inserted: whoever holds a lock on a job waits for no scope any more.
        held = {ids[scope]: text for scope, text in wanted.items() if scope not in created}
        run_after = blueprint.value_of("scheduled_at")
        replaced = replace(cursor, blueprint.queue, held, blueprint.meta, blueprint.value_of("priority") or 0, run_after)
        replaced |= {ids[scope] for scope in created}  # by the later ones of the same portion
    return [
        EnqueuedJob(ids[scope], blueprint.queue, blueprint.task, is_new, not is_new and ids[scope] in replaced)
        for index, scope in enumerate(scopes)
        for is_new in [scope in created and first[scope] == index]
    ]


def _insert_missing(cursor: CursorWrapper, blueprint: Blueprint, wanted: dict[str, str]) -> tuple[dict[str, UUID], set[str]]:
    """Writes a job for each scope that is free; returns the ids of the jobs that have the scopes, and the new ones' scopes."""
    # Everyone asks for the keys in the same order, so that two that want the same ones can't wait for each other.
    missing = sorted(wanted)
    ids: dict[str, UUID] = {}
    created: set[str] = set()
    for _ in range(_TRIES):
        texts = [wanted[scope] for scope in missing]
        cursor.execute(blueprint.bulk_unique, [*blueprint.values, blueprint.period, texts, missing])
        inserted = {scope: id for id, scope in cursor.fetchall()}
        created |= inserted.keys()
        ids |= inserted
        ids |= holders(cursor, blueprint.queue, [scope for scope in missing if scope not in ids], blueprint.period)
        missing = [scope for scope in missing if scope not in ids]
        if not missing:
            return ids, created
    raise StampededError(
        f"The jobs that hold the dedup scope of a {blueprint.task!r} kept ending while it was enqueued: enqueue it again."
    )


def _in_one(blueprint: Blueprint, using: str) -> AbstractContextManager[Any]:
    """A transaction, for a job that takes more than one statement."""
    return transaction.atomic(using=using) if blueprint.parents or blueprint.batch else nullcontext()


def _check_batch(cursor: CursorWrapper, blueprint: Blueprint) -> None:
    """Asks beforehand whether the batch is open, and keeps it so: the trigger's refusal would spoil the transaction."""
    if blueprint.batch is not None:
        require_open(cursor, blueprint.batch)


def require_open(cursor: Any, batch: UUID) -> None:
    """Keeps a batch from finishing before this transaction has ended. Raises BatchFinished where it has already."""
    if not batch_functions.batch_is_open(cursor, batch):
        raise BatchFinished(
            f"Batch {batch} has finished, or is unknown in this database: add to it before it ends, or open another one."
        )


def _bind(cursor: CursorWrapper, blueprint: Blueprint, jobs: Sequence[EnqueuedJob]) -> None:
    created = [job.id for job in jobs if job.created] if blueprint.parents else []
    if created:
        batch_functions.depend(cursor, blueprint.queue, created, blueprint.parents, blueprint.on_discard)


def _check_sizes(cursor: CursorWrapper, blueprint: Blueprint, args: Iterable[str]) -> None:
    """Asks the database how large what may be too large is: a CHECK that fails would spoil the transaction."""
    if max(len(blueprint.meta), *map(len, args)) <= SURELY_FITS:
        return
    for path, text in (*(("args", each) for each in args), ("meta", blueprint.meta)):
        if len(text) > SURELY_FITS:
            cursor.execute("SELECT pg_column_size(%s::jsonb)", [text])
            size = cursor.fetchone()[0]
            if size > MAX_BYTES:
                raise too_large(path, size, MAX_BYTES)


def _announce(jobs: Sequence[EnqueuedJob], using: str) -> None:
    if not (job_enqueued.receivers or job_replaced.receivers):
        return
    for job in jobs:
        if job.created or job.replaced:
            signal = job_enqueued if job.created else job_replaced
            signal.send_robust(sender=EnqueuedJob, job=job, using=using)


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
        # By name, since an iterable of arguments may query tables of its own.
        if isinstance(exc, ProgrammingError) and '"stampeded_jobs"' in str(exc) and _undefined_table(exc):
            raise SchemaMismatch(
                f"The database {using!r} has no table for jobs: run manage.py migrate --database {using}."
            ) from exc
        raise


def _undefined_table(exc: ProgrammingError) -> bool:
    return getattr(exc.__cause__, "sqlstate", None) == "42P01"
