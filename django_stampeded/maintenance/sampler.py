"""Samples the queues for the charts of the admin (sample in SQL), and drops samples that are old."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django_stampeded import watch_functions
from django_stampeded.maintenance.service import Report

EVERY = timedelta(seconds=5)
KEPT = timedelta(hours=2)


class Sampler:
    """Samples, once in each slot of EVERY over all processes."""

    name = "sampler"
    interval = EVERY.total_seconds()

    def run_once(self, cur: Any) -> Report:
        """Sample unless this slot has its sample."""
        return Report(watch_functions.sample(cur, EVERY, KEPT))
