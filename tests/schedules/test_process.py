"""A maintenance process fires schedules while it runs, and keeps the declared ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from django_stampeded import registry, task
from django_stampeded.maintenance.service import Maintenance
from django_stampeded.process.outage import Outage
from django_stampeded.runner import services
from tests.schedules.support import SECOND, Table

pytestmark = pytest.mark.usefixtures("own_tasks")


def eventually(condition: Callable[[], Any]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, "it did not come true within a minute"
        time.sleep(0.05)


def test_maintenance_declares_and_fires_until_it_is_stopped(table: Table) -> None:
    @task(name="shop.tick", every=1, queue_name="q")
    def tick() -> None: ...

    maintenance = Maintenance("default", services(), Outage())
    maintenance.start()
    try:
        eventually(lambda: len(table.jobs()) >= 2)
        table.change("shop.tick", queue="other")
        eventually(lambda: table.jobs("other"))
        table.change("shop.tick", paused=True)
        table.add("bad", cron_expr="0 0 12 * * ?", next_run_at=-SECOND)
        eventually(lambda: table.row("bad").set_aside_reason)
        ledger = len(table.ledger("shop.tick"))
        assert ledger == len(table.jobs()) + len(table.jobs("other"))
    finally:
        maintenance.stop()
        maintenance.join(30)
    assert len(table.ledger("shop.tick")) == ledger
    planned = [entry.planned_at for entry in table.ledger("shop.tick")]
    assert all((late - early) % timedelta(seconds=1) == timedelta(0) for early, late in zip(planned, planned[1:], strict=False))
    assert registry.find("shop.tick").timetable is not None
