"""A job's view of itself while it runs: the JobContext, and how code deep inside the job finds it.

Owns what user code may call. Its statements run on Django's connection of the calling thread, so a checkpoint inside
`transaction.atomic()` commits or rolls back with the work it stands for.
"""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from datetime import datetime
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import connections

from django_stampeded import batch_functions, functions
from django_stampeded.batches import Batch, running_batch
from django_stampeded.conf import settings
from django_stampeded.encoding import encode_value
from django_stampeded.exceptions import LeaseLost
from django_stampeded.worker.lease import Lease
from django_stampeded.worker.raw_json import loaded

MAX_CHECKPOINT_BYTES = 65_536

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

    __slots__ = ("_lease", "_alias", "_calls", "id", "queue", "task", "attempt", "max_attempts")

    def __init__(self, lease: Lease, alias: str) -> None:
        job = lease.job
        self._lease = lease
        self._alias = alias
        self._calls = 0
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
        return loaded(self._lease.job.checkpoint)

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
            every: of so many calls only one writes, for loops with small steps.

        Raises LeaseLost when the job is no longer this attempt's, which also rolls back a surrounding `atomic()`;
        InvalidArguments for what JSON can't hold.

        Example: `job.checkpoint(cursor=row.pk)`
        """
        self._calls += 1
        if self._calls % every:
            return
        value = fields if state is _UNSET else state
        text = encode_value(value, path="checkpoint", limit=MAX_CHECKPOINT_BYTES)
        with connections[self._alias].cursor() as cur:
            number = functions.checkpoint(cur, self._lease.ack, self._lease.worker_id, json.loads(text))
        if number is None:
            self._lease.lost = True
            raise LeaseLost(
                f"Job {self.id} is no longer this attempt's ({self.attempt}): it was taken back or ended elsewhere. "
                "Stop; nothing that this attempt does is recorded."
            )

    async def atouch(self) -> bool:
        """`touch` for async jobs."""
        return await sync_to_async(self.touch)()

    async def acheckpoint(self, state: Any = _UNSET, /, *, every: int = 1, **fields: Any) -> None:
        """`checkpoint` for async jobs."""
        await sync_to_async(self.checkpoint)(state, every=every, **fields)

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
