"""Measures jobs that read and write a row by the ORM, against the same work with no queue at all.

`python -m bench.rows bare|orm THREADS COUNT` does the work COUNT times in all and prints its rate a second.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psycopg

from bench import server
from bench.draining import SECONDS, THREADS, WORKER, finished_rate, run_worker
from bench.rounds import Line, Sizes, interleaved, rates

ROWS = 100
ORM = "the same by the ORM, without a queue"
OURS = "the same by the ORM, a job for each"
BARE = "one SELECT and one UPDATE, bare, a connection a thread"


def rows_touched(sizes: Sizes) -> list[Line]:
    """One process of eight threads for each contender."""
    contenders = {
        BARE: partial(queueless_rate, "bare", sizes.drain // 5),
        ORM: partial(queueless_rate, "orm", sizes.drain // 5),
        OURS: partial(job_rate, sizes.drain // 5),
    }
    return rates(interleaved(contenders, sizes.rounds), ORM, {OURS: "≥ 0.67"})


def job_rate(count: int) -> float:
    from bench.tasks import touch_row

    server.empty()
    keys = row_keys()
    touch_row.enqueue_many({"key": keys[n % ROWS], "n": n} for n in range(count))
    run_worker(WORKER)
    return finished_rate(count)


def queueless_rate(how: str, count: int) -> float:
    server.empty()
    row_keys()
    command = [sys.executable, "-m", "bench.rows", how, str(THREADS), str(count)]
    done = subprocess.run(command, check=True, timeout=SECONDS, stdout=subprocess.PIPE, text=True)
    return float(done.stdout)


def row_keys() -> list[int]:
    """The keys of fresh rows to work on."""
    from example_project.imports.models import CsvImport

    CsvImport.objects.all().delete()
    rows = CsvImport.objects.bulk_create(CsvImport(source="bench", row_limit=0) for _ in range(ROWS))
    return [row.pk for row in rows]


def bare(keys: list[int], count: int) -> None:
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        for n in range(count):
            key = keys[n % len(keys)]
            connection.execute("SELECT * FROM imports_csvimport WHERE id = %s", [key]).fetchone()
            connection.execute("UPDATE imports_csvimport SET row_limit = %s WHERE id = %s", [n, key])


def orm(keys: list[int], count: int) -> None:
    from django.db import connection

    from bench.tasks import touch_row

    for n in range(count):
        touch_row(keys[n % len(keys)], n)
    connection.close()


def main(how: str, threads: int, count: int) -> None:
    server.set_up()
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        keys = [row[0] for row in connection.execute("SELECT id FROM imports_csvimport ORDER BY id")]
    work, each = {"bare": bare, "orm": orm}[how], -(-count // threads)
    began = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda n: work(keys[n::threads], each), range(threads)))
    print(each * threads / (time.perf_counter() - began))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
