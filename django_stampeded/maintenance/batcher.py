"""Sees to what ended unseen: batches that are through, and jobs whose parents have ended (finish_batches and
sweep_dependencies in SQL, which say why nobody else may have noticed)."""

from __future__ import annotations

from typing import Any

from django_stampeded import batch_functions
from django_stampeded.maintenance.service import Report


class Batcher:
    """Finishes batches, and tells jobs that wait for others. Each fifth run looks at all dependencies."""

    name = "batcher"
    interval = 1.0
    look_at_all = 5

    def __init__(self) -> None:
        self._runs = 0

    def run_once(self, cur: Any) -> Report:
        """Look once."""
        with cur.connection.transaction():  # of the isolation that the connection asks for
            told = batch_functions.sweep_dependencies(cur, everything=self._runs % self.look_at_all == 0)
        with cur.connection.transaction():
            finished = batch_functions.finish_batches(cur)
        self._runs += 1
        return Report(told + len(finished))
