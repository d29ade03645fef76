"""Folds the queues' counts, so that reading them stays cheap (fold_counts in SQL)."""

from __future__ import annotations

from typing import Any

from django_stampeded import functions
from django_stampeded.maintenance.service import Report


class Counter:
    """Folds counts."""

    name = "counter"
    interval = 30.0

    def run_once(self, cur: Any) -> Report:
        """Fold what has gathered."""
        return Report(functions.fold_counts(cur))
