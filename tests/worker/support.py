"""What the worker's tests share: a worker that is surely stopped, waiting for something, the state of the queue."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection

from django_stampeded.worker.options import WorkerOptions
from django_stampeded.worker.selection import select
from django_stampeded.worker.worker import EndReport, Worker

DEADLINE_S = 30.0

# Emptying only our own tables after each test takes a fraction of the time that the whole project's would.
real_transactions = pytest.mark.django_db(transaction=True, available_apps=["django_stampeded"])


def eventually(condition: Callable[[], Any], what: str = "", timeout: float = DEADLINE_S) -> Any:
    """Wait until `condition` is true and return what it returned; fail after a generous deadline."""
    until = time.monotonic() + timeout
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > until:
            raise AssertionError(f"{what or condition} did not come true within {timeout:g} s")
        time.sleep(0.01)


@contextmanager
def working(queues: str = "", **options: Any) -> Iterator[Worker]:
    """A running, registered worker with two threads unless told otherwise; stopped at the end."""
    chosen = {"threads": 2, "grace_period": 5.0, "poll_interval": 0.2, **options}
    worker = Worker(WorkerOptions(selection=select([queues] if queues else []), **chosen))
    worker.start()
    try:
        eventually(lambda: worker.crew.identity.worker_id, "the registration")
        yield worker
    finally:
        stop(worker)


def stop(worker: Worker) -> EndReport:
    """End a worker and say how it went."""
    worker.stop()
    return worker.join()


def drain(queues: str = "", **options: Any) -> EndReport:
    """Run everything that is due and what that enqueues, in a worker that then ends."""
    chosen = {"threads": 2, "poll_interval": 0.2, **options}
    worker = Worker(WorkerOptions(selection=select([queues] if queues else []), drain=True, **chosen))
    worker.start()
    try:
        eventually(lambda: worker.over, "the queue to be drained")
    finally:
        report = stop(worker)
    return report


def rows(sql: str, *params: Any) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    with connection.cursor() as cur:
        cur.execute(sql, params or None)
        return cur.fetchall() if cur.description else []


def value(sql: str, *params: Any) -> Any:
    """The one value of a query."""
    return rows(sql, *params)[0][0]


def states() -> dict[str, int]:
    """How many jobs are in each state, told from the jobs themselves."""
    return dict(rows("SELECT state, count(*) FROM stampeded_jobs GROUP BY state"))


def column(name: str, job: Any) -> Any:
    """One column of a job."""
    return value(f"SELECT {name} FROM stampeded_jobs WHERE id = %s", job.id)
