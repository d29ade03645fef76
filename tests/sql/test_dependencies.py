"""Jobs that wait for other jobs: made due by the last one, discarded with one that fails, never forgotten."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.sql.client import SqlClient
from tests.sql.fixtures import Connect

NEVER = datetime(9999, 1, 1, tzinfo=UTC)


def waits_for(sql: SqlClient, *parents: UUID, on_discard: str = "fail", id: UUID | None = None, **columns: object) -> UUID:
    with sql.transaction():
        id = id or sql.enqueue("children", **columns)
        queues = [sql.job(parent).queue for parent in parents]
        sql.call("stampeded_depend", "children", id, queues, list(parents), on_discard)
    return id


def sweep(sql: SqlClient, **named: object) -> int:
    return sql.call("stampeded_sweep_dependencies", **named)[0][0]


def is_due(sql: SqlClient, id: UUID) -> bool:
    job = sql.job(id)
    return job.state in ("available", "retryable") and job.scheduled_at <= sql.now()


def edges(sql: SqlClient) -> int:
    return sql.value("SELECT count(*) FROM stampeded_dependencies")


def test_a_job_runs_only_after_all_that_it_depends_on(sql: SqlClient) -> None:
    one, two = sql.started(), sql.started()
    child = waits_for(sql, one.id, two.id)
    assert sql.job(child).scheduled_at == NEVER and sql.claim("children") == []
    sql.complete(one)
    assert not is_due(sql, child)
    sql.complete(two)
    assert [job.id for job in sql.claim("children")] == [child]
    assert edges(sql) == 0


def test_a_diamond_runs_its_last_job_once_both_sides_are_through(sql: SqlClient) -> None:
    top = sql.started("children")
    sides = [waits_for(sql, top.id) for _ in range(2)]
    last = waits_for(sql, *sides)
    sql.complete(top)
    left, right = sql.claim("children", 9)
    sql.complete(left)
    assert sql.claim("children") == []
    sql.complete(right)
    assert [job.id for job in sql.claim("children")] == [last]


def test_a_job_keeps_the_time_it_was_scheduled_for(sql: SqlClient) -> None:
    parent = sql.started()
    child = waits_for(sql, parent.id, scheduled_at=timedelta(hours=1))
    with sql.transaction():
        sql.call("stampeded_depend", "children", child, ["q"], [sql.enqueue(state="completed")])
    sql.complete(parent)
    assert timedelta(minutes=59) < sql.job(child).scheduled_at - sql.now() < timedelta(hours=1)


@pytest.mark.parametrize("end", ["unrecoverable", "cancelled"])
def test_a_discarded_or_cancelled_job_takes_those_that_wait_for_it_along(sql: SqlClient, end: str) -> None:
    parent, other = sql.started(), sql.started()
    child = waits_for(sql, parent.id, other.id, dead_letter_queue="dead")
    grandchild = waits_for(sql, child)
    sql.fail(parent, end)
    state = "discarded" if end == "unrecoverable" else "cancelled"
    assert sql.job(child).state == sql.job(grandchild).state == "discarded"
    assert sql.job(child).last_error == f"job {parent.id}, which it depends on, was {state}"
    assert edges(sql) == 0 and len(sql.jobs("dead")) == 1
    assert sql.counts() == sql.true_counts()


def test_a_job_may_ask_to_run_even_after_a_discarded_one(sql: SqlClient) -> None:
    parent = sql.started()
    child = waits_for(sql, parent.id, on_discard="run")
    sql.fail(parent, "unrecoverable")
    assert is_due(sql, child)


def test_a_retry_of_the_one_waited_for_keeps_the_other_waiting(sql: SqlClient) -> None:
    parent = sql.started()
    child = waits_for(sql, parent.id)
    sql.fail(parent, delay=0)
    assert sql.job(child).scheduled_at == NEVER
    sql.complete(sql.claim()[0])
    assert is_due(sql, child)


def test_a_chain_of_any_length_is_discarded_with_its_first_job(sql: SqlClient) -> None:
    first = sql.started()
    last = first.id
    for _ in range(300):
        last = waits_for(sql, last)
    sql.fail(first, "unrecoverable")
    assert sql.job(last).state == "discarded"


def test_more_children_than_one_statement_tells_are_swept_up(sql: SqlClient) -> None:
    parent = sql.started()
    with sql.transaction():
        for child in sql.enqueue_many(1_200, "children"):
            sql.call("stampeded_depend", "children", child, ["q"], [parent.id])
    sql.complete(parent)
    assert edges(sql) == 200
    assert sweep(sql) == 200
    assert len(sql.claim("children", 2_000)) == 1_200


def test_a_job_that_ends_while_the_other_is_being_enqueued_is_swept_up(sql: SqlClient, connect: Connect) -> None:
    other = connect()
    parent = sql.started()
    with other.transaction():
        child = other.enqueue("children")
        other.call("stampeded_depend", "children", child, ["q"], [parent.id])
        sql.complete(parent)
    assert not is_due(sql, child)
    assert sweep(sql) == 1
    assert is_due(sql, child)


def test_depending_on_a_job_that_has_ended_decides_at_once(sql: SqlClient) -> None:
    done, failed = sql.enqueue(state="completed"), sql.enqueue(state="discarded")
    assert is_due(sql, waits_for(sql, done))
    assert sql.job(waits_for(sql, done, failed)).state == "discarded"
    with sql.transaction():
        child = sql.enqueue("children")
        sql.call("stampeded_depend", "children", child, ["q"], [uuid4()])
    assert sql.job(child).last_error.endswith("is gone")


def test_a_completion_waits_for_nobody_who_holds_the_job_that_waits(sql: SqlClient, connect: Connect) -> None:
    other = connect()
    parent = sql.started()
    child = waits_for(sql, parent.id)
    with other.transaction():
        other.run("SELECT FROM stampeded_jobs WHERE id = %s FOR UPDATE", child)
        sql.run("SET statement_timeout = '20s'")
        sql.complete(parent)
    assert not is_due(sql, child)
    assert sweep(sql, p_all=False) == 1
    assert is_due(sql, child)


def test_a_job_is_not_pruned_before_all_that_wait_for_it_have_heard_of_its_end(sql: SqlClient, connect: Connect) -> None:
    parent = sql.started()
    child = waits_for(sql, parent.id)
    other = connect()
    with other.transaction():
        other.rows("SELECT FROM stampeded_jobs WHERE id = %s FOR UPDATE", child)
        sql.complete(parent)
    assert sql.call("stampeded_prune", timedelta(0))[0][0] == 0
    sweep(sql)
    assert is_due(sql, child)
    assert sql.call("stampeded_prune", timedelta(0))[0][0] == 1


def test_a_discard_waits_for_nobody_who_sees_to_another_parent(sql: SqlClient, connect: Connect) -> None:
    one, two = sql.started(), sql.started()
    child = waits_for(sql, one.id, two.id)
    other = connect()
    sql.run("SET lock_timeout = '1s'")
    with other.transaction():
        other.rows("SELECT 1 FROM stampeded_dependencies WHERE parent_id = %s FOR UPDATE", two.id)
        sql.fail(one, "unrecoverable")
    assert sql.job(child).state == "discarded"
    sweep(sql)
    assert edges(sql) == 0


def test_two_that_end_at_once_still_make_their_common_job_due(sql: SqlClient, connect: Connect) -> None:
    other = connect()
    one, two = sql.started(), sql.started()
    child = waits_for(sql, one.id, two.id)
    with other.transaction():
        other.complete(two)
        sql.complete(one)
    sweep(sql, p_all=False)
    assert is_due(sql, child) and edges(sql) == 0


def test_under_a_stricter_isolation_the_sweep_takes_over(sql: SqlClient) -> None:
    parent = sql.started()
    child = waits_for(sql, parent.id)
    with sql.transaction():
        sql.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        sql.complete(parent)
    assert not is_due(sql, child)
    assert sweep(sql) == 1 and is_due(sql, child)


@pytest.mark.parametrize("verb", ["stampeded_retry", "stampeded_run_now"])
def test_an_operator_may_make_a_waiting_job_due(sql: SqlClient, verb: str) -> None:
    parent = sql.started()
    child = waits_for(sql, parent.id)
    sql.call(verb, "children", child)
    claimed = sql.claim("children")[0]
    assert claimed.id == child
    sql.fail(claimed, delay=0)
    sql.fail(parent, "unrecoverable")
    assert sql.job(child).state == "retryable" and edges(sql) == 0


def test_jobs_that_move_stay_bound_to_each_other(sql: SqlClient) -> None:
    parent = sql.enqueue()
    child = waits_for(sql, parent)
    sql.call("stampeded_move", "q", parent, "r")
    sql.call("stampeded_move", "children", child, "s")
    assert edges(sql) == 1
    sql.complete(sql.claim("r")[0])
    assert [job.id for job in sql.claim("s")] == [child]


def test_deleting_the_job_waited_for_decides_like_a_discard(sql: SqlClient) -> None:
    parent = sql.enqueue()
    child = waits_for(sql, parent)
    sql.call("stampeded_delete", "q", parent)
    assert sql.job(child).state == "discarded"


def test_a_ring_is_refused(sql: SqlClient) -> None:
    first = sql.enqueue("children")
    second = waits_for(sql, first)
    third = waits_for(sql, second)
    for parents in ([third], [first]):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="would wait for itself"):
            waits_for(sql, *parents, id=first)
    assert is_due(sql, first)


def test_a_job_that_runs_cannot_begin_to_wait(sql: SqlClient) -> None:
    running = sql.started("children")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="does not wait to be run"):
        waits_for(sql, sql.enqueue(), id=running.id)


def test_what_is_neither_fail_nor_run_is_refused(sql: SqlClient) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="must be fail or run"):
        waits_for(sql, sql.enqueue(), on_discard="perhaps")


def test_a_waiting_job_that_is_cancelled_leaves_nothing_behind(sql: SqlClient) -> None:
    child = waits_for(sql, sql.enqueue())
    sql.call("stampeded_cancel", "children", child)
    sweep(sql)
    assert edges(sql) == 0 and sql.job(child).state == "cancelled"


def test_the_end_of_one_job_waits_for_nobody_who_deals_with_the_end_of_another(sql: SqlClient, connect: Connect) -> None:
    one, two = sql.started(), sql.started()
    child = waits_for(sql, one.id, two.id)
    other = connect()
    with other.transaction():
        other.run("SELECT FROM stampeded_dependencies WHERE parent_id = %s FOR UPDATE", two.id)
        sql.run("SET statement_timeout = '20s'")
        sql.call("stampeded_cancel", one.queue, one.id)
        assert sql.job(child).state == "discarded"
    sql.complete(two)
    assert edges(sql) == 0
