"""The worker that ours is compared with: each thread claims one job, runs it, acknowledges it, on its own connection.

`python -m bench.singly THREADS` drains the bench's queue on the server of DATABASE_URL and ends.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import psycopg

from bench import server

CLAIM = "SELECT id, args, attempt FROM stampeded_claim(%s, %s, 1)"
COMPLETE = "SELECT * FROM stampeded_complete(%s, %s, %s, %s)"


def drain(number: int) -> None:
    from bench.tasks import QUEUE, nothing

    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        worker = registered(connection)
        while job := one(connection, CLAIM, QUEUE, worker):
            identity, arguments, attempt = job
            nothing(**arguments)
            one(connection, COMPLETE, QUEUE, identity, worker, attempt)
        connection.execute("DELETE FROM stampeded_workers WHERE id = %s", [worker])


def registered(connection: psycopg.Connection[Any]) -> UUID:
    """The id of a new worker."""
    insert = "INSERT INTO stampeded_workers (hostname, pid, queues) VALUES ('bench', %s, '{bench}') RETURNING id"
    return one(connection, insert, os.getpid())[0]


def one(connection: psycopg.Connection[Any], sql: str, *parameters: object) -> Any:
    return connection.execute(sql, parameters).fetchone()


if __name__ == "__main__":
    server.set_up()
    threads = int(sys.argv[1])
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(drain, range(threads)))
