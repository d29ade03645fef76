"""Deletes final jobs once they are older than their retention, expired results, old batches, and old entries of the
ledgers of schedules and of rate limits.

In batches, each a transaction of its own, so that a backlog of millions makes progress under any statement_timeout: a
batch that is cancelled for taking too long is tried again at half its size.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg

from django_stampeded import batch_functions, breaker_functions, functions, limit_functions
from django_stampeded.maintenance.service import Report

LARGEST = 10_000
SMALLEST = 10
OCCURRENCES_KEPT = timedelta(days=30)
BREAKERS_KEPT = timedelta(days=30)
BATCHES_KEPT = timedelta(days=30)


class Pruner:
    """Prunes jobs. `completed` and `discarded`: seconds that such jobs are kept."""

    name = "pruner"
    interval = 60.0

    def __init__(self, completed: float, discarded: float, batch: int = LARGEST) -> None:
        self.completed = timedelta(seconds=completed)
        self.discarded = timedelta(seconds=discarded)
        self.largest = batch
        self.batch = batch

    def run_once(self, cur: Any) -> Report:
        """Prune one batch. Raises the driver's errors, but for a batch that was too large for the server's patience."""
        asked = self.batch
        try:
            done = functions.prune(cur, self.completed, self.discarded, asked)
        except psycopg.errors.QueryCanceled:
            if asked <= SMALLEST:
                raise
            self.batch = max(SMALLEST, asked // 2)
            return Report(0, more=True)
        self.batch = min(self.largest, asked + asked // 4 + 1)
        return Report(done, more=done >= asked)


class OccurrencePruner:
    """Prunes the ledgers of fired occurrences and of starts, and circuit breakers that have had nothing to do for long."""

    name = "occurrence pruner"
    interval = 3600.0

    def run_once(self, cur: Any) -> Report:
        """Prune what is older than any occurrence that could still be asked for, and one batch of starts."""
        starts = limit_functions.prune_starts(cur, LARGEST)
        done = functions.prune_occurrences(cur, OCCURRENCES_KEPT) + breaker_functions.prune(cur, BREAKERS_KEPT)
        return Report(done + starts, more=starts >= LARGEST)


class ResultPruner:
    """Prunes results that have expired, and batches that ended long ago."""

    name = "result pruner"
    interval = 60.0

    def run_once(self, cur: Any) -> Report:
        """Prune one batch of each."""
        done = batch_functions.prune_results(cur, BATCHES_KEPT, LARGEST)
        return Report(done, more=done >= LARGEST)
