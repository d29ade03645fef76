"""What the schedules' tests share: the table by plain SQL, a scheduler's round, and threads that start together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

from django_stampeded.maintenance.scheduler import Scheduler
from django_stampeded.process.link import Link
from django_stampeded.schedule_functions import Due

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


class Table:
    """The schedules, their ledger and their jobs."""

    def __init__(self) -> None:
        self.link = Link("default", "test")
        self.scheduler = Scheduler()

    @property
    def cursor(self) -> Any:
        return self.link.cursor()

    def close(self) -> None:
        self.link.drop()

    def rows(self, sql: str, *params: Any) -> list[Any]:
        with self.link.connection().cursor(row_factory=namedtuple_row) as cur:
            cur.execute(sql, params or None)
            return cur.fetchall() if cur.description else []

    def value(self, sql: str, *params: Any) -> Any:
        return self.rows(sql, *params)[0][0]

    def add(self, key: str = "k", **columns: Any) -> None:
        """A schedule by plain SQL, every minute unless told otherwise; a timedelta stands for that far from now."""
        timing = {} if {"cron_expr", "interval_secs"} & columns.keys() else {"cron_expr": "* * * * *"}
        columns = {"key": key, "queue": "q", "task": "t", **timing, **columns}
        values = ["now() + %s" if isinstance(value, timedelta) else "%s" for value in columns.values()]
        self.rows(
            f"INSERT INTO stampeded_schedules ({', '.join(columns)}) VALUES ({', '.join(values)})",
            *(Jsonb(value) if isinstance(value, dict) else value for value in columns.values()),
        )

    def change(self, key: str = "k", **columns: Any) -> None:
        """An edit by plain SQL."""
        sets = [f"{name} = {'now() + %s' if isinstance(value, timedelta) else '%s'}" for name, value in columns.items()]
        values = [Jsonb(value) if isinstance(value, dict) else value for value in columns.values()]
        self.rows(f"UPDATE stampeded_schedules SET {', '.join(sets)} WHERE key = %s", *values, key)

    def row(self, key: str = "k") -> Any:
        return self.rows("SELECT * FROM stampeded_schedules WHERE key = %s", key)[0]

    def jobs(self, queue: str = "q") -> list[Any]:
        return self.rows("SELECT * FROM stampeded_jobs WHERE queue = %s ORDER BY id", queue)

    def ledger(self, key: str = "k", until: str = "infinity") -> list[Any]:
        return self.rows(
            "SELECT * FROM stampeded_cron_occurrences WHERE cron_key = %s AND planned_at < %s::timestamptz "
            "ORDER BY planned_at, id",
            key,
            until,
        )

    def tokens(self, key: str = "k", until: str = "infinity") -> list[str]:
        return [each.occurrence_token for each in self.ledger(key, until)]

    def complete(self, job: UUID) -> None:
        self.rows("UPDATE stampeded_jobs SET state = 'completed', finished_at = now() WHERE id = %s", job)

    def tick(self) -> int:
        """One round of a scheduler; how many schedules it dealt with."""
        return self.scheduler.run_once(self.cursor).done

    def live_through(self, until: datetime, late: timedelta = SECOND) -> None:
        """Round after round of a scheduler that is a little late each time, until nothing before `until` is due."""
        scheduler = on_time(late)
        while self.value("SELECT count(*) FROM stampeded_schedules WHERE NOT paused AND next_run_at < %s", until):
            scheduler.run_once(self.cursor)


def on_time(late: timedelta = SECOND) -> Scheduler:
    """A scheduler to whom it is always a little after the time that was planned: for living through the past."""

    def now(due: Due) -> datetime:
        return due.planned + late

    return Scheduler(now=now)


def together(number: int, work: Callable[[Any], Any]) -> list[Any]:
    """Run `work(cursor)` in so many threads at once, each with a connection of its own; what they returned."""
    start, results, errors = threading.Barrier(number), [], []

    def run() -> None:
        link = Link("default", "test")
        try:
            cursor = link.cursor()
            start.wait(60)
            results.append(work(cursor))
        except BaseException as exc:
            errors.append(exc)
        finally:
            link.drop()

    threads = [threading.Thread(target=run, daemon=True) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not errors, errors
    assert len(results) == number, "a thread did not end"
    return results


DatabaseError = psycopg.Error
