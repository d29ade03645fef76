"""Limits of a tenant, a destination or a key within a queue, which bind the claim whatever stands in front."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import psycopg
import pytest

from tests.races.together import together
from tests.sql.client import Row, SqlClient
from tests.sql.fixtures import Connect

COLUMNS = {"tenant": "tenant_id", "destination": "destination", "key": "limit_key"}
SCOPES = sorted(COLUMNS)


def limit(sql: SqlClient, scope: str, value: str | None = None, queue: str = "q", **columns: object) -> None:
    sql.run("INSERT INTO stampeded_queue_policies (queue) VALUES (%s) ON CONFLICT DO NOTHING", queue)
    sql.insert("stampeded_limits", queue=queue, scope=scope, value=value, **columns)


def enqueue(sql: SqlClient, scope: str, value: str, number: int = 1, **columns: object) -> None:
    sql.enqueue_many(number, **{COLUMNS[scope]: value}, **columns)


def by(jobs: list[Row], scope: str = "tenant") -> Counter[str | None]:
    return Counter(getattr(job, COLUMNS[scope]) for job in jobs)


@pytest.mark.parametrize("scope", SCOPES)
def test_no_more_jobs_of_a_key_run_at_once_than_its_limit_allows(sql: SqlClient, scope: str) -> None:
    limit(sql, scope, max_running=2)
    for value in ("a", "b"):
        enqueue(sql, scope, value, 5)
    first = sql.claim(limit=3)
    second = sql.claim(limit=9)
    assert by(first + second, scope) == {"a": 2, "b": 2}
    sql.complete(first[0])
    assert by(sql.claim(limit=9), scope) == {"a": 1}


@pytest.mark.parametrize("scope", SCOPES)
def test_no_more_jobs_of_a_key_start_in_a_period_than_its_rate_allows(sql: SqlClient, scope: str) -> None:
    limit(sql, scope, rate_limit=2, rate_period_secs=3600)
    for value in ("a", "b"):
        enqueue(sql, scope, value, 5)
    for job in sql.claim(limit=1):
        sql.complete(job)
    for job in claimed_all(sql):
        sql.complete(job)
    assert by(sql.jobs(), scope) == {"a": 5, "b": 5} and sql.counts()["q", "completed"] == 4


def claimed_all(sql: SqlClient) -> list[Row]:
    claimed: list[Row] = []
    while more := sql.claim(limit=50):
        claimed += more
    return claimed


def test_a_limit_by_name_goes_before_the_one_for_each(sql: SqlClient) -> None:
    limit(sql, "tenant", max_running=1)
    limit(sql, "tenant", "big", max_running=4)
    for tenant in ("big", "small", "tiny"):
        enqueue(sql, "tenant", tenant, 9)
    assert by(claimed_all(sql)) == {"big": 4, "small": 1, "tiny": 1}


def test_a_limit_by_name_alone_leaves_the_others_free(sql: SqlClient) -> None:
    limit(sql, "destination", "slow.example", max_running=1)
    for destination in ("slow.example", "fast.example"):
        enqueue(sql, "destination", destination, 6)
    assert by(claimed_all(sql), "destination") == {"slow.example": 1, "fast.example": 6}


def test_a_job_without_the_key_is_not_limited(sql: SqlClient) -> None:
    limit(sql, "tenant", max_running=1)
    sql.enqueue_many(4)
    enqueue(sql, "tenant", "a", 4)
    assert by(claimed_all(sql)) == {None: 4, "a": 1}


def test_each_limit_of_a_job_binds(sql: SqlClient) -> None:
    limit(sql, "tenant", max_running=3)
    limit(sql, "destination", max_running=4)
    limit(sql, "key", rate_limit=2, rate_period_secs=3600)
    for tenant in "ab":
        for destination in "xy":
            for key in "kl":
                sql.enqueue_many(5, tenant_id=tenant, destination=destination, limit_key=key + tenant)
    claimed = claimed_all(sql)
    assert max(by(claimed).values()) <= 3 and max(by(claimed, "destination").values()) <= 4
    assert max(by(claimed, "key").values()) <= 2
    assert len(claimed) == 6


def test_limits_of_one_queue_are_none_of_another(sql: SqlClient) -> None:
    limit(sql, "tenant", max_running=1, queue="other")
    enqueue(sql, "tenant", "a", 5)
    assert len(sql.claim(limit=9)) == 5


def test_the_queues_own_limit_binds_beside_those_of_its_keys(sql: SqlClient) -> None:
    limit(sql, "tenant", max_running=2)
    sql.change("stampeded_queue_policies", {"queue": "q"}, max_running=3)
    for tenant in "abc":
        enqueue(sql, "tenant", tenant, 5)
    assert len(claimed_all(sql)) == 3


def test_claims_keep_the_order_as_far_as_the_limits_let_them(sql: SqlClient) -> None:
    limit(sql, "tenant", max_running=1)
    for priority, tenant in ((3, "a"), (1, "b"), (2, "a"), (0, "b"), (4, "c")):
        enqueue(sql, "tenant", tenant, priority=priority)
    assert [(job.priority, job.tenant_id) for job in sql.claim(limit=9)] == [(0, "b"), (2, "a"), (4, "c")]


@pytest.mark.parametrize("scope", SCOPES)
def test_jobs_behind_many_that_are_held_back_are_found_in_order(sql: SqlClient, scope: str) -> None:
    limit(sql, scope, max_running=1)
    enqueue(sql, scope, "held", 500)
    assert len(sql.claim()) == 1
    for priority in (5, 3, 4):
        enqueue(sql, scope, f"free {priority}", 2, priority=priority)
    sql.enqueue(priority=6)
    assert [job.priority for job in sql.claim(limit=2)] == [3, 4]
    assert sorted(job.priority for job in claimed_all(sql)) == [5, 6]
    assert by(sql.claim(limit=9), scope) == {}


def test_jobs_without_a_key_behind_thousands_that_are_held_back_come_to_their_turn(sql: SqlClient) -> None:
    limit(sql, "tenant", max_running=1)
    enqueue(sql, "tenant", "held", 12_000)
    assert len(sql.claim()) == 1
    sql.enqueue_many(7, priority=1)
    found, claims = 0, 0
    while found < 7:
        found += len(sql.claim(limit=5))
        claims += 1
        assert claims < 10
    sql.enqueue(priority=-1)
    assert [job.priority for job in sql.claim(limit=9)] == [-1], "one that comes later in front is seen at once"


def test_no_key_is_passed_over_for_ever_among_a_thousand_that_are_held_back(sql: SqlClient) -> None:
    limit(sql, "key", max_running=1)
    sql.run(
        "INSERT INTO stampeded_jobs (queue, task, limit_key, state, attempt) SELECT 'q', 't', 'k' || n, s, a "
        "FROM generate_series(1, 2500) n, (VALUES ('executing', 1), ('available', 0)) v (s, a)"
    )
    enqueue(sql, "key", "zzz", 1, priority=1)
    claims = 1
    while not (found := sql.claim(limit=3)):
        claims += 1
        assert claims < 10
    assert [job.limit_key for job in found] == ["zzz"]


def test_a_job_that_somebody_holds_locked_does_not_hold_up_the_others_of_its_key(sql: SqlClient, connect: Connect) -> None:
    limit(sql, "tenant", max_running=1)
    for _ in range(2):
        enqueue(sql, "tenant", "a")
    other = connect()
    with other.transaction():
        other.rows("SELECT FROM stampeded_jobs ORDER BY scheduled_at, id LIMIT 1 FOR UPDATE")
        assert len(sql.claim(limit=5)) == 1
    assert sql.claim(limit=5) == []


def test_a_limit_goes_with_its_policy(sql: SqlClient) -> None:
    limit(sql, "tenant", max_running=1)
    sql.run("DELETE FROM stampeded_queue_policies")
    assert sql.value("SELECT count(*) FROM stampeded_limits") == 0


@pytest.mark.parametrize(
    "columns",
    [
        {"scope": "task", "max_running": 1},
        {"scope": "tenant"},
        {"scope": "tenant", "max_running": 0},
        {"scope": "tenant", "rate_limit": 5},
        {"scope": "tenant", "rate_period_secs": 5, "max_running": 1},
        {"scope": "tenant", "value": "", "max_running": 1},
    ],
)
def test_a_limit_that_means_nothing_is_refused(sql: SqlClient, columns: dict[str, object]) -> None:
    sql.insert("stampeded_queue_policies", queue="q")
    with pytest.raises(psycopg.IntegrityError):
        sql.insert("stampeded_limits", queue="q", **columns)


def test_one_key_has_one_limit(sql: SqlClient) -> None:
    limit(sql, "tenant", max_running=1)
    with pytest.raises(psycopg.IntegrityError):
        sql.insert("stampeded_limits", queue="q", scope="tenant", max_running=2)


def test_longest_names_fit_the_index(sql: SqlClient) -> None:
    long = "\U0001f40e" * 255
    limit(sql, "destination", max_running=1, queue=long)
    sql.enqueue_many(2, long, tenant_id=long, destination=long, limit_key=long)
    assert len(sql.claim(long, 5)) == 1


def test_many_claimers_at_once_keep_the_limits_of_every_key(sql: SqlClient, connect: Connect) -> None:
    limit(sql, "tenant", max_running=2)
    tenants = [f"t{n}" for n in range(5)]
    for tenant in tenants:
        enqueue(sql, "tenant", tenant, 30)
    sql.run("CREATE TABLE IF NOT EXISTS running (tenant text, began timestamptz, ended timestamptz)")
    claimers = [connect() for _ in range(4)]
    assert all(claimer.worker for claimer in claimers)

    def work(client: SqlClient) -> None:
        while client.value("SELECT EXISTS (SELECT FROM stampeded_jobs WHERE state = 'available')"):
            for job in client.claim(limit=3):
                began = client.now()
                client.run("INSERT INTO running VALUES (%s, %s, clock_timestamp())", job.tenant_id, began)
                client.complete(job)

    try:
        together(*[lambda c=claimer: work(c) for claimer in claimers])  # type: ignore[misc]
        most = sql.value(
            "SELECT max((SELECT count(*) FROM running b WHERE b.tenant = a.tenant"
            " AND b.began <= a.began AND b.ended >= a.began)) FROM running a"
        )
        assert sql.value("SELECT count(*) FROM running") == 150
        assert most <= 2
    finally:
        sql.run("DROP TABLE running")


def test_a_future_job_of_a_key_holds_up_none_that_is_due(sql: SqlClient) -> None:
    limit(sql, "tenant", max_running=1)
    enqueue(sql, "tenant", "held", 300)
    sql.claim()
    enqueue(sql, "tenant", "b", 50, priority=-1, scheduled_at=timedelta(hours=1))
    enqueue(sql, "tenant", "b", 1, priority=1)
    assert [(job.tenant_id, job.priority) for job in sql.claim(limit=9)] == [("b", 1)]
