"""After a crash of the server: what was committed is there, and the counts are right without anyone's help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from django_stampeded.testing.postgres import LocalPostgres
from tests.sql.client import SqlClient
from tests.sql.fixtures import Params, migrate

pytestmark = pytest.mark.slow


@pytest.fixture
def crashing() -> Iterator[LocalPostgres]:
    """A server of this test's own that keeps its promises about what is on disk."""
    with LocalPostgres(settings={"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}) as server:
        yield server


def params_of(server: LocalPostgres) -> Params:
    url = urlsplit(server.url)
    return {"dbname": url.path.lstrip("/"), "user": url.username, "host": url.hostname, "port": url.port}


def crash(server: LocalPostgres, client: SqlClient) -> SqlClient:
    client.close()
    server.kill()
    server.start()
    return SqlClient(params_of(server))


def test_the_counts_are_right_again_after_a_crash(crashing: LocalPostgres, django_db_blocker: Any) -> None:
    params = params_of(crashing)
    with django_db_blocker.unblock():
        migrate(params)
    sql = SqlClient(params)
    sql.call("stampeded_create_queue", "kept")
    sql.call("stampeded_create_queue", "unlogged", True)
    for queue in ("kept", "unlogged", "default"):
        sql.enqueue_many(5, queue)
        sql.complete(sql.claim(queue, 2)[0])
    sql.call("stampeded_fold_counts", 1)
    sql.enqueue_many(2, "unlogged")
    assert sql.counts() == sql.true_counts()

    sql = crash(crashing, sql)
    try:
        assert sql.jobs("unlogged") == [], "an unlogged queue is empty after a crash, by PostgreSQL's own rule"
        assert len(sql.jobs("kept")) == len(sql.jobs("default")) == 5
        assert sql.counts() == sql.true_counts()
        sql.enqueue_many(3, "unlogged")
        assert len(sql.claim("unlogged", 9)) == 3
        sql.call("stampeded_fold_counts", 1)
        assert sql.counts() == sql.true_counts()
    finally:
        sql.close()


def test_jobs_of_a_crashed_server_are_taken_back_like_any_others(crashing: LocalPostgres, django_db_blocker: Any) -> None:
    params = params_of(crashing)
    with django_db_blocker.unblock():
        migrate(params)
    sql = SqlClient(params)
    job = sql.started()
    sql.enqueue()
    worker = sql.worker
    sql = crash(crashing, sql)
    try:
        assert sql.job(job.id).state == "executing"
        sql.run("UPDATE stampeded_workers SET last_heartbeat = now() - interval '1 hour' WHERE id = %s", worker)
        assert [row.id for row in sql.call("stampeded_reap")] == [job.id]
        assert len(sql.claim()) == 1
    finally:
        sql.close()
