"""What the columns of our tables take, where it is asked before writing. The sentence about what doesn't fit is the caller's.

Pure. The options of a task have checks of their own, with ranges that are narrower in places (options.py).
"""

from __future__ import annotations

from typing import Any, TypeGuard

LARGEST_INTEGER = 2**31 - 1
LOWEST_PRIORITY, HIGHEST_PRIORITY = -(2**15), 2**15 - 1


def is_name(value: Any) -> TypeGuard[str]:
    """Whether that may name a queue, tenant, destination, limit key or task: 1 to 255 characters, none of them NUL.

    Example: `is_name("mail") and not is_name("")`
    """
    return isinstance(value, str) and 0 < len(value) <= 255 and "\x00" not in value


def is_priority(value: Any) -> TypeGuard[int]:
    """Whether that may be a job's priority: a whole number from -32768 to 32767.

    Example: `is_priority(-5) and not is_priority(40_000)`
    """
    return isinstance(value, int) and LOWEST_PRIORITY <= value <= HIGHEST_PRIORITY
