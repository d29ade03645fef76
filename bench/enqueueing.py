"""Measures enqueueing: one by one, by several processes at once, and in bulk, against bare statements.

The bare contender runs the very statement that `task.enqueue()` sends, caught once, over the same connection: so
it writes the same columns whatever they are, and the difference is what the library and the triggers cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from typing import Any

from bench import server
from bench.rounds import Line, Sizes, interleaved, rates

TOGETHER_SECONDS = 120.0
BARE = "the same INSERT, bare, into a table without triggers"
RAW = "the same INSERT, bare"
OURS = "task.enqueue()"

together: Barrier | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement with its parameters, as the library sent it."""

    sql: str
    parameters: Any


def one_by_one(sizes: Sizes) -> list[Line]:
    """One process, one transaction for each job."""
    contenders = {
        BARE: partial(timed, insert_bare, sizes.single),
        RAW: partial(timed, insert_raw, sizes.single),
        OURS: partial(timed, enqueue, sizes.single),
    }
    return rates(interleaved(contenders, sizes.rounds), RAW, {OURS: "≥ 0.85"})


def client_cost(sizes: Sizes) -> list[Line]:
    """The processor's time that enqueueing takes from the caller, which no slow disk or busy neighbour blurs."""
    contenders = {
        RAW: partial(processor_time, insert_raw, sizes.single),
        OURS: partial(processor_time, enqueue, sizes.single),
    }
    reached = interleaved(contenders, sizes.rounds)
    return [Line(name, f"{spent * 1e6:.0f} µs a job", f"{spent / reached[RAW]:.2f}") for name, spent in reached.items()]


def at_once(sizes: Sizes) -> list[Line]:
    """Several processes, each with a connection of its own, all enqueueing into one queue."""
    count = sizes.single // sizes.processes
    bare, ours = (f"{sizes.processes} processes, {name}" for name in (BARE, OURS))
    with processes(sizes.processes) as pool:
        contenders: dict[str, Callable[[], float]] = {
            bare: partial(all_at_once, pool, sizes.processes, "insert_bare", count),
            ours: partial(all_at_once, pool, sizes.processes, "enqueue", count),
        }
        reached = interleaved(contenders, sizes.rounds)
    return rates(reached, bare, {ours: "≥ 0.8"})


def in_bulk(sizes: Sizes) -> list[Line]:
    """Many jobs in one transaction."""
    contenders = {
        "COPY of queue, task and args, bare, into a table without triggers": partial(timed, copy_bare, sizes.bulk),
        "task.enqueue_many()": partial(timed, enqueue_many, sizes.bulk),
    }
    reached = interleaved(contenders, sizes.rounds)
    return rates(reached, next(iter(contenders)))


def timed(work: Callable[[int], None], count: int) -> float:
    """Jobs a second of one contender on empty tables."""
    server.empty()
    began = time.perf_counter()
    work(count)
    return count / (time.perf_counter() - began)


def processor_time(work: Callable[[int], None], count: int) -> float:
    """Seconds of this process's own processor time for each job."""
    server.empty()
    began = time.process_time()
    work(count)
    return (time.process_time() - began) / count


def enqueue(count: int) -> None:
    from bench.tasks import nothing

    for n in range(count):
        nothing.enqueue(n=n)


def enqueue_many(count: int) -> None:
    from bench.tasks import nothing

    nothing.enqueue_many({"n": n} for n in range(count))


def insert_raw(count: int) -> None:
    _repeat(caught(), count)


def insert_bare(count: int) -> None:
    statement = caught()
    _repeat(Statement(statement.sql.replace("stampeded_jobs", server.BARE), statement.parameters), count)


def copy_bare(count: int) -> None:
    from django.db import connection
    from psycopg.types.json import Jsonb

    from bench.tasks import QUEUE, nothing

    with connection.cursor() as cursor, cursor.copy(f"COPY {server.BARE} (queue, task, args) FROM STDIN") as rows:
        for n in range(count):
            rows.write_row((QUEUE, nothing.name, Jsonb({"n": n})))


def caught() -> Statement:
    """The INSERT that one `enqueue()` sends."""
    from django.db import connection

    seen: list[Statement] = []

    def note(execute: Callable[..., Any], sql: str, parameters: Any, many: bool, context: dict[str, Any]) -> Any:
        seen.append(Statement(sql, parameters))
        return execute(sql, parameters, many, context)

    with connection.execute_wrapper(note):
        enqueue(1)
    return next(statement for statement in seen if statement.sql.lstrip().upper().startswith("INSERT"))


def _repeat(statement: Statement, count: int) -> None:
    from django.db import connection

    for _ in range(count):
        with connection.cursor() as cursor:
            cursor.execute(statement.sql, statement.parameters)
            cursor.fetchone()


@contextmanager
def processes(count: int) -> Iterator[ProcessPoolExecutor]:
    """Processes with Django set up and a connection open, which start their work together."""
    context = get_context("spawn")
    barrier = context.Barrier(count)
    with ProcessPoolExecutor(count, mp_context=context, initializer=begin_process, initargs=(barrier,)) as pool:
        yield pool


def begin_process(barrier: Barrier) -> None:
    global together
    together = barrier
    server.set_up()
    server.value("SELECT 1")


def all_at_once(pool: ProcessPoolExecutor, count: int, work: str, each: int) -> float:
    """Jobs a second of all processes, from the first one's start to the last one's end."""
    server.empty()
    spans = list(pool.map(one_of_many, [work] * count, [each] * count))
    return count * each / (max(end for _, end in spans) - min(start for start, _ in spans))


def one_of_many(work: str, count: int) -> tuple[float, float]:
    assert together is not None
    doing = globals()[work]
    doing(1)
    together.wait(TOGETHER_SECONDS)
    began = time.monotonic()
    doing(count)
    return began, time.monotonic()
