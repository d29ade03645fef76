"""How one worker is to work: the settings, with what the command line overrides."""

from __future__ import annotations

from dataclasses import dataclass, field

from django_stampeded.conf import settings
from django_stampeded.worker.selection import Selection


def _setting(name: str) -> object:
    return field(default_factory=lambda: getattr(settings, name))


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """Everything a Worker needs to be told; what is left out comes from the settings.

    Args:
        selection: the queues to take jobs from.
        alias: the alias in DATABASES.
        threads: jobs run at a time.
        poll_interval: seconds between two looks while nothing wakes the worker.
        grace_period: seconds that running jobs get to end once the worker is to stop.
        heartbeat_interval: seconds between two beats.
        dead_after: seconds without a beat after which others take the jobs back.
        listen: whether to LISTEN for new jobs.
        listen_alias: the alias of the connection that LISTENs, None for that of `alias`.
        drain: whether to stop once everything that is due has run.
        max_jobs: so many jobs may start in all, None for any number.

    Example: `WorkerOptions(threads=2, selection=select(["mail"]))`
    """

    selection: Selection = Selection()
    alias: str = _setting("DATABASE")  # type: ignore[assignment]
    threads: int = _setting("THREADS")  # type: ignore[assignment]
    poll_interval: float = _setting("POLL_INTERVAL")  # type: ignore[assignment]
    grace_period: float = _setting("GRACE_PERIOD")  # type: ignore[assignment]
    heartbeat_interval: float = _setting("HEARTBEAT_INTERVAL")  # type: ignore[assignment]
    dead_after: float = _setting("DEAD_AFTER")  # type: ignore[assignment]
    listen: bool = _setting("LISTEN")  # type: ignore[assignment]
    listen_alias: str | None = _setting("LISTEN_DATABASE")  # type: ignore[assignment]
    drain: bool = False
    max_jobs: int | None = None
