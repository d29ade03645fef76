"""A plain psycopg client of the SQL contract, as a program in any language would be.

Owns the verbs spelled as SQL calls and the look at one job's row. Leaves what is
right or wrong to the tests, and everything of Django's to the other test folders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

import psycopg
from psycopg import sql as build
from psycopg.pq import TransactionStatus
from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

Row = Any

#: The values of failure_kind that count as an attempt, a worker's death and a refusal.
ATTEMPTS = ("raised", "timed_out")
DEATHS = ("heartbeat_lost", "worker_exited", "worker_missing")
REFUSALS = ("breaker_open", "throttled")


def search_path_option(schema: str) -> str:
    """The libpq ``options`` value that puts *schema* first, whatever its name holds."""
    quoted = '"' + schema.replace('"', '""') + '"'
    return "-c search_path=" + quoted.replace("\\", "\\\\").replace(" ", "\\ ")


class Notice(NamedTuple):
    """A notice or warning of the server; what psycopg hands out is gone after its call."""

    severity: str
    text: str


class SqlClient:
    """One autocommit connection; ``with client.transaction():`` opens a transaction on it."""

    def __init__(self, params: Mapping[str, Any], schema: str | None = None) -> None:
        options = {"options": search_path_option(schema)} if schema else {}
        self.connection: psycopg.Connection[Row] = psycopg.connect(
            **{**params, **options}, autocommit=True, row_factory=namedtuple_row, prepare_threshold=None
        )
        self.notices: list[Notice] = []
        self.connection.add_notice_handler(self._keep)
        self._worker: UUID | None = None

    def _keep(self, notice: psycopg.errors.Diagnostic) -> None:
        text = f"{notice.message_primary} {notice.message_detail or ''}"
        self.notices.append(Notice(str(notice.severity_nonlocalized), text))

    @property
    def warnings(self) -> list[str]:
        return [notice.text for notice in self.notices if notice.severity == "WARNING"]

    def close(self) -> None:
        self.connection.close()

    def start_anew(self) -> bool:
        """Forget everything that a test has set; whether the connection can serve another one."""
        self._worker = None
        if self.connection.closed or self.connection.info.transaction_status != TransactionStatus.IDLE:
            self.close()
            return False
        self.run("DISCARD ALL")
        self.notices.clear()
        return True

    # -- statements ---------------------------------------------------------------

    def rows(self, query: LiteralString | build.Composable, *params: object) -> list[Row]:
        cursor = self.connection.execute(query, params or None)
        return cursor.fetchall() if cursor.description else []

    def one(self, query: LiteralString | build.Composable, *params: object) -> Row:
        found = self.rows(query, *params)
        assert len(found) == 1, f"expected one row, found {len(found)}"
        return found[0]

    def value(self, query: LiteralString | build.Composable, *params: object) -> Any:
        return self.one(query, *params)[0]

    def run(self, query: LiteralString | build.Composable, *params: object) -> int:
        return self.connection.execute(query, params or None).rowcount

    def call(self, function: str, *args: object, **named: object) -> list[Row]:
        """Every row of ``SELECT * FROM function(args, name => value)``."""
        parts: list[build.Composable] = [build.Placeholder()] * len(args)
        parts += [build.SQL("{} => {}").format(build.Identifier(name), build.Placeholder()) for name in named]
        query = build.SQL("SELECT * FROM {}({})").format(build.Identifier(function), build.SQL(", ").join(parts))
        return self.rows(query, *args, *named.values())

    def transaction(self) -> Any:
        return self.connection.transaction()

    # -- enqueuers ----------------------------------------------------------------

    def enqueue(self, queue: str = "q", task: str = "t", **columns: object) -> UUID:
        """INSERT one job; a timedelta stands for that far from now, a dict or list for jsonb."""
        return self.insert("stampeded_jobs", queue=queue, task=task, **columns).id

    def enqueue_many(self, number: int, queue: str = "q", **columns: object) -> list[UUID]:
        names, values, params = _assignments({"queue": queue, "task": "t", **columns})
        query = build.SQL("INSERT INTO stampeded_jobs ({}) SELECT {} FROM generate_series(1, {}) RETURNING id").format(
            build.SQL(", ").join(names), build.SQL(", ").join(values), build.Literal(number)
        )
        return [row.id for row in self.rows(query, *params)]

    def insert(self, table: str, **columns: object) -> Row:
        names, values, params = _assignments(columns)
        query = build.SQL("INSERT INTO {} ({}) VALUES ({}) RETURNING *").format(
            build.Identifier(table), build.SQL(", ").join(names), build.SQL(", ").join(values)
        )
        return self.one(query, *params)

    def change(self, table: str, where: Mapping[str, object], **columns: object) -> int:
        names, values, params = _assignments(columns)
        sets = build.SQL(", ").join(build.SQL("{} = {}").format(n, v) for n, v in zip(names, values, strict=True))
        keys = build.SQL(" AND ").join(build.SQL("{} = {}").format(build.Identifier(key), build.Placeholder()) for key in where)
        query = build.SQL("UPDATE {} SET {} WHERE {}").format(build.Identifier(table), sets, keys)
        return self.run(query, *params, *where.values())

    # -- jobs ---------------------------------------------------------------------

    def job(self, id: UUID) -> Row:
        return self.one("SELECT * FROM stampeded_jobs WHERE id = %s", id)

    def jobs(self, queue: str = "q") -> list[Row]:
        return self.rows("SELECT * FROM stampeded_jobs WHERE queue = %s ORDER BY id", queue)

    def set_job(self, id: UUID, **columns: object) -> None:
        assert self.change("stampeded_jobs", {"id": id}, **columns) == 1

    def counts(self) -> dict[tuple[str, str], int]:
        """What stampeded_queue_counts says, without the empty ones."""
        found = self.rows("SELECT queue, state, n FROM stampeded_queue_counts")
        keys = [(row.queue, row.state) for row in found]
        assert len(keys) == len(set(keys)), "a (queue, state) stands twice in the counts"
        assert all(row.n >= 0 for row in found), f"a count below nothing: {found}"
        return {(row.queue, row.state): int(row.n) for row in found if row.n}

    def true_counts(self) -> dict[tuple[str, str], int]:
        found = self.rows("SELECT queue, state, count(*) AS n FROM stampeded_jobs GROUP BY 1, 2")
        return {(row.queue, row.state): row.n for row in found}

    # -- workers ------------------------------------------------------------------

    @property
    def worker(self) -> UUID:
        """The worker that this client is, registered at the first use."""
        if self._worker is None:
            self._worker = self.register()
        return self._worker

    def register(self, **columns: object) -> UUID:
        return self.insert("stampeded_workers", **{"hostname": "host", "pid": 1, **columns}).id

    def claim(self, queue: str = "q", limit: int = 1, worker: UUID | None = None, **named: object) -> list[Row]:
        return self.call("stampeded_claim", queue, worker or self.worker, limit, **named)

    def started(self, queue: str = "q", **columns: object) -> Row:
        """A job enqueued and claimed at once."""
        id = self.enqueue(queue, **columns)
        claimed = self.claim(queue, 1)
        assert [job.id for job in claimed] == [id]
        return claimed[0]

    def complete(self, job: Row) -> list[Row]:
        return self.call("stampeded_complete", *_lease(job))

    def release(self, job: Row) -> list[Row]:
        return self.call("stampeded_release", *_lease(job))

    def touch(self, job: Row) -> bool | None:
        return self.call("stampeded_touch", *_lease(job))[0][0]

    def checkpoint(self, job: Row, state: object) -> int | None:
        return self.call("stampeded_checkpoint", *_lease(job), Jsonb(state))[0][0]

    def fail(
        self,
        job: Row,
        kind: str | None = "raised",
        error: str | None = "boom",
        delay: int | None = 0,
        exit_status: int | None = None,
    ) -> list[Row]:
        return self.call("stampeded_fail", *_lease(job), kind, error, delay, exit_status)

    def failed(self, job: Row, kind: str = "raised", **details: Any) -> Row:
        """The job's row after that failure, which must have been taken."""
        assert len(self.fail(job, kind, **details)) == 1
        return self.job(job.id)

    # -- the clock, by moving the rows --------------------------------------------

    def silence(self, id: UUID, age: timedelta) -> None:
        """Move a running job's last sign of life back by *age*."""
        self.run(
            "UPDATE stampeded_jobs SET heartbeat_at = now() - %s, claimed_at = now() - %s,"
            " checkpoint_at = now() - %s, inserted_at = now() - %s WHERE id = %s",
            age,
            age,
            age,
            age,
            id,
        )

    def silence_worker(self, id: UUID, age: timedelta) -> None:
        self.run("UPDATE stampeded_workers SET last_heartbeat = now() - %s WHERE id = %s", age, id)

    def now(self) -> Any:
        return self.value("SELECT clock_timestamp()")


def _lease(job: Row) -> tuple[object, ...]:
    return job.queue, job.id, job.claimed_by, job.attempt


def _assignments(
    columns: Mapping[str, object],
) -> tuple[list[build.Composable], list[build.Composable], list[object]]:
    names: list[build.Composable] = []
    values: list[build.Composable] = []
    params: list[object] = []
    for name, value in columns.items():
        names.append(build.Identifier(name))
        moment = isinstance(value, timedelta)
        values.append(build.SQL("now() + {}" if moment else "{}").format(build.Placeholder()))
        params.append(Jsonb(value) if _is_json(name, value) else value)
    return names, values, params


def _is_json(name: str, value: object) -> bool:
    return isinstance(value, dict) or (name == "errors" and isinstance(value, Sequence))
