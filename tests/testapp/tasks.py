"""Tasks for tests. What a job did is recorded in the table `effects`, which the tests make."""

from __future__ import annotations

import os
import time

from django.db import connection, connections, transaction

from django_stampeded import Cancel, Discard, JobContext, RetryIn, Snooze, current_job, task

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
