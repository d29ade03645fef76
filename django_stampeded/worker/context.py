"""A job's view of itself while it runs: the JobContext, and how code deep inside the job finds it.

Owns what user code may call. Its statements run on Django's connection of the calling thread, so a checkpoint inside
`transaction.atomic()` commits or rolls back with the work it stands for.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import nullcontext
from contextvars import ContextVar
from datetime import datetime
from functools import partial
from typing import Any, ParamSpec, TypeVar, overload
from uuid import UUID

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.db import IntegrityError, connections, transaction

from django_stampeded import batch_functions, functions, progress_functions
from django_stampeded.batches import Batch, running_batch
from django_stampeded.conf import settings
from django_stampeded.encoding import encode_value
from django_stampeded.exceptions import Discard, InvalidArguments, InvalidStep, LeaseLost
from django_stampeded.step_record import STEPS, has_steps, state_of, with_state
from django_stampeded.worker import steps
from django_stampeded.worker.lease import Lease
from django_stampeded.worker.progress import progress
from django_stampeded.worker.raw_json import loaded

MAX_CHECKPOINT_BYTES = 65_536

P = ParamSpec("P")
Row = TypeVar("Row")

_UNSET: Any = object()
running_lease: ContextVar[Lease | None] = ContextVar("stampeded_lease", default=None)
"""The lease of the job that this code runs in."""
_alias_of_job: ContextVar[str] = ContextVar("stampeded_alias")


def enter(lease: Lease, alias: str) -> None:
    """The job of `lease`, which is in the database of `alias`, runs in the current context from here on."""
    running_lease.set(lease)
    running_batch.set((lease.job.batch_id, alias))
    _alias_of_job.set(alias)


class JobContext:
    """The handle to a running job. Get it by `@task(takes_context=True)` or from `current_job()`.

    id, queue, task, attempt (1 for the first), max_attempts: as on the job's row.
    """

    __slots__ = ("_lease", "_alias", "_unwritten", "_steps", "id", "queue", "task", "attempt", "max_attempts")

    def __init__(self, lease: Lease, alias: str) -> None:
        job = lease.job
        self._lease = lease
        self._alias = alias
        self._unwritten = 0
        self._steps: steps.Steps | None = None
        self.id: UUID = job.id
        self.queue = job.queue
        self.task = job.task
        self.attempt = job.attempt
        self.max_attempts = job.max_attempts

    @property
    def args(self) -> dict[str, Any]:
        """The arguments as JSON holds them, before they were decoded for the function."""
        return loaded(self._lease.job.args)

    @property
    def meta(self) -> dict[str, Any]:
        """The runtimes' context that was enqueued with the job."""
        return loaded(self._lease.job.meta)

    @property
    def checkpointed(self) -> Any:
        """The latest checkpoint of the attempts before this one, None where there is none."""
        return state_of(loaded(self._lease.job.checkpoint))

    @property
    def enqueued_at(self) -> datetime:
        """When the job was enqueued."""
        return self._lease.job.inserted_at

    @property
    def worker_id(self) -> UUID:
        """The worker that runs it."""
        return self._lease.worker_id

    @property
    def batch(self) -> Batch | None:
        """The batch that the job belongs to, None where it belongs to none.

        Example: `job.batch.enqueue(import_row, row=5)`
        """
        id = self._lease.job.batch_id
        return None if id is None else Batch._known(id, self._alias)

    @property
    def parent_results(self) -> list[Any]:
        """What the jobs that this one depends on have returned, in the order in which they were given to depends_on.

        None stands for one that keeps no result (store_result), was discarded, or whose result has expired.
        """
        ids = [UUID(id) for id in self.meta.get("depends_on", ())]
        if not ids:
            return []
        with connections[self._alias].cursor() as cur:
            found = batch_functions.results(cur, ids)
        return [found.get(id) for id in ids]

    @property
    def lost(self) -> bool:
        """Whether somebody else has decided this job's fate: whatever this attempt still does is not recorded."""
        return self._lease.lost

    @property
    def cancelled(self) -> bool:
        """Whether the job was cancelled while it runs. Known within about a second; soon
        after that the job is interrupted."""
        return self._lease.cancelled

    def touch(self) -> bool:
        """Say that the job is alive. False when it is no longer this attempt's. The worker does it too, every few seconds.

        Example: `if not job.touch(): return`
        """
        with connections[self._alias].cursor() as cur:
            owned = functions.touch(cur, self._lease.ack, self._lease.worker_id)
        self._lease.lost = self._lease.lost or not owned
        return owned

    def checkpoint(self, state: Any = _UNSET, /, *, every: int = 1, **fields: Any) -> None:
        """Store where the job stands, for the next attempt to find in `checkpointed`.

        Args:
            state: any value that JSON can hold, at most 64 KiB of it; or give named fields, which make a dict.
            every: of so many calls only one writes, for loops with small steps; those since the last one that wrote count.

        Raises LeaseLost when the job is no longer this attempt's, which also rolls back a surrounding `atomic()`;
        InvalidArguments for what JSON can't hold.

        Example: `job.checkpoint(cursor=row.pk)`
        """
        if not isinstance(every, int) or every < 1:
            raise InvalidArguments("checkpoint: every is a number of calls, 1 or more.", argument="every")
        self._unwritten += 1
        if self._unwritten < every:
            return
        text = encode_value(fields if state is _UNSET else state, path="checkpoint", limit=MAX_CHECKPOINT_BYTES)
        value = json.loads(text)
        if has_steps(value):
            raise InvalidArguments(f"checkpoint: the key {STEPS} is for steps, use job.step().", argument="checkpoint")
        ack, worker_id = self._lease.ack, self._lease.worker_id
        beside_steps = self._steps is not None or has_steps(loaded(self._lease.job.checkpoint))
        whole = transaction.atomic(using=self._alias) if beside_steps else nullcontext()
        with whole, connections[self._alias].cursor() as cur:
            if beside_steps:
                value = with_state(progress_functions.locked_checkpoint(cur, ack, worker_id), value)
            number = functions.checkpoint(cur, ack, worker_id, value)
        self._owned(number)
        self._unwritten = 0

    def _owned(self, number: int | None) -> None:
        if number is None:
            self._lease.lost = True
            raise self._not_ours()

    def _not_ours(self) -> LeaseLost:
        return LeaseLost(
            f"Job {self.id} is no longer this attempt's ({self.attempt}): it was taken back or ended elsewhere. "
            "Stop; nothing that this attempt does is recorded."
        )

    def _check_lease(self) -> None:
        """Raises LeaseLost once the job is known to be no longer this attempt's."""
        if self._lease.lost:
            raise self._not_ours()

    @overload
    def step(self, name: str, /, *, cursor: Any = 0) -> steps.Step: ...

    @overload
    def step(self, name: str, fn: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Any: ...

    def step(self, name: str, fn: Callable[..., Any] | None = None, /, *args: Any, **kwargs: Any) -> Any:
        """Do one step of the job, once over all its attempts.

        Args:
            name: the step's own within the job, 1 to 255 characters. Keep it over deploys: one renamed runs anew.
            fn: called with the other arguments; what it returned is kept, as JSON of at most 8 KiB. Without it, give the
                cursor to begin with (0 if left out) and use the Step in a `with`.

        Returns what `fn` returned in the attempt that finished the step, as JSON gives it back; or a Step.

        Raises InvalidStep for a name that ran in this attempt already, Discard for a result that can't be kept, LeaseLost
        as `checkpoint`, where that is known without calling `fn`. The record commits with the work inside `atomic()`.

        Example: `charge = job.step("charge", payments.charge, order.pk)`
        """
        if fn is None:
            cursor = kwargs.pop("cursor", 0)
            if kwargs:
                raise InvalidStep(f'Step "{name}": without a function it takes a cursor and nothing else.')
            return steps.Step(self._ensured_steps(), name, cursor)
        if iscoroutinefunction(fn):
            raise InvalidStep(f'Step "{name}": its function is async, use `await job.astep(...)`.')
        return self._ensured_steps().run(name, partial(fn, *args, **kwargs))

    def _ensured_steps(self) -> steps.Steps:
        self._check_lease()  # before the step's work is done, which nobody could record
        if self._steps is None:
            self._steps = steps.Steps(loaded(self._lease.job.checkpoint), self._write_step, self._read_checkpoint)
        return self._steps

    def _read_checkpoint(self) -> Any:
        with transaction.atomic(using=self._alias), connections[self._alias].cursor() as cur:
            return progress_functions.locked_checkpoint(cur, self._lease.ack, self._lease.worker_id)

    def _write_step(self, name: str, entry: steps.Entry) -> None:
        try:
            with connections[self._alias].cursor() as cur:
                self._owned(progress_functions.store_step(cur, self._lease.ack, self._lease.worker_id, name, entry))
        except IntegrityError:
            raise Discard(
                f'step "{name}" can\'t be recorded: the steps of a job take at most {MAX_CHECKPOINT_BYTES} bytes together, so '
                "return ids rather than data."
            ) from None

    def progress(self, done: float, total: float | str | None = None, message: str = "") -> None:
        """Say how far the job is, for people to see while it runs, in a transaction of its own too.

        Costs the job next to nothing, however often: the worker writes the latest about once a second.

        Args:
            done: units done, 0 or more; fractions are cut off.
            total: units in all, where that is known. A text here is the message, and `done` is in percent.
            message: what the job is at; the first 255 characters are shown.

        Raises InvalidArguments for what is no number.

        Example: `job.progress(4, 10, "page 4")`, or `job.progress(40, "page 4 of 10")`
        """
        self._lease.note(progress(done, total, message))

    def track(self, rows: Iterable[Row], total: int | None = None, message: str = "", *, start: int = 0) -> Iterator[Row]:
        """Go through `rows`, saying after each how far the job is.

        Args:
            rows: anything to iterate over.
            total: how many they are, where `len(rows)` doesn't tell.
            message: as for `progress`.
            start: how many were done before, as by an earlier attempt; they are part of the total, not of `rows`.

        Example: `for row in job.track(csv.reader(file), total=lines): ...`
        """
        if total is None and isinstance(rows, Sized):
            total = start + len(rows)
        self.progress(start, total, message)
        for done, row in enumerate(rows, start + 1):
            yield row
            self.progress(done, total, message)

    async def atouch(self) -> bool:
        """`touch` for async jobs."""
        return await sync_to_async(self.touch)()

    async def acheckpoint(self, state: Any = _UNSET, /, *, every: int = 1, **fields: Any) -> None:
        """`checkpoint` for async jobs."""
        await sync_to_async(self.checkpoint)(state, every=every, **fields)

    async def astep(self, name: str, fn: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """`step` with a function, for async jobs: the function may be async or not.

        For a step with a cursor use `async with job.step("mail", cursor=0) as step:` and `await step.aadvance(...)`.
        """
        call = fn if iscoroutinefunction(fn) else sync_to_async(fn)
        return await self._ensured_steps().arun(name, partial(call, *args, **kwargs))

    def __repr__(self) -> str:
        return f"<JobContext {self.id} {self.task} attempt {self.attempt}>"


def context_of(lease: Lease, alias: str) -> JobContext:
    """The one context of a lease, made when first asked for."""
    if not isinstance(lease.context, JobContext):
        lease.context = JobContext(lease, alias)
    return lease.context


def current_job() -> JobContext | None:
    """The job that this code runs in, None outside of one. Works in async jobs and in what they call by sync_to_async.

    Example: `if (job := current_job()) is not None: job.touch()`
    """
    lease = running_lease.get()
    if lease is None:
        return None
    return context_of(lease, _alias_of_job.get(settings.DATABASE))


class JobFields(logging.Filter):
    """Gives every log record of a job `job_id`, `job_task` and `job_queue`; empty texts outside of one.

    The worker does this to every record by itself. Add the filter to a handler of other processes whose format names
    the fields: `"filters": {"job": {"()": "django_stampeded.worker.context.JobFields"}}`.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields; keep every record."""
        _add_fields(record)
        return True


def _add_fields(record: logging.LogRecord) -> None:
    lease = running_lease.get()
    job = None if lease is None else lease.job
    record.job_id = "" if job is None else str(job.id)
    record.job_task = "" if job is None else job.task
    record.job_queue = "" if job is None else job.queue


def name_jobs_in_logs() -> None:
    """Give every log record of this process the fields of JobFields, whatever handlers the project has."""
    before = logging.getLogRecordFactory()
    if getattr(before, "names_jobs", False):
        return

    def factory(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = before(*args, **kwargs)
        _add_fields(record)
        return record

    factory.names_jobs = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(factory)
