"""Tasks for tests. What a job did is recorded in the table `effects`, which the tests make."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextvars import ContextVar

from django.db import connection, connections, transaction
from django.dispatch import receiver

from django_stampeded import Batch, Cancel, Discard, JobContext, RetryIn, Snooze, current_job, task
from django_stampeded.signals import job_started
from tests.testapp import long_jobs  # noqa: F401  its tasks are found as these here are

EFFECTS = "CREATE TABLE IF NOT EXISTS effects (n bigint, job uuid, attempt int, at timestamptz DEFAULT clock_timestamp())"


def record(n: int) -> None:
    """Leave a trace of the job that runs."""
    job = current_job()
    with connection.cursor() as cur:
        cur.execute("INSERT INTO effects (n, job, attempt) VALUES (%s, %s, %s)", [n, job and job.id, job and job.attempt])


@task
def noop(n: int = 0) -> None:
    """Nothing."""


@task
async def async_noop(n: int = 0) -> None:
    """Nothing, asynchronously."""


@task
def effect(n: int, seconds: float = 0.0) -> None:
    """Work for a while, then leave a trace."""
    time.sleep(seconds)
    record(n)


@task
def begin_and_end(n: int, seconds: float) -> None:
    """A trace at the beginning (negative) and one at the end."""
    record(-n)
    time.sleep(seconds)
    record(n)


@task
def sleep(seconds: float) -> None:
    """Wait."""
    time.sleep(seconds)


@task(max_attempts=3, backoff_base=0.001, backoff_max=0.001)
def fail(text: str = "failed") -> None:
    """Raise."""
    raise ValueError(text)


@task(backoff_base=0.001, backoff_max=0.001)
def fail_until(attempt: int) -> None:
    """Raise until that attempt."""
    if current_job().attempt < attempt:
        raise ValueError("not yet")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


class Huge(Exception):
    def __str__(self) -> str:
        return "x" * 50_000_000


ODD_ERRORS = {
    "nul": lambda: ValueError("a\x00b"),
    "surrogate": lambda: ValueError("\udcff"),
    "unprintable": Unprintable,
    "huge": Huge,
    "bytes": lambda: ValueError(b"\x00\xff"),
    "exit": lambda: SystemExit(3),
    "interrupt": KeyboardInterrupt,
}


@task(max_attempts=1)
def fail_oddly(kind: str) -> None:
    """Raise what is hard to write down."""
    raise ODD_ERRORS[kind]()


@task
def end_as(outcome: str) -> None:
    """Raise an outcome, at the first attempt only."""
    if rerun():
        return
    raise {"retry": RetryIn(0.05, "soon"), "snooze": Snooze(0.05), "cancel": Cancel("why"), "discard": Discard("why")}[outcome]


def rerun() -> bool:
    """Whether this job ran before; leaves a trace."""
    job = current_job()
    with connection.cursor() as cur:
        cur.execute("SELECT count(*) FROM effects WHERE job = %s", [job.id])
        before = cur.fetchone()[0]
    record(job.attempt)
    return bool(before)


@task(timeout=0.2, max_attempts=1)
def loop_for_ever() -> None:
    """Never end by itself."""
    while True:
        time.sleep(0.01)


@task
def until_told(limit: float = 60.0) -> None:
    """Run until the job is cancelled or its lease lost."""
    job = current_job()
    until = time.monotonic() + limit
    record(1)
    while time.monotonic() < until:
        if job.lost or job.cancelled:
            record(2)
            return
        time.sleep(0.01)


@task(takes_context=True)
def steps(job: JobContext, upto: int, fail_at: int = -1) -> None:
    """Count from the last checkpoint on."""
    start = (job.checkpointed or {"done": 0})["done"]
    for n in range(start + 1, upto + 1):
        with transaction.atomic():
            record(n)
            if n == fail_at and job.attempt == 1:
                raise RetryIn(0)
            job.checkpoint(done=n)


@task(takes_context=True)
def checkpoint_after_theft(job: JobContext) -> None:
    """Write and checkpoint in one transaction, after somebody took the job away."""
    with connections["default"].cursor() as cur:
        cur.execute("UPDATE stampeded_jobs SET claimed_by = uuidv7() WHERE id = %s", [job.id])
    with transaction.atomic():
        record(1)
        job.checkpoint(1)


@task
async def async_effect(n: int) -> None:
    """Leave a trace from async code."""
    from asgiref.sync import sync_to_async

    await sync_to_async(record)(n)


@task
def enqueue_more(depth: int) -> None:
    """A job that enqueues a job, and so on."""
    record(depth)
    if depth:
        enqueue_more.enqueue(depth=depth - 1)


@task
def enqueue_and_fail(atomic: bool) -> None:
    """Enqueue another job, then fail."""
    if atomic:
        with transaction.atomic():
            noop.using(queue_name="left").enqueue()
            raise Discard("after enqueueing")
    noop.using(queue_name="left").enqueue()
    raise Discard("after enqueueing")


@task
def hog(seconds: float) -> None:
    """Compute in C without letting go of the interpreter's lock."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pow(3, 2_000_000)


@task
def leave_a_mess() -> None:
    """End inside of a transaction, with autocommit off."""
    connection.set_autocommit(False)
    record(1)


@task
def backends(n: int) -> None:
    """Use every database there is."""
    for alias in connections:
        with connections[alias].cursor() as cur:
            cur.execute("SELECT 1")


@task
def log_something() -> None:
    """Log."""
    import logging

    logging.getLogger("tests.testapp").warning("at work")


@task
def user_arguments(user_id: int) -> None:
    """Needs an argument."""
    record(user_id)


@task
def exit_process(status: int) -> None:
    """End the process at once."""
    os._exit(status)


@task
def loop() -> None:
    """A trace, then never an end."""
    record(1)
    while True:
        time.sleep(0.01)


@task(timeout=0.2, max_attempts=1, isolation="process")
def block_in_process(seconds: float) -> None:
    """Wait where no exception reaches."""
    record(1)
    block(seconds)
    record(2)


@task(timeout=0.2, max_attempts=1)
def block_in_thread(seconds: float) -> None:
    """Wait where no exception reaches."""
    record(1)
    block(seconds)


def block(seconds: float) -> None:
    """Sleep inside of a call to C."""
    import ctypes

    ctypes.CDLL(None).usleep(int(seconds * 1e6))


@task(isolation="process", takes_context=True)
def isolated(job: JobContext, n: int, end: str = "") -> None:
    """A trace from a process of the job's own, with its id, and then an end."""
    record(os.getpid())
    if end == "raise":
        raise ValueError(f"number {n}")
    if end == "exit":
        os._exit(n)
    if end == "wait":
        time.sleep(n)
    if end == "checkpoint":
        job.checkpoint(n=n)


@task
def hog_for_ever() -> None:
    """Keep the interpreter's lock inside of a call to C."""
    import ctypes

    record(1)
    ctypes.PyDLL(None).usleep(3_600_000_000)


@task
def hog_at_once(seconds: float) -> None:
    """Keep the interpreter's lock for so long, as a regular expression that backtracks does."""
    import ctypes

    record(1)
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


hoarded: list[bytes] = []


@task
def hoard(n: int) -> None:
    """Take 20 MiB and never give them back."""
    hoarded.append(os.urandom(1) * 20_971_520)
    record(n)


@task
def segfault(n: int = 0) -> None:
    """Read where nothing is."""
    import ctypes

    record(-1)
    ctypes.string_at(0)


@task
def fork_and_terminate() -> None:
    """Start a child process by fork, as multiprocessing does, and end it by SIGTERM."""
    import multiprocessing

    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    child.start()
    child.terminate()
    child.join(30)
    if child.exitcode != -15:
        raise AssertionError(f"the child ended with {child.exitcode}")


@task(store_result=True)
def add(x: int, y: int) -> int:
    """The sum."""
    return x + y


@task(store_result=True)
async def async_add(x: int, y: int) -> int:
    """The sum, asynchronously."""
    return x + y


@task(store_result=True)
def give_back(kind: str) -> object:
    """Something that can't be stored, or nothing."""
    return {"none": None, "set": {1}, "large": "x" * 70_000}[kind]


@task(store_result=True, takes_context=True)
def sum_of_parents(job: JobContext, extra: int = 0) -> int:
    """What the jobs before returned, added up."""
    return sum(job.parent_results, extra)


@task(takes_context=True)
def note_batch(job: JobContext) -> None:
    """A trace of a batch's end: how many of its jobs were completed."""
    record(job.meta["batch"]["counts"].get("completed", 0))


@task
def add_to_batch(more: int) -> None:
    """Enqueue jobs of the same batch, and leave a trace."""
    batch = Batch.current()
    assert batch is not None and batch.name == "growing"
    batch.enqueue_many(effect, [{"n": n} for n in range(more)])
    record(-1)


@task(takes_context=True, max_attempts=1000, max_interruptions=1000, backoff_base=0.05, backoff_max=0.2)
def ordeal(job: JobContext, seconds: float, atomic: bool) -> None:
    """Say that it starts, work, and leave an effect: with its checkpoint in one transaction, or just so."""
    with connection.cursor() as cur:
        cur.execute("INSERT INTO starts (job, attempt, pid) VALUES (%s, %s, %s)", [job.id, job.attempt, os.getpid()])
    time.sleep(seconds)
    if not atomic:
        record(0)
    elif job.checkpointed is None:
        with transaction.atomic():
            record(1)
            job.checkpoint(done=True)


@task(transactional=True, max_attempts=1000, max_interruptions=1000, backoff_base=0.05, backoff_max=0.2)
def ordeal_whole(seconds: float, counter: int) -> None:
    """Work, leave an effect and add one to a counter, in the transaction that completes the job."""
    record(2)
    time.sleep(seconds)
    with connection.cursor() as cur:
        cur.execute("UPDATE counters SET value = value + 1 WHERE id = %s", [counter])


@receiver(job_started)
def note_start(job: JobContext, **_: object) -> None:
    """Say that such a job starts, before its transaction does."""
    if job.task == ordeal_whole.name:
        with connection.cursor() as cur:
            cur.execute("INSERT INTO starts (job, attempt, pid) VALUES (%s, %s, %s)", [job.id, job.attempt, os.getpid()])


ENDINGS: dict[str, Callable[[JobContext], object]] = {}
"""What tests in the worker's own process want the transactional jobs to do, by name."""


@task(transactional=True, takes_context=True, store_result=True, max_attempts=2, backoff_base=0.001, backoff_max=0.001)
def whole(job: JobContext, n: int, ending: str = "") -> int:
    """Leave a trace, a checkpoint and another job, then end as the test wants; all in one transaction."""
    record(n)
    job.checkpoint(n=n)
    noop.using(queue_name="left").enqueue(n=n)
    if ending:
        ENDINGS[ending](job)
    return n


@task(transactional=True, takes_context=True, isolation="process", max_attempts=1, timeout=60)
def whole_in_process(job: JobContext, n: int, ending: str = "") -> None:
    """The same in a process of its own."""
    record(n)
    if ending == "raise":
        raise ValueError("not kept")
    if ending == "exit":
        os._exit(n)
    if ending == "linger":
        transaction.on_commit(lambda: time.sleep(3))


@task(transactional=True, max_attempts=1000, max_interruptions=1000, backoff_base=0.01, backoff_max=0.05)
def increment(counter: int, before: float = 0.0, after: float = 0.0) -> None:
    """Add one to a counter, with some work before and after it."""
    time.sleep(before)
    with connection.cursor() as cur:
        cur.execute("UPDATE counters SET value = value + 1 WHERE id = %s", [counter])
    time.sleep(after)


SEEN: ContextVar[str] = ContextVar("SEEN", default="nothing")


@task
async def async_context(n: int) -> None:
    """Note what the context variable holds, then change it."""
    from asgiref.sync import sync_to_async

    await sync_to_async(record)(0 if SEEN.get() == "nothing" else 1)
    SEEN.set("left by another job")


@task
async def async_leaves_a_task(n: int) -> None:
    """Start a task that outlives the job, or would."""
    from asgiref.sync import sync_to_async

    async def later() -> None:
        await asyncio.sleep(0.3)
        await sync_to_async(record)(1)

    asyncio.get_running_loop().create_task(later())


@task(timeout=0.2, max_attempts=1)
async def async_for_ever() -> None:
    """Never end by itself."""
    await asyncio.sleep(600)


@task(max_attempts=1)
async def async_fail_oddly(kind: str) -> None:
    """Raise what is hard to write down."""
    await asyncio.sleep(0)
    raise ODD_ERRORS[kind]()


@task
async def async_until_cancelled() -> None:
    """Wait for ever, and leave a trace when that ends."""
    from asgiref.sync import sync_to_async

    await sync_to_async(record)(1)
    try:
        await asyncio.sleep(600)
    finally:
        await sync_to_async(record)(2)


@task
async def async_nested(n: int) -> None:
    """Async code that calls plain code that calls async code that uses the ORM."""
    from asgiref.sync import async_to_sync, sync_to_async

    async def innermost() -> None:
        await sync_to_async(record)(n)

    await sync_to_async(lambda: async_to_sync(innermost)())()


@task(takes_context=True)
async def async_steps(job: JobContext, upto: int) -> None:
    """Checkpoint and touch from async code; fail once half-way."""
    start = job.checkpointed or 0
    for n in range(start + 1, upto + 1):
        if n == 3 and job.attempt == 1:
            raise RetryIn(0)
        await job.acheckpoint(n)
        assert await job.atouch()
        assert current_job() is job


OUTAGE = -1
"""While `effects` has this number, whatever the tasks below talk to is away."""


def call(n: int) -> None:
    """Leave a trace, then fail if it is away."""
    record(n)
    with connection.cursor() as cur:
        cur.execute("SELECT EXISTS (SELECT FROM effects WHERE n = %s)", [OUTAGE])
        if cur.fetchone()[0]:
            raise ConnectionError("it is away")


@task(breaker={"failures": 3, "wait": 0.5, "longest_wait": 1}, backoff_base=0.001, backoff_max=0.001)
def call_out(n: int) -> None:
    """Talk to the job's destination, or to what the task itself stands for."""
    call(n)


@task(breaker=False, backoff_base=0.001, backoff_max=0.001)
def call_carelessly(n: int) -> None:
    """Talk to the job's destination, whatever its breaker says."""
    call(n)
