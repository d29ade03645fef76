"""What a claim reads depends on what it takes: not on statistics, backlog, history or other queues."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.plans.measure import MANY, claim_pages, pages, plans_shown, shape
from tests.sql.client import SqlClient
from tests.worker.support import eventually

HOUR = timedelta(hours=1)
LIMIT = 10
DUE = 20


def own_partition(sql: SqlClient, queue: str = "q") -> str:
    """The queue's partition, where nothing but the test gathers statistics or vacuums."""
    sql.call("stampeded_create_queue", queue)
    name: str = sql.value("SELECT partition::regclass::text FROM stampeded_partition_health() WHERE queue = %s", queue)
    sql.run(f"ALTER TABLE {name} SET (autovacuum_enabled = false)")  # type: ignore[arg-type]
    return name


def allowed(sql: SqlClient) -> int:
    """What the same claim may read: that of an install with nothing but the due jobs, and the height of its trees."""
    own_partition(sql, "alone")
    sql.enqueue_many(DUE, "alone")
    return int(claim_pages(sql, "alone", LIMIT) * 1.2) + 60


def analyze(sql: SqlClient) -> None:
    sql.run("ANALYZE stampeded_jobs")


# -- statistics ------------------------------------------------------------------------------------


def absent(sql: SqlClient) -> None:
    sql.enqueue_many(MANY)


def taken_when_empty(sql: SqlClient) -> None:
    analyze(sql)
    sql.enqueue_many(MANY)


def fresh(sql: SqlClient) -> None:
    sql.enqueue_many(MANY)
    analyze(sql)


DELETE_ALL_BUT = """
    WITH gone AS (DELETE FROM stampeded_jobs WHERE id NOT IN (SELECT id FROM stampeded_jobs ORDER BY id DESC LIMIT %s))
    SELECT pg_current_xact_id()::text
"""
# A transaction that writes in any database of the server, or reads in this one, may need what was deleted after it began.
NEEDED_BY_NOBODY = """
    SELECT pg_snapshot_xmin(pg_current_snapshot()) > %s::xid8 AND NOT EXISTS (
        SELECT FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL)
"""


def taken_when_full(sql: SqlClient) -> None:
    fresh(sql)
    sql.run("SET synchronous_commit = on")  # what isn't flushed yet can't be marked as dead
    deletion = sql.value(DELETE_ALL_BUT, DUE)
    # Nor can what others may still need: tests beside this one fill tables in transactions of a minute.
    eventually(lambda: sql.value(NEEDED_BY_NOBODY, deletion), "all to have ended that began before", timeout=240)


def of_another_shape(sql: SqlClient) -> None:
    """All finished at the last look, all waiting now."""
    sql.enqueue_many(MANY, state="completed", finished_at=-HOUR)
    analyze(sql)
    sql.run("UPDATE stampeded_jobs SET state = 'available', finished_at = NULL")


STATISTICS = [absent, taken_when_empty, fresh, taken_when_full, of_another_shape]


@pytest.mark.parametrize("generic", [False, True], ids=["", "generic"])
@pytest.mark.parametrize("statistics", STATISTICS, ids=lambda f: f.__name__)
def test_a_claim_reads_the_same_whatever_the_statistics_say(
    sql: SqlClient, statistics: Callable[[SqlClient], None], generic: bool
) -> None:
    own_partition(sql)
    statistics(sql)
    if generic:
        sql.run("SET plan_cache_mode = force_generic_plan")
    # Without vacuum the index pages of what was deleted are passed over, but never the deleted rows themselves.
    passed_over = MANY // 100 if statistics is taken_when_full else 0
    assert claim_pages(sql, "q", LIMIT) <= allowed(sql) + passed_over


CLAIM_INDEX = """
    SELECT i.inhrelid::regclass::text FROM pg_inherits i JOIN pg_index x ON x.indexrelid = i.inhrelid
    WHERE i.inhparent = 'stampeded_jobs_claim'::regclass AND x.indrelid = %s::regclass
"""


def claim_plan(sql: SqlClient) -> str:
    with plans_shown(sql) as plans:
        assert len(sql.claim(limit=LIMIT)) == LIMIT
    (found,) = [plan for plan in plans if "SKIP LOCKED" in plan]
    return shape(found)


def test_the_claims_plan_is_the_same_with_statistics_absent_stale_and_fresh(sql: SqlClient) -> None:
    partition = own_partition(sql)
    sql.call("stampeded_recount_queue", "q")
    found = {}
    for statistics in (absent, analyze, taken_when_empty, fresh):
        statistics(sql)
        found[statistics.__name__] = claim_plan(sql)
    # Which of its two unique ways the update takes to a row is all that may differ.
    ways = {re.sub(r"_id_idx|_pkey", "_key", plan) for plan in found.values()}
    assert len(ways) == 1, found
    plan = found["fresh"]
    index = sql.value(CLAIM_INDEX, partition)
    assert f"Index Scan using {index} on" in plan
    assert "Seq Scan" not in plan and "Bitmap" not in plan and "Hash" not in plan
    assert "stampeded_jobs_default" not in plan, "other partitions are looked at"


# -- backlog and history ---------------------------------------------------------------------------


def finished(sql: SqlClient) -> None:
    for state in ("completed", "discarded", "cancelled"):
        sql.enqueue_many(MANY // 3, state=state, finished_at=-HOUR)


def waiting(sql: SqlClient) -> None:
    sql.enqueue_many(MANY, priority=5)


def running(sql: SqlClient) -> None:
    sql.enqueue_many(MANY, state="executing", attempt=1)


def future_before_the_due(sql: SqlClient) -> None:
    sql.enqueue_many(MANY // 2, priority=-4, scheduled_at=HOUR)
    sql.enqueue_many(MANY // 2, priority=-5, scheduled_at=HOUR, state="retryable", attempt=2)


def future_in_a_hundred_priorities(sql: SqlClient) -> None:
    sql.run(
        "INSERT INTO stampeded_jobs (queue, task, priority, scheduled_at)"
        " SELECT 'q', 't', 1 + n %% 100, now() + '1 hour' FROM generate_series(1, %s) n",
        MANY,
    )


def other_queues(sql: SqlClient) -> None:
    sql.run("INSERT INTO stampeded_jobs (queue, task) SELECT 'other ' || n %% 1000, 't' FROM generate_series(1, %s) n", MANY)


BACKLOGS = [finished, waiting, running, future_before_the_due, future_in_a_hundred_priorities, other_queues]


@pytest.mark.parametrize("partitioned", [True, False], ids=["partition", "default"])
@pytest.mark.parametrize("analyzed", [False, True], ids=["", "analyzed"])
@pytest.mark.parametrize("backlog", BACKLOGS, ids=lambda f: f.__name__)
def test_a_claim_reads_the_same_whatever_stands_around_the_due_jobs(
    sql: SqlClient, backlog: Callable[[SqlClient], None], analyzed: bool, partitioned: bool
) -> None:
    if partitioned:
        own_partition(sql)
    backlog(sql)
    sql.enqueue_many(DUE)
    if analyzed:
        analyze(sql)
    assert claim_pages(sql, "q", LIMIT) <= allowed(sql)


def test_ten_due_jobs_among_a_hundred_priorities_of_future_ones_are_found_at_once(sql: SqlClient) -> None:
    own_partition(sql)
    future_before_the_due(sql)
    future_in_a_hundred_priorities(sql)
    for priority in range(1, 11):
        sql.enqueue(priority=priority)
    analyze(sql)
    one = claim_pages(sql, "q", 1)
    assert one < 200
    assert [job.priority for job in sql.claim(limit=10)] == list(range(1, 11))


def test_a_claim_that_finds_nothing_due_reads_little(sql: SqlClient) -> None:
    own_partition(sql)
    finished(sql)
    future_before_the_due(sql)
    assert claim_pages(sql, "q", LIMIT) < 60


def test_a_worker_that_drains_a_queue_without_vacuum_reads_no_more_at_the_end(sql: SqlClient) -> None:
    own_partition(sql)
    sql.enqueue_many(1500)
    first = claim_pages(sql, "q", LIMIT)
    while len(jobs := sql.claim(limit=100)) == 100:
        columns = [[getattr(job, name) for job in jobs] for name in ("queue", "id", "attempt")]
        sql.call("stampeded_complete_many", sql.worker, *columns)
        if sql.counts().get(("q", "available"), 0) <= DUE:
            break
    sql.enqueue_many(DUE)
    assert claim_pages(sql, "q", LIMIT) <= first * 1.5 + 60


def test_a_claim_under_a_limit_reads_no_more_than_the_jobs_that_run(sql: SqlClient) -> None:
    own_partition(sql)
    finished(sql)
    sql.insert("stampeded_queue_policies", queue="q", max_running=5)
    sql.enqueue_many(MANY)
    assert claim_pages(sql, "q", LIMIT) <= allowed(sql)


# -- limits ----------------------------------------------------------------------------------------------------------


def test_a_queue_without_limits_pays_for_none(sql: SqlClient) -> None:
    own_partition(sql)
    sql.enqueue_many(DUE)
    sql.insert("stampeded_queue_policies", queue="other", rate_limit=5, rate_period_secs=1, fair_tenants=True)
    sql.insert("stampeded_limits", queue="other", scope="tenant", max_running=1)
    with plans_shown(sql) as plans:
        assert len(sql.claim(limit=1)) == 1
    about_limits = [plan for plan in plans if "policies" in plan or "limits" in plan or "starts" in plan]
    assert len(about_limits) == 1 and "Index" in about_limits[0]
    assert claim_pages(sql, "q", 0) < 10


def held_back(sql: SqlClient, scope: str, column: str) -> None:
    """A queue with many jobs of a key at its limit."""
    own_partition(sql)
    sql.insert("stampeded_queue_policies", queue="q")
    sql.insert("stampeded_limits", queue="q", scope=scope, max_running=1)
    sql.enqueue_many(MANY, **{column: "held"})
    assert len(sql.claim()) == 1


@pytest.mark.parametrize("analyzed", [False, True], ids=["", "analyzed"])
@pytest.mark.parametrize("scope", ["tenant", "destination", "key"])
def test_a_claim_reads_over_few_of_the_jobs_that_a_limit_holds_back(sql: SqlClient, scope: str, analyzed: bool) -> None:
    column = {"tenant": "tenant_id", "destination": "destination", "key": "limit_key"}[scope]
    held_back(sql, scope, column)
    for value in range(DUE):
        sql.enqueue(priority=1, **{column: f"free {value}"})
    if analyzed:
        analyze(sql)
    assert claim_pages(sql, "q", LIMIT) <= allowed(sql) + 1500
    assert [job.priority for job in sql.claim(limit=LIMIT)] == [1] * LIMIT


def test_a_claim_that_a_limit_keeps_from_everything_reads_little(sql: SqlClient) -> None:
    held_back(sql, "tenant", "tenant_id")
    assert claim_pages(sql, "q", LIMIT) <= 6000 and sql.claim(limit=LIMIT) == []


@pytest.mark.parametrize("analyzed", [False, True], ids=["", "analyzed"])
def test_fair_shares_read_by_what_they_take_and_not_by_what_waits(sql: SqlClient, analyzed: bool) -> None:
    own_partition(sql)
    sql.insert("stampeded_queue_policies", queue="q", fair_tenants=True)
    sql.enqueue_many(MANY, tenant_id="huge")
    for tenant in range(9):
        sql.enqueue_many(DUE, tenant_id=f"small {tenant}")
    if analyzed:
        analyze(sql)
    assert claim_pages(sql, "q", LIMIT) <= allowed(sql) + 800


def test_a_rate_is_told_by_few_of_the_starts_on_record(sql: SqlClient) -> None:
    own_partition(sql)
    sql.insert("stampeded_queue_policies", queue="q", rate_limit=10**6, rate_period_secs=86_400)
    sql.enqueue_many(DUE)
    before = claim_pages(sql, "q", LIMIT)
    sql.run(
        "INSERT INTO stampeded_starts (queue, scope, value, started_at, n, total, expires_at) SELECT 'q', 'queue', '', "
        "now() - n * interval '1 second', 1, %s - n, now() + interval '1 day' FROM generate_series(1, %s) n",
        MANY,
        MANY - 1,
    )
    assert claim_pages(sql, "q", LIMIT) <= before + 40
    assert sql.value("SELECT stampeded_next_due('q') <= clock_timestamp()")


# -- breakers ----------------------------------------------------------------------------------------------------------


def test_a_queue_without_open_breakers_pays_one_look(sql: SqlClient) -> None:
    own_partition(sql)
    sql.enqueue_many(DUE)
    before = claim_pages(sql, "q", LIMIT)
    sql.run(
        "INSERT INTO stampeded_breakers (kind, key, failures) SELECT 'destination', 'd' || n, 1 FROM generate_series(1, 2000) n"
    )
    for queue in ("other", "another"):
        sql.run("SELECT stampeded_report_breaker('destination', %s, %s, 1000, 0)", f"of {queue}", queue)
    with plans_shown(sql) as plans:
        assert len(sql.claim(limit=1)) == 1
    about_breakers = [plan for plan in plans if "breakers" in plan]
    assert len(about_breakers) == 1 and "Index" in about_breakers[0]
    assert claim_pages(sql, "q", LIMIT) <= before + 4


@pytest.mark.parametrize("analyzed", [False, True], ids=["", "analyzed"])
def test_a_claim_reads_over_few_of_the_jobs_that_a_breaker_holds_back(sql: SqlClient, analyzed: bool) -> None:
    own_partition(sql)
    sql.enqueue_many(MANY, destination="away")
    sql.enqueue_many(DUE, priority=1, destination="here")
    sql.run("SELECT stampeded_report_breaker('destination', 'away', 'q', 1000, 0)")
    if analyzed:
        analyze(sql)
    assert claim_pages(sql, "q", LIMIT) <= allowed(sql) + 1500
    assert [job.destination for job in sql.claim(limit=LIMIT)] == ["here"] * LIMIT
    sql.run("UPDATE stampeded_jobs SET scheduled_at = now() + interval '1 day' WHERE destination = 'here'")
    assert claim_pages(sql, "q", LIMIT) <= 6000 and sql.claim(limit=LIMIT) == []
    assert sql.value("SELECT count(*) FROM stampeded_jobs WHERE destination = 'away' AND attempt + deferrals > 0") == 0


def test_breakers_that_nothing_probes_cost_a_claim_a_row_each_whatever_its_worker_runs(sql: SqlClient) -> None:
    sql.enqueue_many(600)
    sql.claim(limit=500)
    sql.run(
        "INSERT INTO stampeded_breakers (kind, key, state, retry_at, queues) "
        "SELECT 'destination', 'd' || n, 'open', now() - interval '1 day', '{q}' FROM generate_series(1, 500) n"
    )
    found = claim_pages(sql)
    assert found < 500 * 6 + 500, found


def test_successes_of_a_closed_breaker_cost_a_look_up(sql: SqlClient) -> None:
    sql.run("SELECT stampeded_report_breaker('destination', 'api', 'q', 1, 0)")
    assert pages(sql, "stampeded_report_breaker", "destination", "api", "q", 0, 100) <= 10
