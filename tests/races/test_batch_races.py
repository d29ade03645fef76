"""Batches whose last jobs end at the same moment, on several workers, with deaths among them: one callback each."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from psycopg.types.json import Jsonb

from tests.races.together import FULL, others_are_well, retrying, together
from tests.sql.client import SqlClient
from tests.sql.fixtures import Connect

BATCHES = 500 if FULL else 60
SIZE = 20
WORKERS = 4


def test_each_batch_has_one_callback_whoever_ends_its_last_jobs(sql: SqlClient, connect: Connect) -> None:
    callback = Jsonb({"queue": "callbacks", "task": "done"})
    ids = [sql.call("stampeded_open_batch", f"b{n}", callback)[0][0] for n in range(BATCHES)]
    sql.run(
        "INSERT INTO stampeded_jobs (queue, task, batch_id, max_interruptions) "
        "SELECT 'q', 't', id, 99 FROM unnest(%s::uuid[]) id, generate_series(1, %s) ORDER BY random()",
        ids,
        SIZE,
    )
    sql.run("SELECT stampeded_seal_batch(id) FROM unnest(%s::uuid[]) id", ids)

    def work(client: SqlClient, number: int) -> None:
        rounds = 0
        while others_are_well() and sql_left(client):
            rounds += 1
            jobs = client.claim(limit=37)
            if number == 0 and rounds % 3 == 0:  # dies with what it has
                client.silence_worker(client.worker, timedelta(hours=1))
                retrying(lambda: client.call("stampeded_reap"))
                client._worker = None
                continue
            batches = list({job.batch_id for job in jobs})
            client.call(
                "stampeded_complete_many",
                client.worker,
                [job.queue for job in jobs],
                [job.id for job in jobs],
                [job.attempt for job in jobs],
            )
            retrying(lambda batches=batches: client.call("stampeded_finish_batches", batches))
        client.call("stampeded_finish_batches")

    clients = [connect() for _ in range(WORKERS)]
    together(*(lambda client=client, number=number: work(client, number) for number, client in enumerate(clients)))
    sql.call("stampeded_finish_batches")
    told = Counter(job.meta["batch"]["name"] for job in sql.jobs("callbacks"))
    assert told == {f"b{n}": 1 for n in range(BATCHES)}
    assert all(job.meta["batch"]["counts"] == {"completed": SIZE} for job in sql.jobs("callbacks"))
    sql.call("stampeded_fold_counts")
    assert sql.value("SELECT count(*) FROM stampeded_batch_deltas") == 0


def sql_left(client: SqlClient) -> bool:
    client.run(
        "UPDATE stampeded_jobs SET scheduled_at = now() WHERE queue = 'q' AND state = 'retryable' AND scheduled_at > now()"
    )
    return bool(client.value("SELECT EXISTS (SELECT FROM stampeded_jobs WHERE queue = 'q' AND state <> 'completed')"))


def test_diamonds_whose_sides_end_at_once_run_their_last_job_once(sql: SqlClient, connect: Connect) -> None:
    one, two = connect(), connect()
    for _ in range(40 if FULL else 10):
        left, right = sql.started(), sql.started()
        with sql.transaction():
            child = sql.enqueue("children")
            sql.call("stampeded_depend", "children", child, ["q", "q"], [left.id, right.id])
        together(lambda: one.complete(left), lambda: two.complete(right))  # noqa: B023
        sql.call("stampeded_sweep_dependencies")
        assert [job.id for job in sql.claim("children")] == [child]
        assert sql.value("SELECT count(*) FROM stampeded_dependencies") == 0
