"""The scheduler: what is due is fired, once, by whoever comes first."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from django_stampeded import schedule_functions
from django_stampeded.maintenance.scheduler import Scheduler
from tests.schedules.support import MINUTE, SECOND, Table, at, on_time, together

HOUR = timedelta(hours=1)


def test_what_is_due_is_fired_and_planned_for_its_next_occurrence(table: Table) -> None:
    table.add(next_run_at=-SECOND, args={"a": 1}, queue="nightly", task="report.make", priority=-3, tenant_id="acme")
    assert table.tick() == 1
    (job,) = table.jobs("nightly")
    assert (job.task, job.args, job.priority, job.tenant_id, job.state) == ("report.make", {"a": 1}, -3, "acme", "available")
    row = table.row()
    assert row.next_run_at > row.last_run_at and row.next_run_at.second == 0
    assert row.last_job_id == job.id
    assert table.tick() == 0


def test_the_ledger_tells_when_a_run_was_planned_and_when_it_was_enqueued(table: Table) -> None:
    table.add(next_run_at=-20 * SECOND)
    planned = table.row().next_run_at
    table.tick()
    (entry,) = table.ledger()
    assert (entry.planned_at, entry.skipped) == (planned, None)
    assert entry.enqueued_at - planned >= 20 * SECOND
    assert entry.job_id == table.jobs()[0].id


@pytest.mark.parametrize("timing", [{"cron_expr": "0 3 * * *"}, {"interval_secs": 3600}])
def test_a_new_schedule_first_fires_at_its_next_occurrence(table: Table, timing: dict[str, Any]) -> None:
    table.add(**timing)
    created = table.row().created_at
    table.tick()
    assert table.jobs() == [] and table.ledger() == []
    following = table.row().next_run_at
    assert following > created
    if "interval_secs" in timing:
        assert following == created + HOUR
    else:
        assert (following.hour, following.minute) == (3, 0)


def test_a_new_schedule_that_was_run_by_hand_fires_at_its_next_occurrence_all_the_same(table: Table) -> None:
    table.add(cron_expr="0 3 * * *")
    by_hand = schedule_functions.run_now(table.cursor, "k")
    table.tick()
    assert [job.id for job in table.jobs()] == [by_hand]
    assert table.row().next_run_at.hour == 3


def test_a_next_run_that_somebody_gave_is_fired_whatever_the_expression_says(table: Table) -> None:
    table.add(cron_expr="0 3 1 1 *", next_run_at=-SECOND)
    table.tick()
    assert len(table.jobs()) == 1
    table.change(next_run_at=-30 * SECOND)
    table.tick()
    assert len(table.jobs()) == 2


# -- edits


def test_a_pause_and_a_deletion_count_from_the_next_round_on(table: Table) -> None:
    table.add("paused", next_run_at=-SECOND)
    table.add("deleted", next_run_at=-SECOND)
    table.change("paused", paused=True)
    table.rows("DELETE FROM stampeded_schedules WHERE key = 'deleted'")
    assert table.tick() == 0
    assert table.jobs() == []


def test_the_next_job_has_what_plain_sql_changed(table: Table) -> None:
    table.add(next_run_at=-SECOND)
    table.change(queue="other", args={"b": 2}, task="u")
    table.tick()
    (job,) = table.jobs("other")
    assert (job.task, job.args) == ("u", {"b": 2})


def test_an_edited_expression_counts_at_once_and_fires_nothing_by_itself(table: Table) -> None:
    table.add(cron_expr="0 3 1 1 *", next_run_at=200 * timedelta(days=1))
    for edit in (
        {"cron_expr": "*/5 * * * *"},
        {"cron_expr": "0 12 * * *"},
        {"timezone": "Asia/Tokyo"},
        {"dst_policy": "wall_clock"},
    ):
        table.change(**edit)
        assert table.tick() == 1
        row = table.row()
        assert not row.replan and row.next_run_at <= row.updated_at + timedelta(days=1)
    assert (row.next_run_at.hour, row.next_run_at.minute) == (3, 0), "noon in Tokyo"
    assert table.jobs() == [] and table.ledger() == []


def test_an_edited_interval_counts_from_the_edit(table: Table) -> None:
    table.add(interval_secs=86_400, next_run_at=12 * HOUR)
    table.change(interval_secs=60)
    left = table.row().next_run_at - table.value("SELECT clock_timestamp()")
    assert timedelta(0) < left <= MINUTE
    table.change(cron_expr="@daily", interval_secs=None)
    table.tick()
    assert table.row().next_run_at.hour == 0 and table.jobs() == []


def test_an_edit_that_says_when_to_run_next_is_obeyed(table: Table) -> None:
    table.add(next_run_at=HOUR)
    table.change(cron_expr="0 3 * * *", next_run_at=-SECOND)
    table.tick()
    assert len(table.jobs()) == 1


def test_an_edit_of_something_else_leaves_the_next_run_alone(table: Table) -> None:
    table.add(next_run_at=HOUR)
    before = table.row().next_run_at
    table.change(queue="other", missed_policy="skip", args={"a": 1}, paused=True)
    table.change(paused=False)
    assert table.row().next_run_at == before


# -- missed runs


@pytest.mark.parametrize(("policy", "jobs"), [("once", 1), ("skip", 0)])
@pytest.mark.parametrize("timing", [{"cron_expr": "*/1 * * * *"}, {"interval_secs": 60}])
def test_what_was_due_while_no_scheduler_ran_is_one_late_run_or_none(
    table: Table, policy: str, jobs: int, timing: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    table.add(**timing, missed_policy=policy, next_run_at=-10 * MINUTE)
    planned = table.row().next_run_at
    together(3, Scheduler().run_once)
    assert len(table.jobs()) == jobs
    row = table.row()
    assert row.next_run_at > table.value("SELECT clock_timestamp()")
    assert (row.last_run_at is not None) == bool(jobs)
    (entry,) = table.ledger()
    assert entry.planned_at == planned
    assert (entry.skipped or "").startswith("" if jobs else "missed: it was 60")
    (line,) = caplog.messages
    assert "was due at" in line and ("is late" in line) == bool(jobs)


def test_a_run_that_is_a_little_late_is_not_missed(table: Table) -> None:
    table.add(missed_policy="skip", next_run_at=-20 * SECOND)
    table.tick()
    assert len(table.jobs()) == 1


# -- intervals


@pytest.mark.parametrize("policy", ["instant", "wall_clock"])
def test_an_interval_below_a_minute_loses_no_run(table: Table, policy: str) -> None:
    start = at("2025-03-30 00:55")
    table.add(interval_secs=30, dst_policy=policy, timezone="Europe/Paris", next_run_at=start)
    table.live_through(start + 10 * MINUTE)
    assert len(table.jobs()) == 20


def test_the_runs_of_an_interval_do_not_drift_with_late_rounds(table: Table) -> None:
    start = at("2025-01-01 00:00:07")
    table.add(interval_secs=30, next_run_at=start)
    seed = random.Random(5)
    for n in range(1, 41):
        on_time(seed.uniform(1, 5) * SECOND).run_once(table.cursor)
        assert table.row().next_run_at == start + n * 30 * SECOND
    assert len(table.jobs()) == 40


def test_an_interval_of_days_stays_at_its_hour_utc(table: Table) -> None:
    start = at("2025-03-28 15:00")
    table.add(interval_secs=604_800, timezone="Europe/Brussels", dst_policy="wall_clock", next_run_at=start)
    table.live_through(start + 30 * timedelta(days=1))
    assert [entry.planned_at for entry in table.ledger()] == [start + n * timedelta(days=7) for n in range(5)]


# -- clock changes


def test_an_occurrence_in_a_gap_is_one_row_of_the_ledger_whoever_computed_it(table: Table) -> None:
    table.add(cron_expr="0 2 * * *", timezone="US/Eastern", dst_policy="wall_clock", next_run_at=at("2025-03-08 07:00"))
    together(2, lambda cursor: [on_time().run_once(cursor) for _ in range(3)])
    table.live_through(at("2025-03-10 23:00"))
    assert table.tokens() == ["2025-03-08 02:00", "2025-03-09 03:00", "2025-03-10 02:00"]
    assert len(table.jobs()) == 3


def test_a_repeated_hour_fires_once_by_the_wall_clock_and_twice_by_the_instant(table: Table) -> None:
    for policy in ("wall_clock", "instant"):
        table.add(
            policy, cron_expr="30 1 * * *", timezone="America/New_York", dst_policy=policy, queue=policy,
            next_run_at=at("2025-11-01 05:30"),
        )  # fmt: skip
    table.live_through(at("2025-11-03 23:00"))
    end = "2025-11-03 23:00Z"
    assert table.tokens("wall_clock", end) == ["2025-11-01 01:30", "2025-11-02 01:30", "2025-11-03 01:30"]
    twice = [entry.planned_at.strftime("%d %H:%M") for entry in table.ledger("instant", end) if entry.job_id]
    assert twice == ["01 05:30", "02 05:30", "02 06:30", "03 06:30"]


@pytest.mark.parametrize("reference", ["2025-11-02 05:30", "2025-11-02 06:30", "2025-03-09 07:00"])
@pytest.mark.parametrize("policy", ["wall_clock", "instant"])
@pytest.mark.parametrize("session", ["UTC", "America/New_York"])
def test_stored_times_in_a_gap_or_a_repeated_hour_stop_nothing(table: Table, reference: str, policy: str, session: str) -> None:
    table.rows("SELECT set_config('timezone', %s, false)", session)
    moment = at(reference)
    table.add(
        cron_expr="*/30 * * * *", timezone="America/New_York", dst_policy=policy, next_run_at=moment,
        last_run_at=moment - 30 * MINUTE,
    )  # fmt: skip
    table.live_through(moment + 3 * HOUR)
    assert table.row().next_run_at >= moment + 3 * HOUR and table.row().set_aside_reason is None
    assert 3 <= len(table.jobs()) <= 6


def test_an_occurrence_that_the_servers_older_data_take_for_a_repeated_one_is_not_lost(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    # To the server New York repeats 01:00 to 02:00 on 2 November 2025; to newer data the change was abolished.
    monkeypatch.setattr("django_stampeded.zones.ZoneInfo", lambda name: ZoneInfo("Etc/GMT+4"))
    columns = {"cron_expr": "30 1,2 * * *", "timezone": "America/New_York", "dst_policy": "wall_clock"}
    table.add(**columns, next_run_at=at("2025-11-02 05:30"))
    table.live_through(at("2025-11-02 07:00"))
    assert table.tokens() == ["2025-11-02 01:30", "2025-11-02 02:30"] and len(table.jobs()) == 2


TIMINGS = [
    {"cron_expr": "30 1 * * *", "dst_policy": "wall_clock", "timezone": "Europe/Paris"}, {"cron_expr": "30 1 * * *"},
    {"interval_secs": 60, "dst_policy": "wall_clock", "timezone": "Europe/Paris"},
]  # fmt: skip


@pytest.mark.parametrize("columns", TIMINGS)
def test_our_scheduler_and_plain_sql_know_an_occurrence_by_the_same_token(table: Table, columns: dict[str, Any]) -> None:
    for key in ("ours", "theirs"):
        table.add(key, **columns, next_run_at="2025-07-01 12:34:56.789Z")
    table.rows("SELECT stampeded_fire_schedule('theirs', now() + interval '1 day')")
    table.tick()
    assert table.tokens("ours") == table.tokens("theirs") != []


# -- many schedulers


def test_five_schedulers_fire_each_occurrence_of_a_year_once(table: Table) -> None:
    start, end = at("2025-01-01 00:00"), at("2026-01-01 00:00")
    zone, expression, first = "Europe/Paris", "30 2 * * *", at("2025-01-01 01:30")
    for key, policy in (("by wall clock", "wall_clock"), ("by instant", "instant")):
        table.add(key, cron_expr=expression, timezone=zone, dst_policy=policy, queue=policy, next_run_at=first)

    def live(cursor: Any) -> None:
        scheduler = on_time()
        while table_has_work(cursor, end):
            scheduler.run_once(cursor)

    together(5, live)
    days = [start + n * timedelta(days=1) for n in range(365)]
    expected = [day.strftime("%Y-%m-%d 02:30").replace("2025-03-30 02:30", "2025-03-30 03:00") for day in days]
    assert table.tokens("by wall clock", "2026-01-01 00:00Z") == expected
    assert len(table.tokens("by instant", "2026-01-01 00:00Z")) == 365, "none in March, two in October"
    for key, policy in (("by wall clock", "wall_clock"), ("by instant", "instant")):
        assert sorted(entry.job_id for entry in table.ledger(key)) == [job.id for job in table.jobs(policy)]


def table_has_work(cursor: Any, end: Any) -> bool:
    cursor.execute("SELECT EXISTS (SELECT FROM stampeded_schedules WHERE NOT paused AND next_run_at < %s)", [end])
    return bool(cursor.fetchone()[0])


def test_a_schedule_that_another_scheduler_holds_is_left_to_it(table: Table) -> None:
    table.add("held", next_run_at=-SECOND)
    table.add("free", next_run_at=-SECOND)
    other = Table()
    try:
        with other.link.connection().transaction():
            assert schedule_functions.lock_due(other.cursor, "held") is not None
            assert table.tick() == 1
        assert table.tokens("held") == [] and len(table.tokens("free")) == 1
    finally:
        other.close()


def test_more_than_a_batch_is_taken_up_at_once(table: Table) -> None:
    for n in range(5):
        table.add(str(n), next_run_at=-SECOND)
    report = Scheduler(batch=2).run_once(table.cursor)
    assert (report.done, report.more) == (2, True)


# -- what a job gets


def test_a_scheduled_job_is_like_any_other_one(table: Table) -> None:
    table.add(next_run_at=-SECOND)
    table.tick()
    table.rows("INSERT INTO stampeded_jobs (queue, task) VALUES ('q', 't')")
    scheduled, plain = (job._asdict() for job in table.jobs())
    for each in (scheduled, plain):
        for name in ("id", "scheduled_at", "inserted_at"):
            del each[name]
    assert scheduled == plain


def test_a_scheduled_job_has_the_options_of_its_schedule(table: Table) -> None:
    options = {
        "destination": "bank", "dead_letter_queue": "dead", "max_attempts": 3, "max_interruptions": 2, "max_deferrals": 4,
        "expire_seconds": 50, "backoff_base_ms": 10, "backoff_max_ms": 20, "dedup_scope": "s", "dedup_period": "day",
    }  # fmt: skip
    table.add(next_run_at=-SECOND, options=options)
    table.tick()
    (job,) = table.jobs()
    assert {name: getattr(job, name) for name in options} == options


def test_a_run_whose_dedup_scope_is_taken_is_left_out_and_the_ledger_says_so(table: Table) -> None:
    table.add(next_run_at=-SECOND, options={"dedup_scope": "s"})
    table.rows("INSERT INTO stampeded_jobs (queue, task, dedup_scope) VALUES ('q', 't', 's')")
    table.tick()
    (entry,) = table.ledger()
    assert entry.job_id is None and entry.skipped.startswith("duplicate")
    assert len(table.jobs()) == 1 and not table.row().paused


def test_jitter_delays_a_job_by_up_to_its_seconds(table: Table) -> None:
    for n in range(20):
        table.add(str(n), next_run_at=-SECOND, jitter_secs=100)
    table.tick()
    delays = [job.scheduled_at - job.inserted_at for job in table.jobs()]
    assert all(timedelta(0) <= delay <= 101 * SECOND for delay in delays)
    assert len(set(delays)) > 10


# -- overlap


def test_nothing_is_fired_while_the_last_run_is_going_where_that_is_forbidden(table: Table) -> None:
    table.add(interval_secs=5, overlap_policy="skip", next_run_at=at("2025-01-01 00:00"))
    for _ in range(6):
        on_time().run_once(table.cursor)
    (job,) = table.jobs()
    assert len([entry for entry in table.ledger() if entry.job_id is None]) == 5
    assert table.ledger()[1].skipped == f"overlap: job {job.id} of the last run was not final yet"
    for state in ("executing", "retryable"):
        table.rows("UPDATE stampeded_jobs SET state = %s WHERE id = %s", state, job.id)
        on_time().run_once(table.cursor)
        assert len(table.jobs()) == 1
    table.complete(job.id)
    on_time().run_once(table.cursor)
    assert len(table.jobs()) == 2


def test_runs_may_overlap_unless_that_is_forbidden(table: Table) -> None:
    table.add(interval_secs=5, next_run_at=at("2025-01-01 00:00"))
    table.live_through(at("2025-01-01 00:01"))
    assert len(table.jobs()) == 12


def test_a_last_job_that_is_gone_does_not_count_as_going(table: Table) -> None:
    table.add(interval_secs=5, overlap_policy="skip", next_run_at=at("2025-01-01 00:00"))
    on_time().run_once(table.cursor)
    table.rows("DELETE FROM stampeded_jobs")
    on_time().run_once(table.cursor)
    assert len(table.jobs()) == 1


# -- by hand


def test_a_run_by_hand_leaves_the_plan_alone_and_stands_in_the_ledger(table: Table) -> None:
    table.add(next_run_at=HOUR, paused=True, jitter_secs=1000)
    before = table.row().next_run_at
    job = schedule_functions.run_now(table.cursor, "k")
    assert job is not None and schedule_functions.run_now(table.cursor, "k") not in (None, job)
    assert table.row().next_run_at == before and table.row().paused
    assert [entry.job_id for entry in table.ledger()][0] == job
    assert all(job.scheduled_at == job.inserted_at for job in table.jobs())
    assert schedule_functions.run_now(table.cursor, "unknown") is None
