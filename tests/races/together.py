"""Running several clients at the same moment, each on a connection and a thread of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from typing import TypeVar

import psycopg

T = TypeVar("T")

_failed = Event()

#: The numbers of the published cases in CI, fewer on a developer's machine.
FULL = os.environ.get("CI") == "true"


def together(*tasks: Callable[[], T]) -> list[T]:
    """Start every task at once; their results in order, or the first exception of any."""
    start = Barrier(len(tasks))
    _failed.clear()

    def run(task: Callable[[], T]) -> T:
        start.wait(timeout=60)
        try:
            return task()
        except BaseException:
            _failed.set()
            raise

    with ThreadPoolExecutor(len(tasks)) as pool:
        futures = [pool.submit(run, task) for task in tasks]
        return [future.result(timeout=280) for future in futures]


def others_are_well() -> bool:
    """For loops that wait for what another task does: false once any of them has failed."""
    return not _failed.is_set()


def retrying(call: Callable[[], T]) -> T:
    """What a client does with 40001, which a row that moves under it brings: it asks again."""
    while True:
        try:
            return call()
        except psycopg.errors.SerializationFailure:
            continue
