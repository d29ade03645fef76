"""Fires the schedules that are due, each in a transaction of its own.

Any number of schedulers may do so at once: a row that another one holds is left to it, and the ledger lets each occurrence
fire once (fire_occurrence in SQL). What to do is decided in timing.py; what can't be decided or fired is set aside with its
reason, so that a bad row never stops the others. Rows are read at every round, so that an edit, a pause or a deletion
counts whatever wrote it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any

import psycopg
from django.db import DatabaseError

from django_stampeded import schedule_functions
from django_stampeded.exceptions import InvalidSchedule
from django_stampeded.maintenance.service import Report
from django_stampeded.process.link import Trouble, trouble
from django_stampeded.schedule_functions import Due
from django_stampeded.timing import LATE_AFTER, Deed, decide

logger = logging.getLogger("django_stampeded.maintenance")

BUSY_S = 1.0
"""Seconds between two rounds while schedules are due."""
REST_S = 3.0
"""Seconds between two rounds at most: a schedule that is new, edited or resumed may be due before the one that was next."""

NEVER_AGAIN = "it has no next occurrence"

# What is wrong with the row itself: bad data, a constraint, an exception that a trigger raised. The driver has no state for
# a value that it can't convert.
_ROWS_OWN = ("22", "23", "P0")


class Scheduler:
    """Fires, `batch` schedules at a time. `now`: what time it is, by default by the database's clock.

    While nothing is due it asks when the next schedule is, and rests until then, but no longer than REST_S.
    """

    name = "scheduler"

    def __init__(self, batch: int = 100, now: Callable[[Due], datetime] = lambda due: due.now) -> None:
        self.batch = batch
        self.interval = BUSY_S
        self._now = now

    def run_once(self, cur: Any) -> Report:
        """Fire one batch of what is due. An error that concerns one schedule is raised when the others have had their turn."""
        until_due = schedule_functions.seconds_until_due(cur)
        if until_due is None or until_due > 0:
            self.interval = REST_S if until_due is None else min(until_due, REST_S)
            return Report()
        self.interval = BUSY_S
        keys = schedule_functions.due(cur, self.batch)
        done, failure = 0, None
        for key in keys:
            try:
                done += self._deal_with(cur, key)
            except (psycopg.Error, DatabaseError) as exc:
                if trouble(_cause(exc)) is not Trouble.OTHER:
                    raise
                failure = failure or exc
        if failure is not None:
            raise failure
        return Report(done, more=done > 0 and len(keys) >= self.batch)

    def _deal_with(self, cur: Any, key: str) -> bool:
        try:
            with cur.connection.transaction():
                return self._advance(cur, key)
        except InvalidSchedule as exc:
            self._set_aside(cur, key, str(exc))
        except (psycopg.Error, DatabaseError) as exc:
            cause = _cause(exc)
            if not isinstance(cause, psycopg.DataError) and (getattr(cause, "sqlstate", None) or "")[:2] not in _ROWS_OWN:
                raise
            self._set_aside(cur, key, " ".join(str(exc).split()))
        return True

    def _advance(self, cur: Any, key: str) -> bool:
        due = schedule_functions.lock_due(cur, key)
        if due is None:
            return False
        now = self._now(due)
        decision = decide(due.timing, due.planned, now, missed_policy=due.missed_policy, unplanned=due.unplanned)
        if decision.deed is Deed.FIRE:
            job = schedule_functions.fire(cur, due, decision.next_run_at)
            reason = schedule_functions.reason_set_aside(cur, key) if job is None or decision.next_run_at is None else None
            if reason is not None:
                _tell_set_aside(key, reason)
            elif job is not None and now - due.planned > LATE_AFTER:
                logger.warning("Schedule %s was due at %s: its job %s is late.", key, due.planned, job)
        elif decision.deed is Deed.SKIP:
            schedule_functions.skip(cur, due, decision.next_run_at, decision.reason)
            logger.warning("Schedule %s was due at %s and is skipped, %s.", key, due.planned, decision.reason)
        elif decision.next_run_at is None:
            self._set_aside(cur, key, NEVER_AGAIN)
        else:
            schedule_functions.plan(cur, key, decision.next_run_at)
        return True

    def _set_aside(self, cur: Any, key: str, reason: str) -> None:
        schedule_functions.set_aside(cur, key, reason)
        _tell_set_aside(key, reason)


def _cause(exc: Exception) -> BaseException:
    """The driver's error, which Django's cursors wrap."""
    return exc.__cause__ if isinstance(exc, DatabaseError) and exc.__cause__ is not None else exc


def _tell_set_aside(key: str, reason: str) -> None:
    logger.warning("Schedule %s is set aside: %s Edit or resume it when that is mended.", key, f"{reason.rstrip('.')}.")
