"""Hostile and odd names and payloads: stored as they are or refused, never executed, never changed."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.sql.client import SqlClient
from tests.sql.test_partitions import NAMES


@pytest.mark.parametrize("name", NAMES, ids=[repr(name)[:20] for name in NAMES])
def test_a_name_means_the_same_wherever_it_stands(sql: SqlClient, name: str) -> None:
    dead = name[:250] + "dead"
    job = sql.started(name, task=name, tenant_id=name, destination=name, dead_letter_queue=dead, dedup_scope=name)
    sql.fail(job, "unrecoverable", name)
    letter = sql.claim(dead)[0]
    assert (letter.source_queue, letter.task, letter.tenant_id, letter.destination) == (name, name, name, name)
    assert sql.job(job.id).errors[-1]["destination"] == name
    sql.insert("stampeded_schedules", key=name, queue=name, task=name, interval_secs=60)
    fired = sql.call("stampeded_fire_schedule", name, None)[0][0]
    assert fired is None or sql.job(fired).task == name
    sql.call("stampeded_pause", name, name)
    assert sql.claim(name) == []
    assert sql.counts() == sql.true_counts()


def test_no_name_was_executed(sql: SqlClient) -> None:
    for name in NAMES:
        sql.call("stampeded_create_queue", name)
    assert sql.value("SELECT count(*) FROM pg_inherits WHERE inhparent = 'stampeded_jobs'::regclass") == len(NAMES) + 1


PAYLOADS: list[Any] = [
    {"nested": [[[{}]]], "null": None, "true": True, "": "empty key"},
    {"text": "quote ' \" \\ / \b\f\n\r\t \u2028 🐎 e\u0301", "日本": "鍵"},
    {"big": 10**30, "small": -(2**63), "float": 0.1},
    {"self": 1, "class": 2, "p_queue": 3, "$1": "$$"},
    {str(n): n for n in range(1000)},
]


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_args_and_meta_reach_the_worker_as_they_were_sent(sql: SqlClient, payload: dict[str, Any]) -> None:
    job = sql.started(args=payload, meta={"django": payload})
    assert (job.args, job.meta) == (payload, {"django": payload})
    sql.checkpoint(job, payload)
    sql.fail(job)
    (job,) = sql.claim()
    assert (job.args, job.meta, job.checkpoint) == (payload, {"django": payload}, payload)


def test_args_nested_thousands_deep_are_stored_or_refused_at_the_insert(sql: SqlClient) -> None:
    deep = '{"a": ' + "[" * 2000 + "]" * 2000 + "}"
    try:
        sql.rows("INSERT INTO stampeded_jobs (queue, task, args) VALUES ('q', 't', %s::jsonb)", deep)
    except psycopg.Error:
        assert sql.jobs() == []
    else:
        assert len(sql.rows("SELECT id FROM stampeded_claim('q', %s)", sql.worker)) == 1


def test_the_meta_of_other_runtimes_is_kept_through_a_jobs_life(sql: SqlClient) -> None:
    meta = {"activejob": {"job_class": "X"}, "django": {"priority": 3}}
    job = sql.started(meta=meta, dead_letter_queue="dead")
    for verb in (sql.release, sql.fail):
        verb(job)
        (job,) = sql.claim()
    sql.fail(job, "unrecoverable")
    assert sql.job(job.id).meta == meta == sql.jobs("dead")[0].meta


def test_a_refused_job_shows_no_more_of_its_arguments_than_the_server_does(sql: SqlClient) -> None:
    with pytest.raises(psycopg.errors.CheckViolation) as refusal:
        sql.enqueue(args={"x": "y" * 2_000_000, "z": "secret at the end"})
    assert "secret" not in str(refusal.value)
