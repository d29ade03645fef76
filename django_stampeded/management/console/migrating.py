"""Bringing the database up to date before a worker starts, waiting for one that does not answer yet."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError, connections

from django_stampeded.process.link import Trouble, trouble
from django_stampeded.process.outage import Outage, delay

LOOK_S = 0.1


def migrate(alias: str, stopped: Callable[[], bool], **options: Any) -> bool:
    """Apply every pending migration; several processes that do so at once take turns. False when `stopped` came first.

    Raises CommandError, with what the database says, when a migration fails.
    """
    outage = Outage()
    failures = 0
    while not stopped():
        try:
            call_command("migrate", database=alias, interactive=False, skip_checks=True, **options)
        except DatabaseError as exc:
            connections[alias].close()
            if trouble(exc.__cause__ or exc) is not Trouble.LOST:
                raise CommandError(f"The migrations can't be applied: {str(exc).strip()}") from exc
            wait = delay(failures)
            failures += 1
            outage.failed("migration", exc, wait)
            _sleep(wait, stopped)
        else:
            return True
    return False


def _sleep(seconds: float, stopped: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not stopped():
        time.sleep(LOOK_S)
