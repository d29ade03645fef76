"""Long jobs for tests: they go by steps, resume at a cursor and say how far they are."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection, transaction

from django_stampeded import JobContext, RetryIn, current_job, task


def done(n: int) -> int:
    """Leave a trace in the table `effects`; returns `n`."""
    job = current_job()
    assert job is not None
    with connection.cursor() as cur:
        cur.execute("INSERT INTO effects (n, job, attempt) VALUES (%s, %s, %s)", [n, job.id, job.attempt])
    return n


async def adone(n: int) -> int:
    """The same from async code."""
    return await sync_to_async(done)(n)


def fail_once(job: JobContext, at: str, here: str) -> None:
    """End the first attempt here, if it is to end here."""
    if job.attempt == 1 and at == here:
        raise RetryIn(0)


@task(takes_context=True, store_result=True)
def by_steps(job: JobContext, rows: int, fail_at: str = "") -> list[Any]:
    """Two steps with a function around one with a cursor, which is retried once where that is wanted."""
    charge = job.step("charge", done, -1)
    fail_once(job, fail_at, "after charge")
    with job.step("mail", cursor=0) as step:
        for n in range(rows)[step.cursor :]:
            done(n)
            step.advance(step.cursor + 1)
            fail_once(job, fail_at, f"row {n}")
    fail_once(job, fail_at, "after mail")
    again = job.step("again", dict, at=(1, 2))
    fail_once(job, fail_at, "after again")
    return [charge, again]


@task(takes_context=True)
async def by_async_steps(job: JobContext, rows: int, fail_at: str = "") -> None:
    """The same, asynchronously."""
    await job.astep("charge", adone, -1)
    await job.astep("plain", done, -2)
    async with job.step("mail", cursor=0) as step:
        for n in range(rows)[step.cursor :]:
            await adone(n)
            await step.aadvance(step.cursor + 1)
            fail_once(job, fail_at, f"row {n}")
    await job.acheckpoint(mailed=rows)
    fail_once(job, fail_at, "after mail")


@task(takes_context=True)
def steps_in_a_transaction(job: JobContext) -> None:
    """A step whose transaction is rolled back, then another one that is not."""
    if job.attempt == 1:
        with suppress(RuntimeError), transaction.atomic():
            job.step("rolled back", done, 1)
            raise RuntimeError
    with transaction.atomic():
        job.step("kept", done, 2)
    fail_once(job, "here", "here")
    job.step("rolled back", done, 3)


@task(takes_context=True)
def both(job: JobContext) -> None:
    """A plain checkpoint before, between and after steps."""
    if job.attempt == 1:
        job.checkpoint(cursor=1)
        job.step("first", done, 1)
        job.checkpoint(cursor=2)
        job.step("second", done, 2)
        raise RetryIn(0)
    assert job.checkpointed == {"cursor": 2}
    job.step("first", done, -1)
    job.checkpoint([3])


@task(takes_context=True, max_attempts=1)
def seldom(job: JobContext, calls: int, every: int) -> None:
    """So many checkpoints, of which few are written; then fail."""
    for n in range(1, calls + 1):
        job.checkpoint(n=n, every=every)
    raise ValueError("done")


@task(takes_context=True, max_attempts=3, backoff_base=0.001, backoff_max=0.001)
def returns_too_much(job: JobContext, many: bool = False) -> None:
    """A step whose result can't be kept."""
    for n in range(10 if many else 1):
        job.step(f"report {n}", lambda: (done(1), "x" * (7_000 if many else 8_192))[1])


@task(takes_context=True, max_attempts=1)
def one_name_twice(job: JobContext) -> None:
    """Two steps of one name."""
    job.step("charge", done, 1)
    job.step("charge", done, 2)


@task(takes_context=True)
def step_after_theft(job: JobContext) -> None:
    """A step in a transaction, after somebody took the job away."""
    with connection.cursor() as cur:
        cur.execute("UPDATE stampeded_jobs SET claimed_by = uuidv7() WHERE id = %s", [job.id])
    with transaction.atomic():
        job.step("charge", done, 1)


@task(takes_context=True, max_interruptions=1000)
def import_rows(job: JobContext, rows: int, chunk: int, seconds: float = 0.0) -> None:
    """Write so many rows, each chunk with its cursor in one transaction."""
    cursor = (job.checkpointed or {"cursor": 0})["cursor"]
    while cursor < rows:
        upto = min(cursor + chunk, rows)
        with transaction.atomic(), connection.cursor() as cur:
            cur.execute(
                "INSERT INTO effects (n, job, attempt) SELECT n, %s, %s FROM generate_series(%s, %s) n",
                [job.id, job.attempt, cursor + 1, upto],
            )
            job.checkpoint(cursor=upto)
        cursor = upto
        job.progress(cursor, rows, "importing")
        time.sleep(seconds)


def wait_for_a_sign(limit: float = 60.0) -> None:
    """Wait until somebody has left the number 99 in `effects`."""
    until = time.monotonic() + limit
    with connection.cursor() as cur:
        while time.monotonic() < until:
            cur.execute("SELECT count(*) FROM effects WHERE n = 99")
            if cur.fetchone()[0]:
                return
            time.sleep(0.01)


@task(takes_context=True)
def reports_in_a_transaction(job: JobContext) -> None:
    """Say how far it is in the middle of a transaction that has written the job's own row, and wait to be seen."""
    with transaction.atomic():
        job.checkpoint(started=True)
        job.progress(40, "page 4 of 10")
        wait_for_a_sign()


@task(takes_context=True, isolation="process")
def reports_from_a_process(job: JobContext) -> None:
    """Steps and progress in a process of the job's own."""
    job.step("charge", done, 1)
    job.progress(1, 3, "first")
    wait_for_a_sign()
    for _ in job.track([1, 2, 3], message="last"):
        pass


@task(takes_context=True)
def tracks(job: JobContext, rows: int, fail: bool = False) -> None:
    """Go through rows at full speed."""
    for _ in job.track(range(rows), message="counting"):
        pass
    if fail:
        raise RetryIn(3600)
