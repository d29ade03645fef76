"""The tasks that are measured: they do as little as can be told from outside."""

from __future__ import annotations

import os
import time

from django_stampeded import Discard, task
from example_project.imports.models import CsvImport

QUEUE = "bench"


@task(name="bench.nothing", queue_name=QUEUE)
def nothing(n: int) -> None:
    """A job that does nothing."""


@task(name="bench.nothing_async", queue_name=QUEUE)
async def nothing_async(n: int) -> None:
    """A coroutine that does nothing."""


@task(name="bench.discarded", queue_name=QUEUE)
def discarded() -> None:
    """A job that gives itself up."""
    raise Discard("measured")


@task(name="bench.touch_row", queue_name=QUEUE)
def touch_row(key: int, n: int) -> None:
    """A job of one SELECT and one UPDATE."""
    row = CsvImport.objects.get(pk=key)
    row.row_limit = n
    row.save(update_fields=["row_limit"])


@task(name="bench.note_start", queue_name=QUEUE)
def note_start(n: int, path: str) -> None:
    """Notes when its body began, on the clock that all processes of a machine share."""
    note(n, path, time.monotonic_ns())


def note(n: int, path: str, began: int) -> None:
    """Adds a line to the file that the starts are read from."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(file, f"{n} {began}\n".encode())
    os.close(file)
