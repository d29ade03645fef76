"""stampeded_step: the record of a job's steps, as a worker in any language writes and resumes it."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from django_stampeded.step_record import state_of
from django_stampeded.worker.steps import Step, Steps
from tests.sql.client import SqlClient


def step(sql: SqlClient, job: Any, name: str | None, entry: Any) -> int | None:
    return sql.call("stampeded_step", job.queue, job.id, job.claimed_by, job.attempt, name, Jsonb(entry))[0][0]


def test_steps_are_merged_into_one_record_and_beat(sql: SqlClient) -> None:
    job = sql.started()
    assert step(sql, job, "charge", {"done": True, "result": "ch_1"}) == 1
    assert step(sql, job, "mail", {"cursor": 1}) == 2
    assert step(sql, job, "mail", {"cursor": 2, "done": True}) == 3
    after = sql.job(job.id)
    assert after.checkpoint == {
        "stampeded_steps": {"charge": {"done": True, "result": "ch_1"}, "mail": {"cursor": 2, "done": True}}
    }
    assert (after.checkpoint_seq, after.heartbeat_at > job.heartbeat_at) == (3, True)


@pytest.mark.parametrize("state", [{"cursor": 5}, [1], 5, "x", None, {"stampeded_steps": 5}])
def test_a_plain_checkpoint_becomes_the_state_beside_the_steps(sql: SqlClient, state: Any) -> None:
    job = sql.started()
    sql.checkpoint(job, state)
    step(sql, job, "a", {"done": True})
    assert sql.job(job.id).checkpoint == {"stampeded_steps": {"a": {"done": True}}, "state": state}


def test_what_is_unknown_in_a_record_is_kept(sql: SqlClient) -> None:
    job = sql.started()
    record = {"stampeded_steps": {"gone": {"cursor": 3, "x": 1}}, "state": 1, "more": [2]}
    sql.checkpoint(job, record)
    step(sql, job, "a.b,c", {"done": True})
    record["stampeded_steps"]["a.b,c"] = {"done": True}  # type: ignore[index]
    assert sql.job(job.id).checkpoint == record


def test_a_step_that_is_rolled_back_does_not_come_back_with_the_next(sql: SqlClient) -> None:
    job = sql.started()
    with sql.transaction() as transaction:
        step(sql, job, "a", {"done": True})
        raise psycopg.Rollback(transaction)
    step(sql, job, "b", {"done": True})
    assert sql.job(job.id).checkpoint == {"stampeded_steps": {"b": {"done": True}}}


def test_nobody_but_the_owner_writes_steps(sql: SqlClient) -> None:
    job = sql.started()
    sql.fail(job)
    assert step(sql, job, "a", {"done": True}) is None
    assert sql.job(job.id).checkpoint is None


@pytest.mark.parametrize(("name", "entry"), [(None, {}), ("", {}), ("a", 5), ("a", None)])
def test_a_step_needs_a_name_and_an_object(sql: SqlClient, name: str | None, entry: Any) -> None:
    job = sql.started()
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="a name and a JSON object"):
        step(sql, job, name, entry)


def test_python_resumes_what_was_written_by_hand(sql: SqlClient) -> None:
    job = sql.started()
    step(sql, job, "charge", {"done": True, "result": {"id": "ch_1"}})
    step(sql, job, "mail", {"cursor": 2})
    sql.fail(job)
    (again,) = sql.claim()
    steps = Steps(again.checkpoint, lambda name, entry: step(sql, again, name, entry), lambda: sql.job(again.id).checkpoint)
    assert steps.run("charge", lambda: pytest.fail("it was charged twice")) == {"id": "ch_1"}
    with Step(steps, "mail", 0) as mail:
        assert list(mail.over("abcd")) == ["c", "d"]
    after = sql.job(job.id).checkpoint
    assert after["stampeded_steps"]["mail"] == {"cursor": 4, "done": True}
    assert state_of(after) is None
