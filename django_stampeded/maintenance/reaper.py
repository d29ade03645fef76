"""Takes back the jobs of workers that stopped beating. Whose turn it is to fail and how is decided in SQL (reap)."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from django_stampeded import functions
from django_stampeded.maintenance.service import Report

logger = logging.getLogger("django_stampeded.maintenance")


class Reaper:
    """Reaps. `dead_after`: seconds without a heartbeat after which a worker counts as dead."""

    name = "reaper"

    def __init__(self, dead_after: float) -> None:
        self.dead_after = timedelta(seconds=dead_after)
        self.interval = min(10.0, max(1.0, dead_after / 10))

    def run_once(self, cur: Any) -> Report:
        """Take back what the dead left behind."""
        taken = functions.reap(cur, self.dead_after)
        for worker_id in {job.worker_id for job in taken}:
            ids = [str(job.id) for job in taken if job.worker_id == worker_id]
            logger.warning(
                "Worker %s stopped beating: its %d jobs are taken back and run again, or are discarded where that "
                "happened too often (%s%s).",
                worker_id,
                len(ids),
                ", ".join(ids[:10]),
                ", …" if len(ids) > 10 else "",
            )
        return Report(len(taken))
