"""Declared schedules get into the table, and nothing that an operator did there is undone."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection

from django_stampeded import registry, scheduling, task, zones
from django_stampeded.exceptions import InvalidOption
from django_stampeded.maintenance.declarer import Declarer
from django_stampeded.scheduling import LEASE, NOT_DECLARED, declarations, edited, sync
from tests.schedules.support import SECOND, Table, together

pytestmark = pytest.mark.usefixtures("own_tasks")

OLD = -LEASE - SECOND


def declared(name: str = "shop.nightly", **options: Any) -> None:
    """A task as a module of the example project would declare it, in place of an earlier one of that name."""

    def nightly() -> None: ...

    nightly.__module__ = "example_project.imports.tasks"

    registry._tasks.pop(name, None)
    task(name=name, **{**({} if {"cron", "every"} & options.keys() else {"cron": "0 3 * * *"}), **options})(nightly)


def undeclared(name: str = "shop.nightly") -> None:
    del registry._tasks[name]


Settings = Callable[..., None]


@pytest.fixture
def in_settings(settings: Any) -> Settings:
    def declare(**schedules: Any) -> None:
        settings.STAMPEDED = {**getattr(settings, "STAMPEDED", {}), "SCHEDULES": schedules}

    return declare


def row(table: Table, key: str = "shop.nightly") -> Any:
    return table.row(key)


# -- what gets there


def test_a_tasks_schedule_is_written_with_its_first_occurrence_to_come(table: Table) -> None:
    declared(timezone="Africa/Casablanca", queue_name="mail", priority=5, tenant="acme", overlap_policy="skip", jitter=30)
    assert sync(table.cursor).created == ["shop.nightly"]
    found = row(table)
    assert (found.task, found.queue, found.priority, found.tenant_id) == ("shop.nightly", "mail", 5, "acme")
    assert (found.cron_expr, found.timezone, found.dst_policy) == ("0 3 * * *", "Africa/Casablanca", "wall_clock")
    assert (found.overlap_policy, found.missed_policy, found.jitter_secs, found.paused) == ("skip", "once", 30, False)
    assert timedelta(0) < found.next_run_at - found.created_at <= timedelta(days=1)
    table.tick()
    assert table.jobs("mail") == []


def test_an_interval_is_first_due_when_it_has_passed_once(table: Table) -> None:
    declared(every=timedelta(hours=2))
    sync(table.cursor)
    found = row(table)
    assert (found.interval_secs, found.cron_expr) == (7200, None)
    assert timedelta(hours=2) - SECOND < found.next_run_at - found.created_at <= timedelta(hours=2)


def test_a_schedule_in_the_settings_gives_its_task_arguments_and_options(table: Table, in_settings: Settings) -> None:
    @task(name="shop.report", max_attempts=3, backoff_base=2)
    def report(region: str) -> None: ...

    in_settings(
        north={
            "task": "shop.report",
            "cron": "@daily",
            "args": {"region": "north"},
            "queue_name": "slow",
            "expire_seconds": 60,
        },
        rust={"task": "invoice.parse", "every": 60, "missed_policy": "skip", "args": {"path": "a.pdf"}},
    )
    assert sync(table.cursor).created == ["north", "rust"]
    found = row(table, "north")
    assert (found.task, found.args, found.queue) == ("shop.report", {"region": "north"}, "slow")
    assert found.options == {"max_attempts": 3, "expire_seconds": 60, "backoff_base_ms": 2000}
    assert (row(table, "rust").task, row(table, "rust").missed_policy) == ("invoice.parse", "skip")


def test_a_scheduled_job_has_what_an_enqueued_one_would_have(table: Table) -> None:
    declared(
        max_attempts=2, expire_seconds=7, backoff_base=0.5, backoff_max=9, dead_letter_queue="dead", destination="bank",
        max_interruptions=3, max_deferrals=5, unique="task", unique_for="day", priority=-7,
        tenant="t", meta={"django": {"a": 1}},
    )  # fmt: skip
    sync(table.cursor)
    table.change("shop.nightly", next_run_at=-SECOND)
    table.tick()
    (scheduled,) = table.jobs("default")
    table.rows("DELETE FROM stampeded_jobs")
    registry.find("shop.nightly").enqueue()
    (enqueued,) = table.jobs("default")
    differing = {name for name, value in enqueued._asdict().items() if value != getattr(scheduled, name)}
    assert differing == {"id", "scheduled_at", "inserted_at"}


def test_any_number_of_processes_may_sync_at_once(table: Table) -> None:
    for n in range(5):
        declared(f"shop.n{n}")
    reports = together(6, sync)
    assert sorted(key for report in reports for key in report.created) == [f"shop.n{n}" for n in range(5)]
    assert table.value("SELECT count(*) FROM stampeded_schedules") == 5


def test_a_sync_that_finds_nothing_new_writes_nothing(table: Table) -> None:
    declared()
    sync(table.cursor)
    before = row(table)
    assert sync(table.cursor).done == 0
    assert row(table) == before


def test_a_declaration_that_stands_is_noted_anew_now_and_then(table: Table) -> None:
    declared()
    sync(table.cursor)
    table.change("shop.nightly", declared_at=-2 * scheduling.REFRESH)
    before = row(table)
    assert sync(table.cursor).done == 0
    after = row(table)
    assert after.declared_at > before.declared_at and after.updated_at == before.updated_at


# -- operators


def test_what_the_code_changes_gets_into_the_table(table: Table) -> None:
    declared()
    sync(table.cursor)
    declared(cron="0 4 * * *", queue_name="other", max_attempts=1)
    assert sync(table.cursor).changed == ["shop.nightly"]
    table.tick()
    found = row(table)
    assert (found.cron_expr, found.queue, found.options, found.next_run_at.hour) == (
        "0 4 * * *",
        "other",
        {"max_attempts": 1},
        4,
    )
    assert table.jobs("other") == []


def test_what_an_operator_edited_stays_while_the_rest_follows_the_code(table: Table) -> None:
    declared()
    sync(table.cursor)
    table.change("shop.nightly", cron_expr="0 5 * * *", priority=9)
    declared(cron="0 4 * * *", timezone="Asia/Tokyo", queue_name="other")
    sync(table.cursor)
    sync(table.cursor)
    found = row(table)
    assert (found.cron_expr, found.timezone, found.priority) == ("0 5 * * *", "UTC", 9)
    assert found.queue == "other"


def test_a_pause_and_a_resumption_stay_whatever_the_code_says(table: Table) -> None:
    declared()
    sync(table.cursor)
    table.change("shop.nightly", paused=True)
    declared(cron="0 4 * * *")
    sync(table.cursor)
    assert row(table).paused and row(table).cron_expr == "0 4 * * *"
    table.change("shop.nightly", paused=False)
    sync(table.cursor)
    assert not row(table).paused


def test_a_deleted_schedule_that_the_code_still_has_is_written_anew(table: Table) -> None:
    declared()
    sync(table.cursor)
    table.rows("DELETE FROM stampeded_schedules")
    assert sync(table.cursor).created == ["shop.nightly"]


def test_a_schedule_of_the_same_key_that_an_operator_made_stays_theirs(table: Table) -> None:
    table.add("shop.nightly", queue="mine", cron_expr="@weekly")
    declared()
    for _ in range(2):
        sync(table.cursor)
    assert (row(table).queue, row(table).cron_expr) == ("mine", "@weekly")


def test_the_timing_counts_as_one_thing_and_each_other_column_by_itself() -> None:
    last = {
        "cron_expr": "0 3 * * *",
        "interval_secs": None,
        "timezone": "UTC",
        "dst_policy": "wall_clock",
        "queue": "a",
        "priority": 0,
    }
    now = {**last, "cron_expr": "0 4 * * *", "queue": "b"}
    assert edited(last, last, now) == {**{name: now[name] for name in scheduling.TIMING}, "queue": "b"}
    assert edited({**last, "timezone": "Asia/Tokyo"}, last, now) == {"queue": "b"}
    assert edited({**last, "queue": "c"}, last, now) == {name: now[name] for name in scheduling.TIMING}
    assert edited(last, None, now) == {}
    assert edited(now, last, now) == {}


# -- what the code no longer has


def removed(table: Table, name: str = "shop.nightly") -> None:
    """Declared once, by code that is now gone."""
    declared(name)
    sync(table.cursor)
    undeclared(name)
    table.change(name, declared_at=OLD)


def test_what_the_code_no_longer_declares_is_paused_with_that_reason_and_goes_on_when_it_is_declared_again(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    removed(table)
    assert sync(table.cursor).paused == ["shop.nightly"]
    assert (row(table).paused, row(table).set_aside_reason) == (True, NOT_DECLARED)
    assert sync(table.cursor).paused == []
    assert [line for line in caplog.messages if "delete it, or declare it again" in line] == caplog.messages
    declared(cron="0 4 * * *")
    report = sync(table.cursor)
    assert report.resumed == report.changed == ["shop.nightly"]
    assert (row(table).paused, row(table).set_aside_reason, row(table).cron_expr) == (False, None, "0 4 * * *")


def test_a_schedule_that_another_process_declared_lately_is_left_alone(table: Table) -> None:
    declared()
    sync(table.cursor)
    undeclared()
    assert sync(table.cursor).paused == []


def test_an_operators_pause_outlives_the_removal_and_the_return(table: Table) -> None:
    removed(table)
    table.change("shop.nightly", paused=True)
    sync(table.cursor)
    assert row(table).set_aside_reason is None
    declared()
    sync(table.cursor)
    assert row(table).paused


def test_a_removed_schedule_that_an_operator_resumes_stays_resumed(table: Table) -> None:
    removed(table)
    sync(table.cursor)
    table.change("shop.nightly", paused=False)
    assert sync(table.cursor).paused == []
    assert not row(table).paused


def test_a_project_without_the_package_does_not_judge_what_it_declared(table: Table) -> None:
    removed(table)
    table.rows("UPDATE stampeded_schedules SET declared = jsonb_set(declared, '{module}', '\"elsewhere.tasks\"')")
    table.change("shop.nightly", declared_at=OLD)
    assert sync(table.cursor).paused == []


def test_a_process_whose_modules_did_not_all_import_judges_nothing(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    removed(table)
    monkeypatch.setattr(registry, "broken", [registry.BrokenModule("shop.tasks", SyntaxError())])
    assert sync(table.cursor).paused == []


def test_a_schedule_that_turned_bad_in_the_code_is_not_taken_for_a_removed_one(table: Table) -> None:
    declared()
    sync(table.cursor)
    declared(timezone="Mars/Olympus")
    table.change("shop.nightly", declared_at=OLD)
    report = sync(table.cursor)
    assert [problem.key for problem in report.problems] == ["shop.nightly"]
    assert report.paused == [] and row(table).timezone == "UTC"


def test_a_schedule_that_was_set_aside_goes_on_when_the_code_mends_it(table: Table) -> None:
    declared()
    sync(table.cursor)
    table.rows("SELECT stampeded_set_aside_schedule('shop.nightly', 'some reason')")
    sync(table.cursor)
    assert row(table).set_aside_reason == "some reason"
    table.change("shop.nightly", declared_at=OLD)
    sync(table.cursor)
    assert row(table).set_aside_reason == "some reason", "noting the declaration is no edit"
    declared(cron="0 4 * * *")
    assert sync(table.cursor).resumed == ["shop.nightly"]
    assert (row(table).paused, row(table).set_aside_reason) == (False, None)


# -- what is refused


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"cron": "0 0 12 * * ?"}, "exactly five"),
        ({"cron": "0 3 * * *", "every": 5}, "exactly one"),
        ({"timezone": "UTC"}, "exactly one"),
        ({"every": 0}, "whole"),
        ({"every": timedelta(milliseconds=1)}, "whole"),
        ({"cron": "@daily", "dst_policy": "summer"}, "dst_policy"),
        ({"cron": "@daily", "missed_policy": "twice"}, "missed_policy"),
        ({"cron": "@daily", "overlap_policy": "queue"}, "overlap_policy"),
        ({"cron": "@daily", "jitter": -1}, "jitter"),
        ({"cron": "@daily", "jitter": 0.5}, "jitter"),
    ],
)
def test_a_bad_timing_is_refused_where_the_task_is_declared(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason):
        task(**options)(lambda: None)


def test_the_timing_belongs_to_the_function() -> None:
    declared()
    with pytest.raises(InvalidOption, match="@task"):
        registry.find("shop.nightly").using(cron="0 4 * * *")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        ({"cron": "@daily"}, "names no task"),
        ({"task": "t"}, "exactly one"),
        ({"task": "t", "cron": "@often"}, "@hourly"),
        ({"task": "t", "cron": "@daily", "timezone": "europe/paris"}, "'Europe/Paris'"),
        ({"task": "t", "cron": "@daily", "priorty": 1}, "'priority'"),
        ({"task": "t", "cron": "@daily", "run_after": timedelta(1)}, "run_after"),
        ({"task": "t", "cron": "@daily", "args": {"a": {1}}}, "args"),
        ({"task": "t", "cron": "@daily", "args": [1]}, "dict"),
        ({"task": "shop.report", "cron": "@daily"}, "region"),
        ({"task": "shop.report", "cron": "@daily", "args": {"region": "n", "regoin": "n"}}, "regoin"),
        ({"task": "t", "cron": "@daily", "dead_letter_queue": "default"}, "its own queue"),
    ],
)
def test_a_bad_schedule_in_the_settings_is_told_and_stops_no_other(
    table: Table, in_settings: Settings, schedule: dict[str, Any], reason: str
) -> None:
    @task(name="shop.report")
    def report(region: str) -> None: ...

    in_settings(bad=schedule, good={"task": "t", "cron": "@daily"})
    (problem,) = declarations()[1]
    assert problem.message.startswith("Schedule 'bad': ") and reason in problem.message
    assert sync(table.cursor).created == ["good"]


def test_a_task_that_needs_arguments_can_not_be_scheduled_without_them(table: Table) -> None:
    @task(name="shop.report", cron="@daily")
    def report(region: str) -> None: ...

    (problem,) = sync(table.cursor).problems
    assert "region" in problem.message


def test_a_key_that_is_declared_twice_is_told(table: Table, in_settings: Settings) -> None:
    declared()
    in_settings(**{"shop.nightly": {"task": "t", "cron": "@daily"}})
    (problem,) = declarations()[1]
    assert "twice" in problem.message


def test_a_zone_that_only_python_has_is_told(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    known = zones.names()
    monkeypatch.setattr(zones, "names", lambda: known | {"Mars/Olympus"})
    monkeypatch.setattr(zones, "ZoneInfo", lambda name: ZoneInfo("UTC"))
    declared(timezone="Mars/Olympus")
    declared("shop.good", timezone="Africa/Casablanca")
    report = sync(table.cursor)
    assert report.created == ["shop.good"] and "server has no time zone" in report.problems[0].message


# -- when


def test_the_maintenance_service_tells_a_problem_when_it_is_new(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    declared(timezone="Mars/Olympus")
    service = Declarer()
    for _ in range(5):
        service.run_once(table.cursor)
    assert len(caplog.messages) == 1 and "Mars/Olympus" in caplog.messages[0]
    declared()
    assert service.run_once(table.cursor).done == 1


def test_migrate_writes_the_declared_schedules(table: Table) -> None:
    declared()
    declared("shop.bad", timezone="Mars/Olympus")
    call_command("migrate", verbosity=0)
    assert [each.key for each in table.rows("SELECT key FROM stampeded_schedules")] == ["shop.nightly"]


def test_a_sync_in_a_transaction_is_undone_with_it(table: Table) -> None:
    from django.db import transaction

    declared()
    with transaction.atomic(), connection.cursor() as cursor:
        assert sync(cursor).created == ["shop.nightly"]
        transaction.set_rollback(True)
    assert table.rows("SELECT key FROM stampeded_schedules") == []
    with connection.cursor() as cursor:
        sync(cursor)
        declared(queue_name="other")
        assert sync(cursor).changed == ["shop.nightly"]


def test_a_module_is_judged_by_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = types.ModuleType("shop.tasks")
    monkeypatch.setitem(sys.modules, "shop.tasks", shop)
    assert {config.name.partition(".")[0] for config in apps.get_app_configs()} <= scheduling._packages()
    assert "shop" not in scheduling._packages()
