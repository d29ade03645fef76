"""Many claim at once: never more than asked, no job twice, none left, no limit passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from uuid import UUID

import pytest

from tests.races.together import FULL, others_are_well, together
from tests.sql.client import SqlClient
from tests.sql.fixtures import Connect

THREADS = 8
JOBS = 50_000 if FULL else 1_200
SETTINGS = ["enable_hashjoin", "enable_nestloop", "enable_mergejoin"]


def drain(client: SqlClient, claim: Callable[[], list[UUID]], most: int) -> list[UUID]:
    taken: list[UUID] = []
    while batch := claim():
        assert len(batch) <= most, "more than asked"
        taken += batch
    return taken


def drained(clients: list[SqlClient], claim: Callable[[SqlClient], list[UUID]]) -> list[UUID]:
    def work(client: SqlClient) -> Callable[[], list[UUID]]:
        return lambda: drain(client, lambda: claim(client), 7)

    return [id for taken in together(*map(work, clients)) for id in taken]


@pytest.mark.parametrize("off", SETTINGS)
def test_eight_threads_take_each_job_once_under_any_plan(sql: SqlClient, connect: Connect, off: str) -> None:
    ids = sql.enqueue_many(JOBS)
    clients = [connect() for _ in range(THREADS)]
    for client in clients:
        assert client.worker
        client.run(f"SET {off} = off")  # type: ignore[arg-type]
        client.run("SET plan_cache_mode = force_generic_plan")
    taken = drained(clients, lambda client: [job.id for job in client.claim(limit=7)])
    assert sorted(taken) == sorted(ids)
    assert sql.counts() == {("q", "executing"): JOBS}
    assert sql.value("SELECT max(attempt) FROM stampeded_jobs") == 1


def test_claims_over_several_queues_and_partitions_take_each_job_once(sql: SqlClient, connect: Connect) -> None:
    queues = ["own", "default", "also own"]
    for queue in ("own", "also own"):
        sql.call("stampeded_create_queue", queue)
    ids = [id for queue in queues for id in sql.enqueue_many(700, queue)]
    clients = [connect() for _ in range(THREADS)]
    assert all(client.worker for client in clients)
    orders = {client: queues[n % 3 :] + queues[: n % 3] for n, client in enumerate(clients)}
    taken = drained(
        clients,
        lambda client: [job.id for job in client.call("stampeded_claim_many", orders[client], client.worker, 7)],
    )
    assert sorted(taken) == sorted(ids)


def test_jobs_enqueued_while_others_claim_are_all_taken_once(sql: SqlClient, connect: Connect) -> None:
    enqueuers = [connect() for _ in range(2)]
    claimers = [connect() for _ in range(4)]
    taken: Counter[UUID] = Counter()

    def enqueue(client: SqlClient) -> list[UUID]:
        return [client.enqueue(priority=n % 5) for n in range(200)]

    def claim(client: SqlClient) -> list[UUID]:
        mine: list[UUID] = []
        while others_are_well() and client.value("SELECT count(*) FROM stampeded_jobs WHERE state = 'executing'") < 400:
            mine += [job.id for job in client.claim(limit=3)]
        return mine

    assert all(client.worker for client in claimers)
    results = together(
        *[lambda client=client: enqueue(client) for client in enqueuers],  # type: ignore[misc]
        *[lambda client=client: claim(client) for client in claimers],  # type: ignore[misc]
    )
    for mine in results[2:]:
        taken.update(mine)
    assert set(taken) == {id for made in results[:2] for id in made}
    assert set(taken.values()) == {1}


@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_run_at_once_than_the_queue_allows_whoever_claims(sql: SqlClient, connect: Connect, limit: int) -> None:
    sql.insert("stampeded_queue_policies", queue="q", max_running=limit)
    jobs = 200
    sql.enqueue_many(jobs)
    clients = [connect() for _ in range(THREADS)]
    assert all(client.worker for client in clients)

    def work(client: SqlClient) -> int:
        most = 0
        while others_are_well() and client.value("SELECT count(*) FROM stampeded_jobs WHERE state = 'completed'") < jobs:
            for job in client.claim(limit=2):
                running = "SELECT count(*) FROM stampeded_jobs WHERE state = 'executing'"
                most = max(most, client.value(running))
                client.complete(job)
        return most

    highest = together(*[lambda client=client: work(client) for client in clients])  # type: ignore[misc]
    assert max(highest) == limit
    assert sql.counts() == {("q", "completed"): jobs}


def test_claims_over_limited_queues_in_opposite_order_never_deadlock(sql: SqlClient, connect: Connect) -> None:
    queues = ["a", "b", "c"]
    for queue in queues:
        sql.insert("stampeded_queue_policies", queue=queue, max_running=2)
        sql.enqueue_many(40, queue)
    clients = [connect() for _ in range(6)]
    assert all(client.worker for client in clients)

    def work(client: SqlClient, order: list[str]) -> int:
        while others_are_well() and client.value("SELECT count(*) FROM stampeded_jobs WHERE state = 'completed'") < 120:
            for job in client.call("stampeded_claim_many", order, client.worker, 4):
                client.complete(job)
        return 0

    together(
        *[lambda c=client, n=n: work(c, queues[n % 3 :: -1] + queues[: n % 3 : -1]) for n, client in enumerate(clients)]  # type: ignore[misc]
    )
    assert sum(sql.counts().values()) == 120


def test_a_claimer_that_is_held_up_holds_up_no_other(sql: SqlClient, connect: Connect) -> None:
    sql.enqueue_many(20)
    stuck = connect()
    with stuck.transaction():
        held = stuck.claim(limit=5)
        others = [connect() for _ in range(3)]
        for client in others:
            assert client.worker
            client.run("SET lock_timeout = '300ms'")
        taken = drained(others, lambda client: [job.id for job in client.claim(limit=7)])
    assert len(held) == 5 and len(set(taken)) == 15
    assert not {job.id for job in held} & set(taken)


def test_a_claimer_that_is_held_up_under_a_limit_holds_up_no_other(sql: SqlClient, connect: Connect) -> None:
    sql.insert("stampeded_queue_policies", queue="tight", max_running=5)
    for queue in ("tight", "free"):
        sql.enqueue_many(5, queue)
    stuck = connect()
    assert sql.worker
    with stuck.transaction():
        assert len(stuck.claim("tight")) == 1
        sql.run("SET statement_timeout = '20s'")
        assert sql.claim("tight") == []
        claimed = sql.call("stampeded_claim_many", ["tight", "free"], sql.worker, 10)
        assert [job.queue for job in claimed] == ["free"] * 5
        sql.enqueue("tight")
    assert len(sql.claim("tight", 10)) == 4
