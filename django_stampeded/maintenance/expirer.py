"""Fails the jobs that gave no sign of life for their expire_seconds, though their worker is on record as alive (expire in SQL).

Our own workers touch what they run, so this is for jobs that nobody vouches for: a worker that can't beat, or one in another
language that stopped to touch.
"""

from __future__ import annotations

import logging
from typing import Any

from django_stampeded import functions
from django_stampeded.maintenance.service import Report

logger = logging.getLogger("django_stampeded.maintenance")


class Expirer:
    """Expires, `batch` jobs at a time."""

    name = "expirer"
    interval = 10.0

    def __init__(self, batch: int = 100) -> None:
        self.batch = batch

    def run_once(self, cur: Any) -> Report:
        """Expire one batch."""
        expired = functions.expire(cur, self.batch)
        for job in expired:
            logger.warning(
                "Job %s of queue %s gave no sign of life for its expire_seconds: it is failed as timed out. Its worker was %s.",
                job.id,
                job.queue,
                job.worker_id,
            )
        return Report(len(expired), more=len(expired) >= self.batch)
