"""Keeps the table's schedules as the code declares them (scheduling.py), at the start and every minute from then on."""

from __future__ import annotations

import logging
from typing import Any

from django_stampeded import scheduling
from django_stampeded.maintenance.service import Report

logger = logging.getLogger("django_stampeded.maintenance")


class Declarer:
    """Syncs."""

    name = "declarer"
    interval = scheduling.REFRESH.total_seconds()

    def __init__(self) -> None:
        self._told: set[str] = set()

    def run_once(self, cur: Any) -> Report:
        """Sync once. A problem is told when it is new, not every minute."""
        synced = scheduling.sync(cur)
        messages = {problem.message for problem in synced.problems}
        for message in sorted(messages - self._told):
            logger.error("%s It is left out until that is mended.", message)
        self._told = messages
        return Report(synced.done)
