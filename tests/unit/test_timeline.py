"""The order in which a job's page tells what happened to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

from django_stampeded.insights.timeline import timeline
from django_stampeded.states import State

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def test_a_job_is_discarded_after_the_failure_that_ended_it_though_both_are_of_one_moment():
    failures = [
        SimpleNamespace(at=NOON, kind="raised", attempt=2, node=""),
        SimpleNamespace(at=NOON, kind="timed_out", attempt=1, node=""),
    ]
    facts = SimpleNamespace(
        inserted_at=NOON - timedelta(hours=1),
        errors=failures,
        state=State.DISCARDED,
        finished_at=NOON,
        claimed_at=NOON,
        worker="",
    )
    assert [event.what for event in timeline(cast(Any, facts))] == [State.DISCARDED, "raised", "timed_out", "enqueued"]
