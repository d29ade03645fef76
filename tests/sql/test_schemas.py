"""The install lives in one schema: whatever the caller's search_path, and however it is named."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from psycopg import sql as build

from tests.sql.client import Row, SqlClient
from tests.sql.fixtures import Connect, Params, clients, drop_schema, migrate
from tests.sql.test_notifications import Listener

NAMES = ["Weird Name-1", "n" * 63, "日" * 21, 'quote"s', "select", "back\\slash"]


class Qualified(SqlClient):
    """A client whose search_path leads elsewhere, and who names the schema in each call."""

    home: str

    def call(self, function: str, *args: object, **named: object) -> list[Row]:
        self.run("SET search_path = elsewhere, pg_catalog")
        marks = [build.Placeholder()] * len(args)
        marks += [build.SQL("{} => {}").format(build.Identifier(n), build.Placeholder()) for n in named]  # type: ignore[misc]
        query = build.SQL("SELECT * FROM {}({})").format(build.Identifier(self.home, function), build.SQL(", ").join(marks))
        try:
            return self.rows(query, *args, *named.values())
        finally:
            self.run("RESET search_path")


@pytest.fixture
def elsewhere(sql: SqlClient) -> Iterator[None]:
    """A schema with tables and functions of the same names, which nobody may touch."""
    sql.run("CREATE SCHEMA elsewhere")
    for table in ("jobs", "workers", "queue_policies", "count_deltas", "schedules", "cron_occurrences"):
        sql.run(f"CREATE TABLE elsewhere.stampeded_{table} (decoy integer)")  # type: ignore[arg-type]
    yield
    left = sql.rows("SELECT * FROM elsewhere.stampeded_jobs")
    sql.run("SET client_min_messages = warning")
    sql.run("DROP SCHEMA elsewhere CASCADE")
    assert left == []


@pytest.fixture
def qualified(params: Params, connect: Connect, elsewhere: None) -> Iterator[Qualified]:
    client = Qualified(params)
    client.home = client.value("SELECT current_schema()")
    yield client
    client.close()


def lead_a_whole_life(sql: SqlClient, queue: str = "q") -> None:
    """Every function of the contract, once and with effect."""
    sql.call("stampeded_create_queue", queue)
    sql.complete(sql.started(queue))
    job = sql.started(queue, dedup_scope="s", dead_letter_queue="dead")
    sql.touch(job)
    sql.checkpoint(job, {"row": 1})
    sql.fail(job)
    (job,) = sql.claim(queue)
    sql.release(job)
    (job,) = sql.claim(queue)
    sql.fail(job, "unrecoverable")
    assert len(sql.jobs("dead")) == 1
    job = sql.started(queue, expire_seconds=1)
    sql.silence(job.id, timedelta(days=1))
    assert len(sql.call("stampeded_expire")) == 1
    sql.run("DELETE FROM stampeded_jobs WHERE id = %s", job.id)
    sql.started(queue)
    sql.silence_worker(sql.worker, timedelta(hours=1))
    assert len(sql.call("stampeded_reap")) == 1
    sql.call("stampeded_heartbeat", sql.worker)
    sql.insert("stampeded_schedules", key="k", queue=queue, task="t", cron_expr="* * * * *", dst_policy="wall_clock")
    assert len(sql.call("stampeded_claim_due_schedules")) == 1
    assert sql.call("stampeded_fire_schedule", "k", sql.value("SELECT now() + '1 hour'"))[0][0]
    sql.run("UPDATE stampeded_jobs SET finished_at = now() - interval '9 days' WHERE finished_at IS NOT NULL")
    assert sql.call("stampeded_prune")[0][0] == 2
    sql.call("stampeded_prune_occurrences")
    for function in ("vacuum_health", "index_density", "partition_health"):
        assert sql.call(f"stampeded_{function}")
    operate(sql, queue)
    sql.call("stampeded_recount_queue", queue)
    sql.call("stampeded_fold_counts")
    assert sql.counts() == sql.true_counts()


def operate(sql: SqlClient, queue: str) -> None:
    ids: list[UUID] = sql.enqueue_many(4, queue)
    sql.call("stampeded_pause", queue)
    assert sql.claim(queue) == []
    sql.call("stampeded_resume", queue)
    assert sql.call("stampeded_cancel", queue, ids[0])
    assert sql.call("stampeded_retry", queue, ids[0])
    assert sql.call("stampeded_discard", queue, ids[1])
    assert sql.call("stampeded_move", queue, ids[2], "moved")
    sql.insert("stampeded_queue_policies", queue="moved", max_running=1)
    jobs = sql.call("stampeded_claim_many", [queue, "moved"], sql.worker, 10)
    for verb in ("touch", "release"):
        done = sql.call(
            f"stampeded_{verb}_many", sql.worker, [j.queue for j in jobs], [j.id for j in jobs], [j.attempt for j in jobs]
        )
        assert len(done) == len(jobs) > 2


def test_functions_act_on_their_own_install_whatever_the_callers_search_path(qualified: Qualified) -> None:
    lead_a_whole_life(qualified)


def test_an_insert_by_qualified_name_is_counted_and_heard_in_its_own_install(
    sql: SqlClient, connect: Connect, elsewhere: None
) -> None:
    home = sql.value("SELECT current_schema()")
    listener = Listener(connect())
    assert sql.worker
    sql.run("SET search_path = elsewhere")
    table = build.Identifier(home, "stampeded_jobs")
    for statement in (
        "INSERT INTO {} (queue, task, dedup_scope) VALUES ('q', 't', 's')",
        "UPDATE {} SET state = 'cancelled'",
        "DELETE FROM {}",
        "INSERT INTO {} (queue, task, dedup_scope) VALUES ('q', 't', 's')",
    ):
        sql.run(build.SQL(statement).format(table))
    sql.run("RESET search_path")
    assert sql.counts() == sql.true_counts() == {("q", "available"): 1}
    assert listener.heard() == {"q": 2}


def test_a_temporary_table_of_the_same_name_is_not_taken_for_the_jobs(sql: SqlClient) -> None:
    id = sql.enqueue()
    worker = sql.worker
    sql.run("CREATE TEMP TABLE stampeded_jobs (LIKE stampeded_jobs INCLUDING DEFAULTS)")
    sql.run("CREATE TEMP TABLE stampeded_queue_policies (LIKE stampeded_queue_policies)")
    try:
        claimed = sql.rows("SELECT id FROM stampeded_claim('q', %s)", worker)
    finally:
        sql.run("DROP TABLE pg_temp.stampeded_jobs, pg_temp.stampeded_queue_policies")
    assert [row.id for row in claimed] == [id]


# -- schemas of other names, and several in one database -----------------------------------------


@pytest.fixture(scope="module", params=NAMES, ids=lambda name: name[:12])
def named_install(request: pytest.FixtureRequest, params: Params, django_db_blocker: Any) -> Iterator[str]:
    with django_db_blocker.unblock():
        migrate(params, "stampeded", schema=request.param)
    yield request.param
    drop_schema(params, request.param)


def test_an_install_works_in_a_schema_of_any_name(params: Params, named_install: str) -> None:
    with clients(params, named_install) as connect:
        sql = connect()
        assert sql.value("SELECT current_schema()") == named_install
        lead_a_whole_life(sql)


def test_the_channel_fits_and_is_heard_in_a_schema_of_any_name(params: Params, named_install: str) -> None:
    with clients(params, named_install) as connect:
        sql = connect()
        channel = sql.value("SELECT stampeded_channel()")
        assert len(channel.encode()) <= 63
        if len(named_install.encode()) < 40:
            assert channel == f"{named_install}.stampeded_insert"
        listener = Listener(connect())
        assert sql.worker
        sql.enqueue()
        assert listener.heard() == {"q": 1}


def test_long_schema_names_that_begin_alike_have_channels_of_their_own(params: Params, django_db_blocker: Any) -> None:
    schemas = ["x" * 62 + "1", "x" * 62 + "2"]
    try:
        with django_db_blocker.unblock():
            for schema in schemas:
                migrate(params, "stampeded", schema=schema)
        channels = set()
        for schema in schemas:
            with clients(params, schema) as connect:
                channels.add(connect().value("SELECT stampeded_channel()"))
        assert len(channels) == 2
    finally:
        for schema in schemas:
            drop_schema(params, schema)


def test_two_installs_in_one_database_do_not_see_each_other(
    params: Params, sql: SqlClient, connect: Connect, second_install: str
) -> None:
    with clients(params, second_install) as connect_other:
        other = connect_other()
        mine, theirs = Listener(connect()), Listener(connect_other())
        assert sql.worker and other.worker
        sql.call("stampeded_create_queue", "q")
        sql.enqueue("q")
        assert (mine.heard(), theirs.heard()) == ({"q": 1}, {})
        assert other.claim("q") == [] and other.counts() == {}
        other.call("stampeded_create_queue", "q")
        other.enqueue("q")
        assert (mine.heard(), theirs.heard()) == ({}, {"q": 1})
        sql.call("stampeded_pause", "q")
        assert len(other.claim("q")) == 1
        for client in (sql, other):
            for function in ("vacuum_health", "index_density", "partition_health"):
                tables = [row[0] for row in client.call(f"stampeded_{function}")]
                assert tables and len(tables) == len(set(tables)), function
        assert len(sql.call("stampeded_partition_health")) == len(other.call("stampeded_partition_health")) == 2


def test_maintenance_of_one_install_leaves_the_other_alone(params: Params, sql: SqlClient, second_install: str) -> None:
    with clients(params, second_install) as connect_other:
        other = connect_other()
        for client in (sql, other):
            client.silence(client.started(expire_seconds=1).id, timedelta(days=1))
            client.silence_worker(client.worker, timedelta(days=3))
            client.enqueue(state="completed", finished_at=-timedelta(days=30))
        before = (other.jobs(), other.rows("SELECT * FROM stampeded_workers"), other.counts())
        assert sql.call("stampeded_reap") and sql.call("stampeded_prune")[0][0] == 1
        sql.call("stampeded_expire")
        sql.call("stampeded_fold_counts")
        assert (other.jobs(), other.rows("SELECT * FROM stampeded_workers"), other.counts()) == before
