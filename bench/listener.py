"""The least that can start a job at once: one connection that listens, claims one job when it hears, and notes the time.

`python -m bench.listener` does so on the server of DATABASE_URL until it is terminated.
"""

from __future__ import annotations

import os
import time

import psycopg

from bench import server
from bench.singly import CLAIM, COMPLETE, one, registered


def listen() -> None:
    from bench.tasks import QUEUE, note

    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        worker = registered(connection)
        channel = one(connection, "SELECT stampeded_channel()")[0]
        connection.execute(f'LISTEN "{channel}"')
        while True:
            while job := one(connection, CLAIM, QUEUE, worker):
                identity, arguments, attempt = job
                note(began=time.monotonic_ns(), **arguments)
                one(connection, COMPLETE, QUEUE, identity, worker, attempt)
            for _ in connection.notifies(timeout=1, stop_after=1):
                pass


if __name__ == "__main__":
    server.set_up()
    listen()
