"""A worker and maintenance in threads of `runserver`, for development: one command runs the site and its jobs.

Only with the setting INLINE_WORKER, with DEBUG on, and in the process that serves. What it does there is runner.py's.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from typing import TYPE_CHECKING

from django.apps import apps
from django.conf import settings as django_settings

from django_stampeded.conf import problems, settings

if TYPE_CHECKING:
    from django_stampeded.runner import StopRequest

GRACE_S = 1.0
"""Whoever restarts runserver does not want to wait; jobs that take longer are released and run again."""

logger = logging.getLogger("django_stampeded.worker")


def start_beside_runserver() -> None:
    """Start the worker in this process if it is the one that is to have it. Returns at once."""
    if not django_settings.DEBUG or problems() or not settings.INLINE_WORKER or not serves(sys.argv, os.environ):
        return
    from django_stampeded.runner import StopRequest

    stop = StopRequest()
    thread = threading.Thread(target=_run, args=(stop,), name="stampeded-inline", daemon=True)
    atexit.register(_end, stop, thread)
    thread.start()


def serves(argv: list[str], environ: dict[str, str] | os._Environ[str]) -> bool:
    """Whether this is the process of runserver that answers requests, not the one that only watches its files.

    Example: `serves(["manage.py", "runserver", "--noreload"], {})`
    """
    return argv[1:2] == ["runserver"] and ("--noreload" in argv or environ.get("RUN_MAIN") == "true")


def _run(stop: StopRequest) -> None:
    from django_stampeded.runner import Process, Roles
    from django_stampeded.worker.options import WorkerOptions

    apps.ready_event.wait()
    try:
        Process(Roles(worker=WorkerOptions(grace_period=GRACE_S)), stop.bell).run(stop)
    except Exception as exc:  # a database that won't do: the site itself goes on
        logger.error("The inline worker does not run: %s", exc)


def _end(stop: StopRequest, thread: threading.Thread) -> None:
    """Hand back what runs, in the moment that an exiting process has."""
    stop.count = 1
    stop.bell.ring()
    thread.join(GRACE_S + 5)
