"""Batches: many jobs, and one callback when all of them have ended.

Owns the public Batch. Counting the jobs, and the callback that comes exactly once whoever ends the last of them, are in SQL
(stampeded_finish_batches); writing the jobs is enqueueing.py's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import partial
from json import loads
from types import TracebackType
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import connections, transaction

from django_stampeded import batch_functions
from django_stampeded.encoding import safe_text
from django_stampeded.enqueueing import EnqueuedJob, require_open
from django_stampeded.exceptions import BatchFinished, InvalidOption
from django_stampeded.options import checked
from django_stampeded.results import database
from django_stampeded.tasks import Call, Task, task_by_name

logger = logging.getLogger("django_stampeded.batches")

LONGEST_REASON = 4000
CANCEL_PAUSES_S = (0.0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.65)
"""Between the tries to cancel what others lock: whoever records how jobs ended is through in an instant."""

running_batch: ContextVar[tuple[UUID | None, str]] = ContextVar("stampeded_batch", default=(None, ""))
"""The batch of the job that this code runs in, and the alias of its database."""


class Batch:
    """Jobs that belong together. Opened by `with`, `async with` or `open()`; it takes jobs until it has finished.

    It finishes once it is sealed, all its jobs are completed, discarded or cancelled, and the batches within it have finished.

    Args:
        name: 1 to 255 characters, for people.
        on_complete: a task, or one `with_args`, to enqueue when the batch has finished.
        on_success: likewise, if every job was completed in the end.
        on_failure: likewise, when the first job is discarded or cancelled; the batch then goes on.
        parent: a batch, or the id of one, whose end waits for this one's.
        meta: JSON of your own, kept with the batch.
        atomic: whether a `with` block is one transaction: an error inside then leaves nothing, and no job starts before the
            block has ended. Without, jobs start while others are being added, and an error leaves the batch open, with what
            it has, for whoever finds it by its id to add the rest and seal it. `async with` takes False alone.
        using: a database alias, None for the router's choice.

    Raises InvalidOption for what is none of these.

    Example:
        with Batch("import 42", on_complete=report.with_args(import_id=42)) as batch:
            batch.enqueue_many(import_row, ({"row": row} for row in rows))
    """

    def __init__(
        self,
        name: str,
        *,
        on_complete: Task[..., Any] | Call | None = None,
        on_success: Task[..., Any] | Call | None = None,
        on_failure: Task[..., Any] | Call | None = None,
        parent: Batch | UUID | None = None,
        meta: dict[str, Any] | None = None,
        atomic: bool = True,
        using: str | None = None,
    ) -> None:
        self._name: str | None = checked({"name": name})["name"]
        given = zip(batch_functions.EVENTS, (on_complete, on_success, on_failure), strict=True)
        self._callbacks = {event: _job_of(event, callback) for event, callback in given if callback is not None}
        self.parent_id: UUID | None = checked({"batch": parent})["batch"]
        self._meta = checked({"meta": meta or {}})["meta"]
        self._id: UUID | None = None
        self._block = atomic
        self._using = using
        self._transaction: AbstractContextManager[Any] | None = None
        self._tasks: dict[int, tuple[Any, Task[..., Any]]] = {}

    @classmethod
    def get(cls, id: UUID, *, using: str | None = None) -> Batch:
        """The batch of that id, open or finished. Raises BatchFinished for an unknown one.

        Example: `Batch.get(job.meta["batch"]["id"]).counts()`
        """
        id = UUID(str(id))
        with connections[database(using)].cursor() as cur:
            if batch_functions.batch(cur, id) is None:
                raise BatchFinished(f"Batch {id} is unknown in this database: it was never opened here, or is pruned.")
        return cls._known(id, using)

    @classmethod
    def current(cls) -> Batch | None:
        """The batch of the job that this code runs in, None outside of one.

        Example: `Batch.current().enqueue(import_row, row=5)`
        """
        id, using = running_batch.get()
        return None if id is None else cls._known(id, using)

    @classmethod
    def _known(cls, id: UUID, using: str | None) -> Batch:
        found = cls("known", using=using)
        found._id, found._name = id, None
        return found

    @property
    def name(self) -> str:
        """Its name."""
        if self._name is None:
            self._name = self._row().name
        return self._name

    @property
    def id(self) -> UUID:
        """Its id. Raises BatchFinished before it is opened."""
        if self._id is None:
            raise BatchFinished(f"Batch {self.name!r} is not open yet: enter it by `with`, or call open() first.")
        return self._id

    @property
    def using(self) -> str:
        """The alias of the database that it is in."""
        return database(self._using)

    def open(self) -> Batch:
        """Writes the batch, in the transaction in progress, and returns it. Raises BatchFinished for a parent that has."""
        if self._id is not None:
            raise InvalidOption(f"Batch {self.name!r} is open already: make a new Batch for other jobs.")
        with transaction.atomic(using=self.using), connections[self.using].cursor() as cur:
            if self.parent_id is not None:
                require_open(cur, self.parent_id)
            self._id = batch_functions.open_batch(cur, self.name, self._callbacks, self.parent_id, self._meta)
        return self

    def enqueue(self, task: str | Task[..., Any], /, **args: Any) -> EnqueuedJob:
        """Enqueues a job of the batch, as `Task.enqueue` does. Raises BatchFinished once the batch has finished.

        Example: `batch.enqueue(import_row.using(priority=5), row=7)`
        """
        return self._mine(task).enqueue(**args)

    def enqueue_many(self, task: str | Task[..., Any], many: Iterable[dict[str, Any]], /) -> list[EnqueuedJob]:
        """Enqueues many jobs of the batch, as `Task.enqueue_many` does. Raises BatchFinished once the batch has finished."""
        return self._mine(task).enqueue_many(many)

    async def aenqueue(self, task: str | Task[..., Any], /, **args: Any) -> EnqueuedJob:
        """`enqueue` for async code."""
        return await sync_to_async(partial(self.enqueue, task, **args))()

    async def aenqueue_many(self, task: str | Task[..., Any], many: Iterable[dict[str, Any]], /) -> list[EnqueuedJob]:
        """`enqueue_many` for async code."""
        return await sync_to_async(self.enqueue_many)(task, many)

    def seal(self) -> None:
        """Says that all jobs are in: from now on the batch may finish. Its own jobs may still add others."""
        with connections[self.using].cursor() as cur:
            batch_functions.seal_batch(cur, self.id)
        # Its jobs may all have ended before. After the commit, or else this one's own part would not be seen.
        transaction.on_commit(self._finish, using=self.using, robust=True)

    def cancel(self, reason: str = "") -> int:
        """Cancels its jobs that are not final, running ones too, and those of the batches within it; returns how many.

        It is sealed by that, and finishes as any other batch with cancelled jobs. `reason` goes on record with each job. A job
        whose own transaction holds it locked for longer than two seconds is left to run. Does nothing once it has finished.

        Example: `Batch.get(id).cancel("the import was withdrawn")`
        """
        cancelled = 0
        for pause in CANCEL_PAUSES_S:
            time.sleep(pause)
            done, more = self._cancel_free_ones(reason)
            cancelled += done
            if not more:
                break
        transaction.on_commit(partial(self._finish, within=True), using=self.using, robust=True)
        return cancelled

    async def acancel(self, reason: str = "") -> int:
        """`cancel` for async code."""
        return await sync_to_async(self.cancel)(reason)

    def _cancel_free_ones(self, reason: str) -> tuple[int, bool]:
        """Cancel what nobody locks, some at a time, so that no transaction is long."""
        cancelled = 0
        with connections[self.using].cursor() as cur:
            while True:
                done = batch_functions.cancel_batch(cur, self.id, safe_text(str(reason or ""), LONGEST_REASON) or None)
                cancelled += done.cancelled
                if not done.cancelled or not done.more:
                    return cancelled, done.more

    def counts(self) -> dict[str, int]:
        """How many of its jobs are in each state, exactly; states without jobs are left out. Once it has finished: then."""
        with connections[self.using].cursor() as cur:
            return batch_functions.batch_counts(cur, self.id)

    @property
    def finished(self) -> bool:
        """Whether all its jobs have ended, and its callbacks are enqueued."""
        return self._row().finished

    @property
    def succeeded(self) -> bool | None:
        """Whether all its jobs were completed; None before it has finished."""
        return self._row().succeeded

    @property
    def callback_error(self) -> str | None:
        """Why a callback could not be enqueued, None where all went well."""
        return self._row().callback_error

    def __enter__(self) -> Batch:
        if self._block:
            self._transaction = transaction.atomic(using=self.using)
            self._transaction.__enter__()
        try:
            return self.open()
        except BaseException as exc:
            self._leave(type(exc), exc, exc.__traceback__)
            raise

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None:
        if kind is None:
            try:
                self.seal()
            except BaseException as error:
                self._leave(type(error), error, error.__traceback__)
                raise
        elif not self._block:
            logger.warning(
                "Batch %s (%s) was left open by an error: its jobs run, and it finishes once somebody seals it. "
                "Add what is missing by Batch.get(id), then seal it.",
                self._id,
                self.name,
            )
        self._leave(kind, exc, traceback)

    async def __aenter__(self) -> Batch:
        if self._block:
            raise InvalidOption("An async block can't be one transaction: give the batch atomic=False, or use it by `with`.")
        return await sync_to_async(self.__enter__)()

    async def __aexit__(self, *error: Any) -> None:
        await sync_to_async(self.__exit__)(*error)

    def _leave(self, *error: Any) -> None:
        block, self._transaction = self._transaction, None
        if block is not None:
            block.__exit__(*error)

    def _row(self) -> batch_functions.BatchRow:
        with connections[self.using].cursor() as cur:
            row = batch_functions.batch(cur, self.id)
        if row is None:
            raise BatchFinished(f"Batch {self.id} is unknown in this database: it was rolled back, or is pruned.")
        return row

    def _finish(self, within: bool = False) -> None:
        """See whether it has finished; `within`: the batches within it first, which one finds by looking at all open ones."""
        with connections[self.using].cursor() as cur:
            batch_functions.finish_batches(cur, None if within else [self.id])

    def _mine(self, task: str | Task[..., Any]) -> Task[..., Any]:
        """The task with this batch as an option, made once for each: its statements are kept with it."""
        if isinstance(task, str):
            task = task_by_name(task)
        elif not isinstance(task, Task):
            raise InvalidOption(f"A batch takes a task or the name of one, not {type(task).__name__}.")
        known = self._tasks.get(id(task))
        if known is None:
            known = self._tasks[id(task)] = (task, task.using(batch=self.id, using=self.using))
        return known[1]

    def __repr__(self) -> str:
        return f"<Batch {self._id or self._name}>"


def _job_of(event: str, callback: Any) -> dict[str, Any]:
    """A callback as the columns of the job to come."""
    call = Call.of(callback, event)
    columns = call.task.columns_of_job(call.args)
    for column, option in (("scheduled_at", "run_after"), ("dedup_scope", "dedup"), ("batch_id", "batch")):
        if column in columns:
            raise InvalidOption(f"{event} can't have {option}: it is enqueued once, when the batch has come so far.")
    if call.task.depends_on:
        raise InvalidOption(f"{event} can't have depends_on: it is enqueued when the batch has come so far.")
    return {**columns, "args": loads(columns["args"]), "meta": loads(columns["meta"])}
