"""Tasks: functions that can be enqueued, and the options their jobs are enqueued with.

Owns the public `Task`, `enqueue` and `task_by_name`. Checks the arguments (arguments.py) and options (options.py), then
leaves the writing to enqueueing.py and the running to the worker. Functions are made into tasks in declaring.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Generic, Literal, ParamSpec, TypeVar, Unpack
from uuid import UUID

from asgiref.sync import iscoroutinefunction, sync_to_async

from django_stampeded import registry
from django_stampeded.arguments import Signature
from django_stampeded.conf import settings
from django_stampeded.encoding import encode
from django_stampeded.enqueueing import Blueprint, Column, EnqueuedJob, insert, insert_many
from django_stampeded.exceptions import InvalidArguments, InvalidOption, UnknownTask
from django_stampeded.options import LONGEST_BASE_MS, OF_THE_FUNCTION, Options, checked
from django_stampeded.timing import TIMETABLE_OPTIONS, Timetable

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Task(Generic[P, R]):
    """A function that can be enqueued. Made by `@task`, or by `task_by_name` for one in another language.

    name: what jobs call it. aliases: names it had before, whose waiting jobs it still runs.
    func: the function, None where another language has it. takes_context: it gets a JobContext as first argument.
    queue_name: None means the setting DEFAULT_QUEUE. priority: -32768 to 32767, lower runs first.
    run_after: a datetime with time zone, or a timedelta from now by the database's clock. tenant, destination, limit_key: text
    by which a queue's limits can tell jobs apart.
    dedup: while an unfinished job of the queue has this scope, no second one is written. unique: a scope made from "args",
    from the arguments named in a list, or from the "task" alone. unique_for: minute, hour, day, week or month, the scope
    then stays taken until that period (UTC) ends; None means until the job has finished. on_conflict: whether the job that
    has the scope is to "keep" what it has or to "replace" it, while it waits, by the new arguments, meta, priority, time.
    max_attempts: 1 to 32767. max_interruptions, max_deferrals: 0 to 32767.
    expire_seconds: whole seconds without a sign of life until the job is failed. timeout: seconds a run may take, None for
    any number; "setting" stands for the setting TIMEOUT. isolation: "thread", or "process" for one that can be killed.
    transactional: the body, what it enqueues and the job's completion commit in one transaction, or none of them.
    breaker: True for a circuit breaker of the task where its jobs have no destination, False for none at all, a dict for a rule
    of its own (see breaking.Rule); None: the setting BREAKER, for destinations alone.
    retry_on, discard_on: exception classes; what is one of discard_on, or none of retry_on where that is given, discards the
    job. backoff: a function of (attempt, exception) that returns the delay until the next one, in seconds or as a timedelta,
    or None for that of backoff_base and backoff_max: seconds, 0.001 to 2147483.
    dead_letter_queue: where a discarded job is copied to.
    meta: context for one runtime, under that runtime's name. database: alias, None for the router's choice.
    batch: the id of the batch that jobs join. depends_on: the jobs, as (queue, id), that must have ended before; on_discard:
    whether one of those that was discarded or cancelled means to "fail" as well or to "run" all the same.
    store_result: what the function returns is kept, as JSON of at most 64 KiB, for result_ttl seconds.
    timetable: when it runs by itself, made from `cron` or `every` and what goes with them (see timing.timetable).
    """

    do_not_call_in_templates: ClassVar[bool] = True  # Django's templates call whatever can be called: the task itself

    name: str
    func: Callable[P, R] | None = None
    aliases: tuple[str, ...] = ()
    takes_context: bool = False
    queue_name: str | None = None
    priority: int = 0
    run_after: datetime | timedelta | None = None
    tenant: str | None = None
    destination: str | None = None
    limit_key: str | None = None
    dedup: str | None = None
    unique: str | tuple[str, ...] | None = None
    unique_for: str | None = None
    on_conflict: str = "keep"
    max_attempts: int = 25
    max_interruptions: int = 1
    max_deferrals: int = 100
    expire_seconds: int = 3600
    timeout: float | Literal["setting"] | None = "setting"
    isolation: str = "thread"
    transactional: bool = False
    retry_on: tuple[type[BaseException], ...] | None = None
    discard_on: tuple[type[BaseException], ...] = ()
    backoff: Callable[[int, Exception], timedelta | float | None] | None = None
    breaker: dict[str, Any] | bool | None = None
    backoff_base: float = 1.0
    backoff_max: float = 3600.0
    dead_letter_queue: str | None = None
    meta: dict[str, Any] = field(default_factory=dict)
    database: str | None = None
    batch: UUID | None = None
    depends_on: tuple[tuple[str, UUID], ...] = ()
    on_discard: str = "fail"
    store_result: bool = False
    result_ttl: float = 86_400.0
    timetable: Timetable | None = None

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function here and now, as if it were no task."""
        if self.func is None:
            raise UnknownTask(f"Task {self.name!r} has no function in this process: enqueue it instead of calling it.")
        return self.func(*args, **kwargs)

    def using(self, /, **options: Unpack[Options]) -> Task[P, R]:
        """A copy with other options. Raises InvalidOption for an unknown one or a value out of range.

        Example: `import_csv.using(queue_name="mail", run_after=timedelta(minutes=5)).enqueue(path="a.csv")`
        """
        for name in (*OF_THE_FUNCTION, *sorted(TIMETABLE_OPTIONS)):
            if name in options:
                raise InvalidOption(f"{name} belongs to the function: set it with @task({name}=...), not with using().")
        return self._with(checked(options))

    def with_args(self, /, **args: Any) -> Call:
        """This task with arguments, to be enqueued later: by a chain, or as the callback of a batch.

        Raises InvalidArguments as `enqueue` does.

        Example: `chain(fetch.with_args(url=url), parse.with_args(lines=10)).enqueue()`
        """
        self._encoded(args)
        return Call(self, args)

    def enqueue(self, /, *positional: Any, **args: Any) -> EnqueuedJob:
        """Writes a job with these named arguments, in the transaction in progress on its database.

        Returns the job, or with `created=False` the one that already has its dedup scope, which may have taken these
        arguments (`replaced`). Raises InvalidArguments, with nothing written, when a name is wrong or missing or a value is
        no JSON.

        Example: `import_csv.enqueue(path="a.csv").id`
        """
        if positional:
            raise self._refusal()
        return insert(self._current_blueprint(), self._encoded(args))

    async def aenqueue(self, /, *positional: Any, **args: Any) -> EnqueuedJob:
        """`enqueue` for async code; it runs in the thread that Django's connections of the async context live in."""
        if positional:
            raise self._refusal()
        # partial, since an argument may be called self, as sync_to_async's own is.
        return await sync_to_async(functools.partial(self.enqueue, **args))()

    def enqueue_many(self, many: Iterable[dict[str, Any]], /) -> list[EnqueuedJob]:
        """Writes a job for each dict of arguments, all or none, in a few statements.

        `many` may be a generator of any length: a few thousand of its jobs are held at a time. The result is in its
        order. Raises InvalidArguments, with nothing written, as `enqueue` does.

        Example: `import_csv.enqueue_many({"path": path} for path in paths)`
        """
        return insert_many(self._current_blueprint(), many, self._encoded)

    async def aenqueue_many(self, many: Iterable[dict[str, Any]], /) -> list[EnqueuedJob]:
        """`enqueue_many` for async code."""
        return await sync_to_async(self.enqueue_many)(many)

    def columns_of_job(self, args: dict[str, Any], /) -> dict[str, Any]:
        """The columns in which a job with these arguments differs from the table's defaults: for a schedule, which writes it.

        args and meta are JSON texts. Raises InvalidArguments and InvalidOption as `enqueue` does.
        """
        blueprint, text = self._current_blueprint(), self._encoded(args)
        columns = {each.name: each.value for each in blueprint.columns} | {"args": text, "meta": blueprint.meta}
        if blueprint.has_scope:
            columns |= {"dedup_scope": blueprint.scope_of(text), "dedup_period": blueprint.period}
        return columns

    @functools.cached_property
    def signature(self) -> Signature | None:
        """What the function takes, None where another language has it."""
        return None if self.func is None else Signature(self.name, self.func, takes_context=self.takes_context)

    @property
    def time_limit(self) -> float | None:
        """The seconds that a run may take, None for any number."""
        return settings.TIMEOUT if self.timeout == "setting" else self.timeout

    def _with(self, options: dict[str, Any]) -> Task[P, R]:
        if "using" in options:
            options["database"] = options.pop("using")
        copy: Task[P, R] = object.__new__(Task)
        copy.__dict__.update(self.__dict__)
        copy.__dict__.pop("_blueprint", None)
        copy.__dict__.update(options)
        copy._check_together()
        return copy

    def _check_together(self) -> None:
        if self.dedup and self.unique:
            raise InvalidOption(f"Task {self.name!r} has both dedup and unique: give only one of them.")
        if self.transactional and iscoroutinefunction(self.func):
            raise InvalidOption(
                f"Task {self.name!r} can't be transactional: it is async and Django's transactions aren't. Make it a plain def."
            )
        if isinstance(self.unique, tuple) and self.signature and not self.signature.rest:
            unknown = set(self.unique) - self.signature.names
            if unknown:
                raise InvalidOption(f"unique names {min(unknown)!r}, but task {self.name!r} has no such parameter.")

    def _current_blueprint(self) -> Blueprint:
        queue = self.queue_name or settings.DEFAULT_QUEUE
        blueprint: Blueprint | None = self.__dict__.get("_blueprint")
        if blueprint is None or blueprint.queue != queue:
            blueprint = self.__dict__["_blueprint"] = self._blueprint_for(queue)
        return blueprint

    def _blueprint_for(self, queue: str) -> Blueprint:
        for option, given in (("unique_for", self.unique_for is not None), ("on_conflict", self.on_conflict != "keep")):
            if given and not (self.dedup or self.unique):
                raise InvalidOption(f"Task {self.name!r} has {option} without a scope: give it dedup or unique too.")
        if self.on_conflict == "replace" and self.depends_on:
            raise InvalidOption(
                f"Task {self.name!r} has depends_on and on_conflict='replace': what a job waits for can't be replaced, "
                "so use on_conflict='keep'."
            )
        if self.dead_letter_queue == queue:
            raise InvalidOption(f"dead_letter_queue of task {self.name!r} is its own queue: name another one.")
        return Blueprint(
            self.name,
            queue,
            _columns(self),
            meta=encode(self._full_meta(), path="meta"),
            scope=self.dedup,
            unique=self.unique,
            period=self.unique_for,
            replace=self.on_conflict == "replace",
            using=self.database,
            batch=self.batch,
            parents=self.depends_on,
            on_discard=self.on_discard,
        )

    def _full_meta(self) -> dict[str, Any]:
        """The jobs depended on go with the job: what tells the database is gone by the time it runs."""
        if not self.depends_on:
            return self.meta
        return {**self.meta, "depends_on": [str(id) for _, id in self.depends_on]}

    def _encoded(self, args: dict[str, Any]) -> str:
        if not isinstance(args, dict):
            raise InvalidArguments(f"The arguments are of type {type(args).__name__}: pass a dict of named ones.")
        if self.signature is not None:
            self.signature.check(args)
        return encode(args)

    def _refusal(self) -> InvalidArguments:
        return InvalidArguments(f"Task {self.name!r} was given positional arguments: pass them by name.")


@dataclass(frozen=True, slots=True)
class Call:
    """A task with the arguments of one job, not enqueued yet. Made by `Task.with_args`."""

    task: Task[..., Any]
    args: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Any, where: str) -> Call:
        """A call, or a task that takes no arguments, as a call. Raises InvalidOption, which says `where`, for anything else."""
        if isinstance(value, cls):
            return value
        if isinstance(value, Task):
            return value.with_args()
        raise InvalidOption(f"{where} takes a task, or one with_args(...), not {type(value).__name__}.")


def task_by_name(name: str) -> Task[..., Any]:
    """The registered task of that name or alias, or a Task for one that only another language's workers know.

    For the latter, arguments are checked as JSON alone. Raises InvalidOption for a name that is empty or too long.

    Example: `task_by_name("invoice.parse").using(queue_name="rust").enqueue(path="a.pdf")`
    """
    found = registry.get(name) if isinstance(name, str) else None
    return found or Task(**checked({"name": name}))


def enqueue(task: str | Task[..., Any], /, **args: Any) -> EnqueuedJob:
    """Enqueues a task by its name. See `Task.enqueue`, and `task_by_name` for options.

    Example: `enqueue("invoice.parse", path="a.pdf")`
    """
    return _task_of(task).enqueue(**args)


async def aenqueue(task: str | Task[..., Any], /, **args: Any) -> EnqueuedJob:
    """`enqueue` for async code."""
    return await _task_of(task).aenqueue(**args)


def enqueue_many(task: str | Task[..., Any], many: Iterable[dict[str, Any]], /) -> list[EnqueuedJob]:
    """Enqueues many jobs of a task given by its name. See `Task.enqueue_many`.

    Example: `enqueue_many("invoice.parse", [{"path": "a.pdf"}, {"path": "b.pdf"}])`
    """
    return _task_of(task).enqueue_many(many)


async def aenqueue_many(task: str | Task[..., Any], many: Iterable[dict[str, Any]], /) -> list[EnqueuedJob]:
    """`enqueue_many` for async code."""
    return await _task_of(task).aenqueue_many(many)


def _task_of(task: str | Task[..., Any]) -> Task[..., Any]:
    return task if isinstance(task, Task) else task_by_name(task)


def _columns(task: Task[..., Any]) -> list[Column]:
    """The columns in which the task's jobs differ from the table's defaults."""
    columns = [
        Column(name, value, f"CAST(%s AS {kind})")
        for name, kind, value, default in (
            ("tenant_id", "text", task.tenant, None),
            ("destination", "text", task.destination, None),
            ("limit_key", "text", task.limit_key, None),
            ("dead_letter_queue", "text", task.dead_letter_queue, None),
            ("batch_id", "uuid", task.batch, None),
            ("priority", "smallint", task.priority, 0),
            ("max_attempts", "smallint", task.max_attempts, 25),
            ("max_interruptions", "smallint", task.max_interruptions, 1),
            ("max_deferrals", "smallint", task.max_deferrals, 100),
            ("expire_seconds", "integer", task.expire_seconds, 3600),
            ("backoff_base_ms", "smallint", min(round(task.backoff_base * 1000), LONGEST_BASE_MS), 1000),
            ("backoff_max_ms", "integer", round(task.backoff_max * 1000), 3_600_000),
        )
        if value != default
    ]
    if isinstance(task.run_after, timedelta):
        columns.append(Column("scheduled_at", task.run_after, "now() + CAST(%s AS interval)"))
    elif task.run_after is not None:
        columns.append(Column("scheduled_at", task.run_after, "CAST(%s AS timestamptz)"))
    return columns
