"""Several maintainers at once: no work twice, none skipped for good, no count lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest

from tests.races.together import FULL, others_are_well, together
from tests.sql.client import SqlClient
from tests.sql.fixtures import Connect

DAY = timedelta(days=1)
JOBS = 2_000 if FULL else 300


@pytest.mark.parametrize("function", ["stampeded_reap", "stampeded_expire"])
def test_sweepers_at_once_take_each_dead_job_once(sql: SqlClient, connect: Connect, function: str) -> None:
    sql.enqueue_many(JOBS, dead_letter_queue="dead", max_attempts=1)
    sql.claim(limit=JOBS)
    sql.run("UPDATE stampeded_jobs SET heartbeat_at = now() - interval '1 day', claimed_at = now() - interval '1 day'")
    if function == "stampeded_reap":
        sql.silence_worker(sql.worker, DAY / 2)

    def sweep(client: SqlClient) -> list[UUID]:
        found: list[UUID] = []
        while others_are_well() and client.value("SELECT count(*) FROM stampeded_jobs WHERE state = 'executing'"):
            found += [row[0] for row in client.call(function)]
        return found

    clients = [connect() for _ in range(4)]
    results = together(*[lambda c=client: sweep(c) for client in clients])  # type: ignore[misc]
    taken = Counter(id for result in results for id in result)
    assert len(taken) == JOBS and set(taken.values()) == {1}
    assert sql.counts() == {("q", "discarded"): JOBS, ("dead", "available"): JOBS}


def test_reaping_while_the_workers_finish_their_jobs_takes_none_of_those(sql: SqlClient, connect: Connect) -> None:
    sql.enqueue_many(JOBS)
    jobs = sql.claim(limit=JOBS)
    sql.silence_worker(sql.worker, DAY / 2)
    worker, reaper, expirer = connect(), connect(), connect()
    finished, reaped, _ = together(
        lambda: {job.id for job in jobs if worker.complete(job)},
        lambda: {row.id for row in reaper.call("stampeded_reap")},
        lambda: {row.out_id for row in expirer.call("stampeded_expire")},
    )
    assert not finished & reaped and finished | reaped == {job.id for job in jobs}
    assert sql.counts() == sql.true_counts()


def test_pruners_at_once_return_together_what_went(sql: SqlClient, connect: Connect) -> None:
    sql.enqueue_many(JOBS, state="completed", finished_at=-DAY)
    sql.enqueue_many(JOBS, "other", state="cancelled", finished_at=-30 * DAY)

    def prune(client: SqlClient) -> int:
        removed = 0
        while others_are_well() and client.value("SELECT count(*) FROM stampeded_jobs"):
            removed += client.call("stampeded_prune", timedelta(hours=1), 37)[0][0]
        return removed

    clients = [connect() for _ in range(3)]
    assert sum(together(*[lambda c=client: prune(c) for client in clients])) == 2 * JOBS  # type: ignore[misc]
    assert sql.counts() == {}


# -- schedules -------------------------------------------------------------------------------------


def test_schedulers_at_once_fire_each_occurrence_once(sql: SqlClient, connect: Connect) -> None:
    schedules, occurrences = 10, 12
    start = sql.value("SELECT date_trunc('minute', now()) - interval '1 day'")
    for number in range(schedules):
        sql.insert("stampeded_schedules", key=f"k{number}", queue="q", task=f"t{number}", interval_secs=60, next_run_at=start)
    end = start + timedelta(minutes=occurrences)
    due = "SELECT count(*) FROM stampeded_schedules WHERE next_run_at < %s"

    def schedule(client: SqlClient) -> list[UUID]:
        fired = []
        while others_are_well() and client.value(due, end):
            with client.transaction():
                for row in client.call("stampeded_claim_due_schedules", 3):
                    step = row.next_run_at + timedelta(minutes=1)
                    # The last one moves beyond today, so that nobody fires it again.
                    later = step if step < end else end + timedelta(days=2)
                    fired.append(client.call("stampeded_fire_schedule", row.key, later)[0][0])
        return fired

    clients = [connect() for _ in range(4)]
    results = together(*[lambda c=client: schedule(c) for client in clients])  # type: ignore[misc]
    fired = [id for result in results for id in result]
    assert None not in fired and len(set(fired)) == len(fired) == schedules * occurrences
    per_task = dict(sql.rows("SELECT task, count(*) FROM stampeded_jobs GROUP BY task"))
    assert per_task == {f"t{number}": occurrences for number in range(schedules)}


def test_schedulers_that_fire_without_claiming_still_fire_once(sql: SqlClient, connect: Connect) -> None:
    clients = [connect() for _ in range(6)]
    for number in range(20 if FULL else 8):
        sql.insert("stampeded_schedules", key=f"k{number}", queue="q", task="t", cron_expr="0 3 * * *")
        later = sql.value("SELECT now() + '1 hour'")
        fired = together(
            *[lambda c=client, k=f"k{number}": c.call("stampeded_fire_schedule", k, later)[0][0] for client in clients]  # type: ignore[misc] # noqa: B023
        )
        assert len([id for id in fired if id]) == 1
        assert len(sql.jobs()) == number + 1


# -- counts ----------------------------------------------------------------------------------------


def churn(client: SqlClient, rounds: int) -> None:
    for number in range(rounds):
        client.enqueue_many(2, "ab"[number % 2])
        for job in client.claim("ab"[number % 2], 2):
            (client.complete, client.fail, client.release)[number % 3](job)  # type: ignore[operator]


def test_the_counts_are_the_truth_in_every_snapshot_while_everything_happens(sql: SqlClient, connect: Connect) -> None:
    rounds = 100 if FULL else 40
    busy = [connect() for _ in range(3)]
    assert all(client.worker for client in busy)
    folders, reader, deleter = [connect() for _ in range(2)], connect(), connect()
    running = [True]

    def fold(client: SqlClient) -> None:
        while running[0]:
            client.call("stampeded_fold_counts", 1)

    def delete() -> None:
        while running[0]:
            deleter.run("DELETE FROM stampeded_jobs WHERE state = 'completed'")

    def recount() -> None:
        while running[0]:
            for queue in "ab":
                sql.call("stampeded_recount_queue", queue)

    def read() -> None:
        while running[0]:
            reader.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
            assert reader.counts() == reader.true_counts()
            reader.run("COMMIT")

    def work(client: SqlClient) -> None:
        try:
            churn(client, rounds)
        finally:
            finished.append(client)
            running[0] = len(finished) < len(busy)

    finished: list[SqlClient] = []
    tasks: list[Callable[[], None]] = [lambda c=client: work(c) for client in busy]  # type: ignore[misc]
    tasks += [lambda c=client: fold(c) for client in folders]  # type: ignore[misc]
    together(*tasks, delete, recount, read)
    assert sql.counts() == sql.true_counts()
    sql.call("stampeded_fold_counts", 1)
    assert sql.counts() == sql.true_counts()


def test_two_folds_at_once_neither_lose_nor_double(sql: SqlClient, connect: Connect) -> None:
    clients = [connect() for _ in range(4)]
    for _ in range(10):
        for _ in range(20):
            sql.enqueue()
        together(*[lambda c=client: c.call("stampeded_fold_counts", 1) for client in clients])  # type: ignore[misc]
        assert sql.counts() == sql.true_counts()


def test_recounts_at_once_write_a_difference_once(sql: SqlClient, connect: Connect) -> None:
    clients = [connect() for _ in range(4)]
    for _ in range(5):
        sql.run("SET session_replication_role = replica")
        sql.enqueue_many(50)
        sql.run("RESET session_replication_role")
        together(*[lambda c=client: c.call("stampeded_recount_queue", "q") for client in clients])  # type: ignore[misc]
        assert sql.counts() == sql.true_counts()
