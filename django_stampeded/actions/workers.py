"""What an operator may do to a worker: ask it to stop. It leaves one audit row."""

from __future__ import annotations

from uuid import UUID

from django_stampeded import watch_functions
from django_stampeded.actions.audit import Actor, recorded


def stop_worker(worker_id: UUID, *, actor: Actor, using: str | None = None) -> bool:
    """Ask a worker to stop: from its next heartbeat on it claims no more, and it ends when its jobs have, as after SIGTERM.

    A supervisor does not replace it. A process that has the maintenance too goes on with that.

    Returns:
        Whether the worker is on record.

    Example:
        >>> stop_worker(worker.id, actor=Actor("ann"))
        True
    """
    try:
        with recorded("stop_worker", actor, using, worker=str(worker_id)) as cursor:
            if not watch_functions.stop_worker(cursor, worker_id):
                raise _NoSuchWorker
    except _NoSuchWorker:
        return False
    return True


class _NoSuchWorker(Exception):
    """Rolls the audit row back."""
