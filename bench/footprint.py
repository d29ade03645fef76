"""Measures what a job leaves on the server: write-ahead log, commits and table space."""

from __future__ import annotations

from bench import server
from bench.draining import WORKER, run_worker
from bench.enqueueing import enqueue_many
from bench.rounds import Line, Sizes


def footprint(sizes: Sizes) -> list[Line]:
    """Bulk enqueueing and draining of jobs that do nothing, divided by their number."""
    server.empty()
    count = sizes.drain
    position, commits = wal_position(), transactions()
    enqueue_many(count)
    filled_at, before_drain = wal_position(), transactions()
    run_worker(WORKER)
    drained_at, after_drain = wal_position(), transactions()
    heap = server.value("SELECT pg_relation_size('stampeded_jobs_default')")
    return [
        Line("WAL, enqueue_many", f"{(filled_at - position) / count:,.0f} B a job"),
        Line("WAL, drain", f"{(drained_at - filled_at) / count:,.0f} B a job"),
        Line("WAL, both", f"{(drained_at - position) / count:,.0f} B a job", "", "≤ 1,300 B"),
        Line("commits, enqueue_many", f"{(before_drain - commits) / count:.4f} a job"),
        Line("commits, drain", f"{(after_drain - before_drain) / count:.4f} a job", "", "≤ 0.05"),
        Line("heap while the finished jobs stand, with the versions they left", f"{heap / count:,.0f} B a job"),
    ]


def wal_position() -> int:
    return int(server.value("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"))


def transactions() -> int:
    """The transactions that the server has counted so far in this database."""
    server.execute("SELECT pg_stat_force_next_flush()")
    counted = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
    return int(server.value(counted))
