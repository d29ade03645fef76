"""Jobs that change their queue, or their partition, while others claim, reap, expire and prune."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest

from tests.races.together import FULL, others_are_well, retrying, together
from tests.sql.client import SqlClient
from tests.sql.fixtures import Connect

JOBS = 1_000 if FULL else 150
FINISHED = "SELECT count(*) FROM stampeded_jobs WHERE state = 'completed'"


def work_off(client: SqlClient, queues: list[str], jobs: int) -> list[UUID]:
    """Claim and complete until *jobs* are completed, by whomever; the ids completed here."""
    done: list[UUID] = []
    while others_are_well() and client.value(FINISHED) < jobs:
        for queue in queues:
            for job in retrying(lambda: client.claim(queue, 3)):  # noqa: B023
                if retrying(lambda: client.complete(job)):  # noqa: B023
                    done.append(job.id)
    return done


def sweep(client: SqlClient, jobs: int) -> list[UUID]:
    """Every background loop, over and over, as if somebody had died at each moment."""
    while others_are_well() and client.value(FINISHED) < jobs:
        retrying(lambda: client.call("stampeded_reap"))
        retrying(lambda: client.call("stampeded_expire"))
        retrying(lambda: client.call("stampeded_prune", timedelta(days=1)))
        client.call("stampeded_fold_counts")
    return []


def move_by_update(client: SqlClient, jobs: int) -> list[UUID]:
    flip = (
        "UPDATE stampeded_jobs SET queue = CASE queue WHEN 'pa' THEN 'pb' ELSE 'pa' END WHERE id IN"
        " (SELECT id FROM stampeded_jobs WHERE state = 'available' ORDER BY random() LIMIT 5) AND state = 'available'"
    )
    while others_are_well() and client.value(FINISHED) < jobs:
        retrying(lambda: client.run(flip))
    return []


def move_by_function(client: SqlClient, jobs: int) -> list[UUID]:
    some = "SELECT queue, id FROM stampeded_jobs WHERE state = 'available' ORDER BY random() LIMIT 5"
    while others_are_well() and client.value(FINISHED) < jobs:
        for queue, id in client.rows(some):
            retrying(lambda: client.call("stampeded_move", queue, id, "pb" if queue == "pa" else "pa"))  # noqa: B023
    return []


@pytest.mark.parametrize("move", [move_by_update, move_by_function])
def test_jobs_that_move_while_others_work_and_sweep_are_done_once_each(
    sql: SqlClient, connect: Connect, move: Callable[[SqlClient, int], list[UUID]]
) -> None:
    for queue in ("pa", "pb"):
        sql.call("stampeded_create_queue", queue)
    ids = sql.enqueue_many(JOBS, "pa")
    workers = [connect() for _ in range(3)]
    assert all(worker.worker for worker in workers)
    mover, sweeper = connect(), connect()
    results = together(
        *[lambda w=worker: work_off(w, ["pa", "pb"], JOBS) for worker in workers],  # type: ignore[misc]
        lambda: move(mover, JOBS),
        lambda: sweep(sweeper, JOBS),
    )
    done = Counter(id for result in results for id in result)
    assert set(done) == set(ids) and set(done.values()) == {1}
    assert sql.value("SELECT count(DISTINCT id) FROM stampeded_jobs") == JOBS
    assert sql.value("SELECT max(attempt) FROM stampeded_jobs") == 1
    assert sql.counts() == sql.true_counts()


def test_moving_by_the_function_makes_no_claimer_or_sweeper_fail(sql: SqlClient, connect: Connect) -> None:
    for queue in ("pa", "pb"):
        sql.call("stampeded_create_queue", queue)
    mover, claimer = connect(), connect()
    assert claimer.worker
    for _ in range(40 if FULL else 15):
        id = sql.enqueue("pa")

        def claim() -> object:
            job = (claimer.claim("pa") or claimer.claim("pb") or [None])[0]
            return job and claimer.complete(job)

        together(lambda: mover.call("stampeded_move", "pa", id, "pb"), claim)  # noqa: B023
        for queue in ("pa", "pb"):
            for job in claimer.claim(queue):
                claimer.complete(job)
        assert sql.job(id).state == "completed"


def test_a_queue_gets_its_partition_while_others_enqueue_and_work(sql: SqlClient, connect: Connect) -> None:
    others = JOBS
    sql.enqueue_many(200, "late", state="completed", finished_at=timedelta(hours=-1))
    sql.enqueue_many(others, "late")
    sql.enqueue_many(50, "late", scheduled_at=timedelta(days=1))
    enqueuers, workers = [connect() for _ in range(2)], [connect() for _ in range(2)]
    assert all(worker.worker for worker in workers)
    total = 200 + others + 2 * others

    def enqueue(client: SqlClient, number: int) -> list[UUID]:
        return [client.enqueue("late", dedup_scope=f"{number} {n}" if n % 4 else None) for n in range(others)]

    def partition() -> list[UUID]:
        sql.call("stampeded_create_queue", "late")
        sql.call("stampeded_create_queue", "late", False)
        return []

    results = together(
        *[lambda c=client, n=n: enqueue(c, n) for n, client in enumerate(enqueuers)],  # type: ignore[misc]
        *[lambda w=worker: work_off(w, ["late"], total) for worker in workers],  # type: ignore[misc]
        partition,
    )
    enqueued = [id for result in results[:2] for id in result]
    done = Counter(id for result in results[2:4] for id in result)
    assert set(done.values()) == {1} and set(enqueued) <= set(done) and len(done) == 3 * others
    homes = sql.rows("SELECT DISTINCT tableoid::regclass::text FROM stampeded_jobs WHERE queue = 'late'")
    assert len(homes) == 1 and homes[0][0] != "stampeded_jobs_default"
    assert sql.counts() == sql.true_counts() == {("late", "completed"): total, ("late", "available"): 50}


def test_creating_one_queue_or_many_at_once_makes_each_once(sql: SqlClient, connect: Connect) -> None:
    clients = [connect() for _ in range(6)]
    sql.enqueue_many(20, "same")
    together(*[lambda c=client: c.call("stampeded_create_queue", "same") for client in clients])  # type: ignore[misc]
    together(
        *[lambda c=client, n=n: c.call("stampeded_create_queue", f"own {n}") for n, client in enumerate(clients)]  # type: ignore[misc]
    )
    assert sql.value("SELECT count(*) FROM stampeded_partition_health()") == 8
    assert len(sql.jobs("same")) == 20


def test_a_queue_that_cannot_get_its_partition_now_says_why_and_stops_nobody(sql: SqlClient, connect: Connect) -> None:
    sleeper, creator, enqueuer = connect(), connect(), connect()
    enqueuer.run("SET lock_timeout = '5s'")
    creator.run("SET statement_timeout = '3s'")
    with sleeper.transaction():
        sleeper.enqueue("late")

        def create() -> int:
            with pytest.raises(psycopg.errors.QueryCanceled):
                creator.call("stampeded_create_queue", "late")
            return 0

        def go_on() -> int:
            return len([enqueuer.enqueue("late") for _ in range(100)])

        assert together(create, go_on) == [0, 100]
    creator.run("RESET statement_timeout")
    creator.call("stampeded_create_queue", "late")
    assert sql.counts() == sql.true_counts() == {("late", "available"): 101}
