"""A schedule that can't fire is set aside with its reason, and stops no other."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from django_stampeded.maintenance.scheduler import Scheduler
from tests.schedules.support import SECOND, DatabaseError, Table

BAD = [
    ({"cron_expr": "0 0 12 * * ?"}, "exactly five"),
    ({"cron_expr": "H * * * *"}, "other schedulers"),
    ({"cron_expr": "0 0 30 2 *"}, "never comes"),
    ({"cron_expr": ""}, "exactly five"),
    ({"cron_expr": "*" * 100_000}, "at most"),
    ({"timezone": "Americas/Vancouver"}, "America/Vancouver"),
    ({"timezone": "UTC+3"}, "Etc/GMT-3"),
    ({"timezone": ""}, "name a place"),
    ({"cron_expr": None, "interval_secs": 2**62}, "no usable one"),
    ({"next_run_at": "-infinity"}, "timestamp too small"),
    ({"options": {"max_attempts": "many"}}, "smallint"),
    ({"options": {"max_attempts": 0}}, "max_attempts"),
    ({"options": {"dead_letter_queue": "q"}}, "check constraint"),
]


@pytest.mark.parametrize(("columns", "reason"), BAD)
def test_a_bad_row_is_set_aside_with_its_reason_and_stops_no_other(
    table: Table, columns: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    table.add("bad", **{"next_run_at": -10 * SECOND, **columns})
    table.add("good", next_run_at=-SECOND)
    for _ in range(3):
        table.tick()
    row = table.rows("SELECT paused, set_aside_reason FROM stampeded_schedules WHERE key = 'bad'")[0]
    assert row.paused and reason in row.set_aside_reason
    assert len(table.tokens("good")) == 1 and table.tokens("bad") == []
    (line,) = caplog.messages
    assert "Schedule bad is set aside" in line and reason in line


def test_an_edit_clears_the_reason_and_the_schedule_goes_on_when_it_is_resumed(table: Table) -> None:
    table.add(cron_expr="99 * * * *", next_run_at=-SECOND)
    table.tick()
    table.change(cron_expr="* * * * *", paused=False)
    assert table.row().set_aside_reason is None
    table.tick()
    row = table.row()
    assert not row.paused and row.next_run_at > row.updated_at.replace(second=0)


def test_the_last_occurrence_there_is_is_fired_before_a_schedule_is_set_aside(table: Table) -> None:
    table.add(interval_secs=100 * 365 * 86_400, next_run_at=-SECOND)
    table.rows("UPDATE stampeded_schedules SET next_run_at = now()")
    far = Scheduler(now=lambda due: due.now.replace(year=9990))
    far.run_once(table.cursor)
    assert len(table.jobs()) == 1
    assert table.row().paused and table.row().set_aside_reason == "it has no next occurrence"


def test_a_job_that_a_trigger_of_the_project_refuses_sets_its_schedule_aside(table: Table) -> None:
    table.rows(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN IF NEW.task = 'bad' THEN RAISE EXCEPTION 'not on a Sunday'; END IF; RETURN NEW; END$$"
    )
    table.rows("CREATE TRIGGER refuse BEFORE INSERT ON stampeded_jobs FOR EACH ROW EXECUTE FUNCTION refuse()")
    try:
        table.add("bad", task="bad", next_run_at=-10 * SECOND)
        table.add("good", next_run_at=-SECOND)
        table.tick()
        assert "not on a Sunday" in table.row("bad").set_aside_reason
        assert len(table.jobs()) == 1
    finally:
        table.rows("DROP FUNCTION refuse CASCADE")


def test_an_error_that_is_not_the_rows_own_is_raised_when_the_others_have_had_their_turn(table: Table) -> None:
    table.rows(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN IF NEW.task = 'bad' THEN PERFORM no_such_function(); END IF; RETURN NEW; END$$"
    )
    table.rows("CREATE TRIGGER refuse BEFORE INSERT ON stampeded_jobs FOR EACH ROW EXECUTE FUNCTION refuse()")
    try:
        table.add("bad", task="bad", next_run_at=-10 * SECOND)
        table.add("good", next_run_at=-SECOND)
        with pytest.raises(DatabaseError, match="no_such_function"):
            table.tick()
        assert not table.row("bad").paused, "it will fire when the database is mended"
        assert len(table.jobs()) == 1
    finally:
        table.rows("DROP FUNCTION refuse CASCADE")


def test_a_round_by_one_of_djangos_cursors_does_the_same(table: Table) -> None:
    table.add("bad", timezone="Mars/Olympus", next_run_at=-10 * SECOND)
    table.add("infinite", next_run_at="-infinity")
    table.add("good", next_run_at=-SECOND)
    with connection.cursor() as cursor:
        Scheduler().run_once(cursor)
    reasons = table.rows("SELECT key, set_aside_reason IS NOT NULL AS aside FROM stampeded_schedules ORDER BY key")
    assert [tuple(row) for row in reasons] == [("bad", True), ("good", False), ("infinite", True)]
    assert len(table.jobs()) == 1
