"""When a process has worked enough and is to be replaced: after so many jobs, or grown so large, or with threads lost.

Decides, and measures the memory; how the process then ends is the runner's. Where a parent starts the successor, the old
one works on until that is ready, so that nobody waits for a process to start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from time import monotonic

EARLY = 0.8
"""At this part of the jobs that it may run, a process asks for its successor."""
PATIENCE_S = 10.0
"""How long a process that is too large works on for want of a successor."""
_MIB = 1024 * 1024


def resident_mib() -> float:
    """How much memory this process occupies, in MiB; its peak where the system does not tell the present figure."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / _MIB
    except (OSError, ValueError):
        import resource  # not there on every system that could do without it

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (_MIB if sys.platform == "darwin" else 1024)


class Retirement:
    """Whether a process is to go.

    Args:
        max_jobs: the jobs it may run, None for any number.
        max_rss: the MiB it may occupy, None for any.
        has_successor: whether somebody starts another process when this one asks for it.
    """

    def __init__(
        self,
        max_jobs: int | None = None,
        max_rss: int | None = None,
        *,
        has_successor: bool = False,
        clock: Callable[[], float] = monotonic,
        memory: Callable[[], float] = resident_mib,
    ) -> None:
        self.max_jobs = max_jobs
        self.max_rss = max_rss
        self.has_successor = has_successor
        self.reason = ""
        self._clock = clock
        self._memory = memory
        self._asked_at: float | None = None

    @property
    def watches(self) -> bool:
        """Whether there is anything to look at from time to time."""
        return self.max_jobs is not None or self.max_rss is not None or self._asked_at is not None

    def wants(self, started: int, stuck: int = 0) -> bool:
        """Whether now is the moment to ask for a successor. True once; `reason` then says why."""
        if self._asked_at is not None:
            return False
        self.reason = self._why(started, stuck)
        if self.reason:
            self._asked_at = self._clock()
        return bool(self.reason)

    def _why(self, started: int, stuck: int) -> str:
        if self.max_jobs is not None and started >= self.max_jobs * (EARLY if self.has_successor else 1):
            return f"it has started {started} of its {self.max_jobs} jobs"
        if self.max_rss is not None and (size := self._memory()) >= self.max_rss:
            return f"it occupies {size:.0f} MiB of memory, and {self.max_rss} are allowed"
        if stuck and self.has_successor:
            return f"{stuck} of its threads are stuck in jobs that were given up"
        return ""

    def is_due(self, started: int) -> bool:
        """Whether to go now, successor or not."""
        if self._asked_at is None:
            return False
        if self.max_jobs is not None and started >= self.max_jobs:
            return True
        return self.max_rss is not None and (not self.has_successor or self._clock() - self._asked_at >= PATIENCE_S)
