"""Fair shares: the tenants of a queue are served in turn, whatever each has waiting. Told by the order of starts."""

from __future__ import annotations

import os
from collections import Counter
from datetime import timedelta

import pytest

from tests.sql.client import Row, SqlClient

HUGE = int(os.environ.get("FAIR_JOBS", "5000"))
SMALL = max(10, HUGE // 1000)


@pytest.fixture
def fair(sql: SqlClient) -> SqlClient:
    sql.insert("stampeded_queue_policies", queue="q", fair_tenants=True)
    return sql


def starts(sql: SqlClient, claims: int, limit: int) -> list[str | None]:
    """The tenants of the jobs that so many claims start, in order; each job ends at once."""
    found: list[Row] = []
    for _ in range(claims):
        jobs = sql.claim(limit=limit)
        columns = [[getattr(job, name) for job in jobs] for name in ("queue", "id", "attempt")]
        sql.call("stampeded_complete_many", sql.worker, *columns)
        found += jobs
    return [job.tenant_id for job in found]


def test_tenants_take_turns(sql: SqlClient) -> None:
    sql.insert("stampeded_queue_policies", queue="q", fair_tenants=True)
    for tenant, number in (("a", 9), ("b", 2), ("c", 4)):
        sql.enqueue_many(number, tenant_id=tenant)
    assert "".join(filter(None, starts(sql, 15, 1))) == "abcabcacacaaaaa"


@pytest.mark.parametrize("limit", [1, 7, 50])
def test_each_of_nine_small_tenants_is_through_in_twice_its_share_beside_a_huge_one(fair: SqlClient, limit: int) -> None:
    fair.enqueue_many(HUGE, tenant_id="huge")
    for tenant in range(9):
        fair.enqueue_many(SMALL, tenant_id=f"small {tenant}")
    alone = 10 * SMALL  # starts until a tenant is through that gets every tenth
    order = starts(fair, 2 * alone // limit, limit)
    through = {tenant: 1 + max(n for n, t in enumerate(order) if t == tenant) for tenant in set(order)}
    assert Counter(order).items() >= {f"small {tenant}": SMALL for tenant in range(9)}.items()
    assert max(through[f"small {tenant}"] for tenant in range(9)) <= alone + limit
    assert len(order) == 2 * alone // limit * limit, "every claim was filled"


def test_a_claim_is_filled_where_only_one_tenant_has_enough(fair: SqlClient) -> None:
    fair.enqueue_many(100, tenant_id="huge")
    for tenant in "abcdefgh":
        fair.enqueue(tenant_id=tenant)
    assert Counter(job.tenant_id for job in fair.claim(limit=50)) == {"huge": 42, **dict.fromkeys("abcdefgh", 1)}


def test_within_a_tenant_the_order_is_that_of_every_queue(fair: SqlClient) -> None:
    for priority in (3, 1, 2):
        fair.enqueue(tenant_id="a", priority=priority)
        fair.enqueue(tenant_id="b", priority=priority, destination=str(priority))
    assert [fair.claim()[0].priority for _ in range(6)] == [1, 1, 2, 2, 3, 3]


def test_no_tenant_gets_ahead_by_its_priorities(fair: SqlClient) -> None:
    fair.enqueue_many(50, tenant_id="a", priority=-100)
    fair.enqueue_many(5, tenant_id="b")
    assert starts(fair, 10, 1).count("b") == 5


def test_jobs_without_a_tenant_share_one_turn(fair: SqlClient) -> None:
    fair.enqueue_many(20)
    fair.enqueue_many(4, destination="somewhere")
    for tenant in "ab":
        fair.enqueue_many(6, tenant_id=tenant)
    assert Counter(starts(fair, 18, 1)) == {None: 6, "a": 6, "b": 6}
    assert starts(fair, 30, 1) == [None] * 18


def test_jobs_without_a_tenant_are_found_behind_thousands_of_a_tenant(fair: SqlClient) -> None:
    fair.enqueue_many(3_000, tenant_id="huge")
    fair.enqueue_many(10)
    order = starts(fair, 100, 4)
    assert order.count(None) == 10


def test_a_tenant_whose_jobs_are_for_later_is_passed_over(fair: SqlClient) -> None:
    fair.enqueue_many(5, tenant_id="a", scheduled_at=timedelta(hours=1), priority=-1)
    fair.enqueue_many(3, tenant_id="b")
    assert starts(fair, 4, 1) == ["b"] * 3


def test_many_tenants_are_all_served(fair: SqlClient) -> None:
    fair.run(
        "INSERT INTO stampeded_jobs (queue, task, tenant_id) "
        "SELECT 'q', 't', 't' || mod(n, 700) FROM generate_series(1, 2100) n"
    )
    order = starts(fair, 70, 10)
    assert len(set(order)) == 700


def test_shares_and_limits_go_together(fair: SqlClient) -> None:
    fair.insert("stampeded_limits", queue="q", scope="tenant", value="huge", max_running=2)
    fair.enqueue_many(500, tenant_id="huge")
    fair.enqueue_many(10, tenant_id="small")
    assert Counter(job.tenant_id for job in fair.claim(limit=8)) == {"huge": 2, "small": 6}
    assert Counter(job.tenant_id for job in fair.claim(limit=8)) == {"small": 4}
    assert fair.claim(limit=8) == []


def test_nothing_is_refused_to_be_fair(fair: SqlClient) -> None:
    fair.enqueue_many(200, tenant_id="huge")
    fair.enqueue_many(20, tenant_id="small")
    starts(fair, 30, 8)
    assert {(job.attempt, job.deferrals) for job in fair.jobs() if job.state == "completed"} == {(1, 0)}


def test_a_claim_that_asks_for_everything_is_answered(fair: SqlClient) -> None:
    for n in range(9):
        fair.enqueue(tenant_id=str(n % 3))
    assert len(fair.claim(limit=2**63 - 1)) == 9
