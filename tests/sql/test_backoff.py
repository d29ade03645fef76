"""The delay before a retry: full jitter below an exponential cap, for every language."""

from __future__ import annotations

from datetime import timedelta
from statistics import mean
from typing import Any

import pytest

from tests.sql.client import Row, SqlClient

SAMPLES = 100
MILLISECOND = timedelta(milliseconds=1)


def delay_of(sql: SqlClient, job: Row, kind: str, delay: int | None = None) -> tuple[float, float]:
    """Milliseconds until the retry, seen from after the failure and from before it."""
    before = sql.now()
    after = sql.failed(job, kind, delay=delay)
    assert after.state == "retryable"
    return (
        (after.scheduled_at - sql.now()) / MILLISECOND,
        (after.scheduled_at - before) / MILLISECOND,
    )


def delays(sql: SqlClient, kind: str, number: int = SAMPLES, **columns: Any) -> list[float]:
    """The delays, never above the true ones, of *number* jobs that failed with a null delay."""
    if columns:
        sql.enqueue_many(number, "b", **columns)
    jobs = sql.claim("b", number)
    assert len(jobs) == number
    found = [delay_of(sql, job, kind) for job in jobs]
    assert all(from_before >= 0 for _, from_before in found)
    return [from_after for from_after, _ in found]


def spread_over(found: list[float], cap: float) -> None:
    """Uniform over [0, cap]: none beyond, and neither bunched nor short of it."""
    assert max(found) <= cap
    assert 0.3 * cap < mean(found) < 0.7 * cap
    assert min(found) < 0.25 * cap and max(found) > 0.75 * cap


@pytest.mark.parametrize(("attempt", "cap"), [(0, 1000), (1, 2000), (2, 4000), (5, 32000), (11, 2_048_000)])
@pytest.mark.parametrize("kind", ["raised", "timed_out"])
def test_the_delay_doubles_with_each_attempt(sql: SqlClient, kind: str, attempt: int, cap: float) -> None:
    spread_over(delays(sql, kind, attempt=attempt, backoff_max_ms=2**31 - 1), cap)


def test_the_delay_never_passes_the_jobs_own_maximum(sql: SqlClient) -> None:
    spread_over(delays(sql, "raised", attempt=20, backoff_max_ms=5000), 5000)


def test_a_maximum_below_the_base_holds_for_the_first_retry_too(sql: SqlClient) -> None:
    assert max(delays(sql, "raised", attempt=0, backoff_max_ms=10)) <= 10


@pytest.mark.parametrize(("interruptions", "cap"), [(0, 1000), (3, 8000)])
@pytest.mark.parametrize("kind", ["heartbeat_lost", "worker_exited", "worker_missing"])
def test_a_deaths_delay_goes_by_the_interruptions_so_far(sql: SqlClient, kind: str, interruptions: int, cap: float) -> None:
    # The checkpoint of the earlier deaths is the one that still stands: none at all.
    columns = {"attempt": 9, "max_interruptions": 100}
    sql.enqueue_many(SAMPLES, "b", **columns)
    for _ in range(interruptions):
        for job in sql.claim("b", SAMPLES):
            sql.fail(job, kind, delay=0)
        sql.run("UPDATE stampeded_jobs SET attempt = 9")
    spread_over(delays(sql, kind), cap)


@pytest.mark.parametrize(("deferrals", "cap"), [(0, 1000), (4, 16000)])
@pytest.mark.parametrize("kind", ["breaker_open", "throttled"])
def test_a_refusals_delay_goes_by_the_deferrals_so_far(sql: SqlClient, kind: str, deferrals: int, cap: float) -> None:
    spread_over(delays(sql, kind, attempt=9, deferrals=deferrals), cap)


@pytest.mark.parametrize("attempt", [24, 45, 46, 309, 1022, 1023, 32765])
@pytest.mark.parametrize("base", [1, 1000, 32767])
@pytest.mark.parametrize("limit", [1, 3_600_000, 2**31 - 1])
def test_no_attempt_and_no_setting_overflows(sql: SqlClient, attempt: int, base: int, limit: int) -> None:
    columns = {
        "attempt": attempt, "max_attempts": 32767,
        "backoff_base_ms": base, "backoff_max_ms": limit,
    }  # fmt: skip
    (delay,) = delays(sql, "raised", 1, **columns)
    assert delay <= limit


@pytest.mark.parametrize("kind", ["worker_exited", "throttled"])
def test_a_counter_at_its_end_does_not_overflow(sql: SqlClient, kind: str) -> None:
    columns = {
        "interruptions": 32765, "max_interruptions": 32767,
        "deferrals": 32765, "max_deferrals": 32767, "backoff_base_ms": 32767,
    }  # fmt: skip
    (delay,) = delays(sql, kind, 1, **columns)
    assert delay <= 3_600_000


@pytest.mark.parametrize("delay", [0, -1, -(2**31), -(2**63)])
def test_a_delay_of_nothing_or_less_means_at_once(sql: SqlClient, delay: int) -> None:
    seen_after, seen_before = delay_of(sql, sql.started(), "raised", delay)
    assert seen_after <= 0 and abs(seen_before) < 60_000
    assert len(sql.claim()) == 1


@pytest.mark.parametrize("delay", [1, 1500, 86_400_000, 2**31, 315_000_000_000])
def test_a_given_delay_is_kept_to_the_millisecond(sql: SqlClient, delay: int) -> None:
    seen_after, seen_before = delay_of(sql, sql.started(), "raised", delay)
    assert seen_after <= delay <= seen_before


@pytest.mark.parametrize("delay", [400_000_000_000, 2**62, 2**63 - 1])
def test_a_given_delay_is_clamped_to_ten_years(sql: SqlClient, delay: int) -> None:
    ten_years = timedelta(days=3650) / MILLISECOND
    seen_after, _ = delay_of(sql, sql.started(), "raised", delay)
    assert 0.99 * ten_years < seen_after < 1.01 * ten_years


def test_a_given_delay_may_pass_the_jobs_own_maximum(sql: SqlClient) -> None:
    _, seen_before = delay_of(sql, sql.started(backoff_max_ms=1), "raised", 60_000)
    assert seen_before >= 60_000
