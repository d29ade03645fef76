"""Exponential back-off with full jitter."""

import random

import pytest

from django_stampeded.backoff import ceiling, full_jitter


def test_the_ceiling_doubles_with_each_failure_up_to_the_cap():
    assert [ceiling(1, 60, n) for n in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]


@pytest.mark.parametrize("n", [-1, 0, 1, 25, 46, 47, 310, 1023, 1024, 1025, 32_767, 10**9])
@pytest.mark.parametrize("base", [0.001, 1, 1000, 32_767, 2**31 - 1])
def test_no_attempt_overflows_the_delay(base, n):
    cap = 3_600_000
    assert 0 < ceiling(base, cap, n) <= cap
    assert 0 <= full_jitter(base, cap, n) <= cap


def test_a_count_below_one_is_taken_as_the_first():
    assert ceiling(2, 60, 0) == ceiling(2, 60, -5) == ceiling(2, 60, 1) == 2


def test_the_wait_is_drawn_evenly_from_nothing_to_the_ceiling():
    asked = []
    full_jitter(1, 60, 4, uniform=lambda low, high: asked.append((low, high)) or 0.0)
    assert asked == [(0.0, 8)]
    drawn = [full_jitter(1, 60, 4, uniform=random.Random(7).uniform) for _ in range(1)]
    assert 0 <= drawn[0] <= 8
