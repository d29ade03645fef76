"""Why is this job not running? One table of situations and answers, without a database or a clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_stampeded.insights import (
    Figures,
    QueueSituation,
    QueueStatus,
    WorkerStatus,
    assess,
    why_not_running,
)
from django_stampeded.states import WAITS_UNTIL

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class FakeJob:
    state: str = "available"
    scheduled_at: datetime = NOW - timedelta(seconds=5)
    attempt: int = 0
    max_attempts: int = 25
    deferrals: int = 0
    failure_kind: str | None = None


def queue(**known: Any) -> QueueSituation:
    return QueueSituation(**{"queue": "mail", "live_workers": 1, **known})


later = NOW + timedelta(minutes=4, seconds=10)


@pytest.mark.parametrize(
    ("job", "situation", "codes"),
    [
        (FakeJob(), queue(), ["next"]),
        (FakeJob(), queue(ahead=0), ["next"]),
        (FakeJob(), queue(ahead=1), ["behind"]),
        (FakeJob(), queue(ahead=1000, ahead_at_least=True), ["behind"]),
        (FakeJob(state="executing"), queue(live_workers=0), ["running"]),
        (FakeJob(state="claimed"), queue(), ["running"]),
        (FakeJob(state="completed"), queue(paused_at=NOW), ["final"]),
        (FakeJob(state="discarded"), queue(), ["final"]),
        (FakeJob(state="cancelled"), queue(), ["final"]),
        (FakeJob(scheduled_at=later), queue(), ["scheduled"]),
        (FakeJob(scheduled_at=WAITS_UNTIL), queue(), ["waits_for_others"]),
        (FakeJob(scheduled_at=later, state="retryable", failure_kind="raised"), queue(), ["backing_off"]),
        (FakeJob(scheduled_at=later, failure_kind="throttled", deferrals=3), queue(), ["throttled"]),
        (FakeJob(scheduled_at=later, failure_kind="breaker_open"), queue(), ["breaker_open"]),
        (FakeJob(attempt=25), queue(), ["attempts_spent"]),
        (FakeJob(), queue(paused_at=NOW), ["paused"]),
        (FakeJob(), queue(live_workers=0), ["no_worker"]),
        (FakeJob(), queue(live_workers=0, silent_workers=2), ["no_worker"]),
        (FakeJob(), queue(unknown_task="shop.tasks.gone"), ["unknown_task"]),
        (FakeJob(scheduled_at=later), queue(unknown_task="shop.tasks.gone"), ["unknown_task", "scheduled"]),
        (FakeJob(), queue(unknown_task="shop.tasks.gone", live_workers=0), ["no_worker"]),
        (FakeJob(), queue(max_running=2, running=2), ["limit_reached"]),
        (FakeJob(), queue(max_running=2, running=1), ["next"]),
        (FakeJob(), queue(rate_frees_at=NOW + timedelta(seconds=3)), ["rate_spent"]),
        (FakeJob(), queue(rate_frees_at=NOW), ["next"]),
        (FakeJob(), queue(keys_held_back=["tenant", "key"]), ["tenant_limit_reached", "key_limit_reached"]),
        (FakeJob(), queue(verdict="hold", decided_at=NOW - timedelta(seconds=29)), ["held"]),
        (FakeJob(), queue(verdict="hold", decided_at=NOW - timedelta(seconds=31)), ["next"]),
        (FakeJob(), queue(verdict="rush", decided_at=NOW), ["next"]),
        (
            FakeJob(scheduled_at=later, attempt=25),
            queue(paused_at=NOW, live_workers=0),
            ["attempts_spent", "paused", "scheduled", "no_worker"],
        ),
    ],
)
def test_every_situation_has_its_answer(job: FakeJob, situation: QueueSituation, codes: list[str]) -> None:
    assert [reason.code for reason in why_not_running(job, situation, NOW)] == codes


def test_the_answer_says_what_to_do_and_quotes_the_operator() -> None:
    paused = queue(paused_at=NOW - timedelta(hours=2), paused_reason="migration 50% done")
    assert why_not_running(FakeJob(), paused, NOW)[0].text == (
        "Queue “mail” is paused (for 2 h); resume it to let its jobs run. Reason given: migration 50% done"
    )
    assert "manage.py runstampeded" in why_not_running(FakeJob(), queue(live_workers=0), NOW)[0].text
    assert why_not_running(FakeJob(scheduled_at=later), queue(), NOW)[0].text.endswith("due in 4 min 10 s.")


def worker(alive: bool, *running: Any) -> WorkerStatus:
    return WorkerStatus(
        id=None,
        hostname="n",
        pid=1,
        queues=["mail"],
        started_at=NOW,
        last_heartbeat=NOW,
        alive=alive,
        running=running,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("figures", "codes"),
    [
        (Figures([], []), []),
        (Figures([QueueStatus("mail", {"available": 3})], []), []),
        (Figures([QueueStatus("mail", oldest_age=timedelta(seconds=9), live_workers=0)], []), [("trouble", "no_worker")]),
        (Figures([QueueStatus("mail", oldest_age=timedelta(seconds=9), live_workers=1)], []), []),
        (Figures([QueueStatus("mail", oldest_age=timedelta(hours=1), live_workers=1)], []), [("trouble", "behind")]),
        (Figures([QueueStatus("mail", oldest_age=timedelta(hours=1), paused_at=NOW)], []), [("note", "paused")]),
        (Figures([], [worker(True)]), []),
        (Figures([], [worker(False)]), [("note", "stopped_worker")]),
        (Figures([], [worker(False, "job")]), [("trouble", "silent_worker")]),
        (Figures([], [], timedelta(seconds=30)), []),
        (Figures([], [worker(False)], timedelta(minutes=9)), [("trouble", "schedules_late"), ("note", "stopped_worker")]),
    ],
)
def test_health_tells_trouble_from_notes_and_trouble_first(figures: Figures, codes: list[tuple[str, str]]) -> None:
    assert [(finding.level, finding.code) for finding in assess(figures)] == codes
