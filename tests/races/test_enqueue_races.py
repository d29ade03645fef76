"""Enqueuers among themselves: no deadlock, nobody waits for an open transaction, one per scope."""

from __future__ import annotations

from datetime import timedelta
from threading import Barrier
from uuid import UUID

from tests.races.together import FULL, together
from tests.sql.client import SqlClient
from tests.sql.fixtures import Connect
from tests.sql.test_dedup import enqueue_unless_there


def test_enqueueing_to_two_queues_in_opposite_order_never_deadlocks(sql: SqlClient, connect: Connect) -> None:
    rounds = 20
    both_have_begun = Barrier(2)
    one, two = connect(), connect()

    def view(client: SqlClient, first: str, second: str) -> None:
        for _ in range(rounds):
            with client.transaction():
                client.enqueue(first)
                both_have_begun.wait(timeout=60)
                client.enqueue(second)

    together(lambda: view(one, "mail", "reports"), lambda: view(two, "reports", "mail"))
    assert sql.counts() == {("mail", "available"): 2 * rounds, ("reports", "available"): 2 * rounds}


def test_an_open_transaction_that_has_enqueued_holds_up_nothing_in_its_queue(sql: SqlClient, connect: Connect) -> None:
    sql.enqueue_many(8)
    running = sql.claim(limit=4)
    sleeper = connect()
    sql.run("SET lock_timeout = '300ms'")
    with sleeper.transaction():
        sleeper.enqueue()
        sleeper.enqueue_many(50)
        for job in running[:2]:
            assert sql.complete(job)
        assert sql.fail(running[2]) and sql.release(running[3])
        sql.enqueue()
        assert len(sql.claim(limit=100)) == 7
        sql.silence(running[2].id, timedelta(days=1))
        assert len(sql.call("stampeded_expire")) == 1
        sql.silence_worker(sql.worker, timedelta(hours=1))
        assert len(sql.call("stampeded_reap")) == 6
        sql.run("UPDATE stampeded_jobs SET finished_at = now() - interval '1 day' WHERE state = 'completed'")
        assert sql.call("stampeded_prune")[0][0] == 2
        sql.call("stampeded_fold_counts")
        sql.call("stampeded_recount_queue", "q")
        assert sql.counts() == sql.true_counts()
    assert sql.counts() == sql.true_counts()


def test_an_open_transaction_that_has_claimed_or_completed_holds_up_nobody_either(sql: SqlClient, connect: Connect) -> None:
    sql.enqueue_many(8)
    running = sql.claim(limit=4)
    sleeper = connect()
    sql.run("SET lock_timeout = '300ms'")
    with sleeper.transaction():
        assert sleeper.claim(limit=2)
        assert sleeper.complete(running[0])
        sql.enqueue()
        assert len(sql.claim(limit=100)) == 3
        assert sql.complete(running[1]) and sql.fail(running[2]) and sql.touch(running[3])
        sql.call("stampeded_expire")
        sql.call("stampeded_reap")
        sql.call("stampeded_prune")
        sql.call("stampeded_fold_counts")


def test_of_enqueuers_of_one_scope_exactly_one_wins(sql: SqlClient, connect: Connect) -> None:
    clients = [connect() for _ in range(8)]
    for number in range(50 if FULL else 15):
        scope = f"scope {number}"
        won = together(*[lambda c=client, s=scope: enqueue_unless_there(c, dedup_scope=s) for client in clients])  # type: ignore[misc]
        assert len([id for id in won if id]) == 1
    assert len(sql.jobs()) == (50 if FULL else 15)


def test_there_is_never_more_than_one_unfinished_job_of_a_scope(sql: SqlClient, connect: Connect) -> None:
    enqueuers = [connect() for _ in range(4)]
    workers = [connect() for _ in range(3)]
    rounds = 60
    assert all(worker.worker for worker in workers)

    def enqueue(client: SqlClient) -> list[UUID]:
        return [id for _ in range(rounds) if (id := enqueue_unless_there(client, dedup_scope="s"))]

    def work(client: SqlClient) -> list[UUID]:
        done: list[UUID] = []
        for number in range(rounds * 2):
            for job in client.claim(limit=5):
                unfinished = "SELECT count(*) FROM stampeded_jobs WHERE state IN ('available', 'retryable', 'executing')"
                assert client.value(unfinished) <= 1
                if number % 3:
                    client.complete(job)
                    done.append(job.id)
                else:
                    client.fail(job)
        return done

    results = together(
        *[lambda c=client: enqueue(c) for client in enqueuers],  # type: ignore[misc]
        *[lambda c=client: work(c) for client in workers],  # type: ignore[misc]
    )
    enqueued = {id for made in results[:4] for id in made}
    completed = [id for done in results[4:] for id in done]
    assert len(completed) == len(set(completed)) and set(completed) <= enqueued
    assert len(enqueued) - len(completed) <= 1
    assert sql.counts() == sql.true_counts()


def test_a_waiting_enqueuer_of_a_scope_gets_it_when_the_first_rolls_back(sql: SqlClient, connect: Connect) -> None:
    one, two = connect(), connect()
    one.run("BEGIN")
    one.enqueue(dedup_scope="s")

    def give_up() -> UUID | None:
        # The other is blocked on the slot by now, or comes after: both must end in its favour.
        sql.value("SELECT pg_sleep(0.2)")
        one.run("ROLLBACK")
        return None

    won = together(lambda: enqueue_unless_there(two, dedup_scope="s"), give_up)
    assert won[0] is not None and [job.id for job in sql.jobs()] == [won[0]]
