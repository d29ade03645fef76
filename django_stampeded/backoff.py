"""How long a job waits before its next attempt: exponential back-off with full jitter.

Pure. SQL computes the same where a failure names no delay (stampeded_fail); this is for the tasks
whose base is too long for the column.
"""

from __future__ import annotations

import random
from collections.abc import Callable

Uniform = Callable[[float, float], float]


def ceiling(base: float, cap: float, n: int) -> float:
    """The longest wait after the n-th failure: min(cap, base * 2 ** (n - 1)), in the arguments' unit.

    `n` counts from 1 (less is taken as 1) and has no upper bound: it never overflows.

    Example: `ceiling(1, 3600, 5) == 16`
    """
    # 2.0 ** 1023 is the largest power a float holds; a product beyond is inf, which min() turns into the cap.
    return min(cap, base * 2.0 ** min(max(n, 1) - 1, 1023))


def full_jitter(base: float, cap: float, n: int, uniform: Uniform = random.uniform) -> float:
    """A wait drawn evenly from 0 to `ceiling(base, cap, n)`, so that jobs that failed together part ways.

    Example: `0 <= full_jitter(1, 3600, 3) <= 4`
    """
    return uniform(0.0, ceiling(base, cap, n))
