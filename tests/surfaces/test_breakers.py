"""Circuit breakers and verdicts as operators see them and act on them."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from django_stampeded import actions, insights, signals
from django_stampeded.models import AuditEntry, Breaker, QueuePolicy

pytestmark = pytest.mark.django_db

ANN = actions.Actor("ann")
LIST = "admin:stampeded_breaker_changelist"


def command(*arguments: str) -> Any:
    out = StringIO()
    call_command("stampeded", "breakers", *arguments, "--json", stdout=out)
    return json.loads(out.getvalue())["breakers"]


def _facts(job: Any) -> insights.JobFacts:
    found = insights.find(job.pk)
    assert found is not None
    return insights.facts(found)


def states() -> dict[str, str]:
    return dict(Breaker.objects.values_list("key", "state"))


def test_a_breaker_is_tripped_and_reset_with_an_audit_row_each() -> None:
    actions.trip_breaker("destination", "api", actor=ANN, reason="they move house")
    assert states() == {"api": "open"}
    assert actions.reset_breaker("destination", "api", actor=ANN)
    assert states() == {"api": "closed"}
    rows = [(row.actor, row.action, row.detail["key"], row.detail.get("reason")) for row in AuditEntry.objects.order_by("id")]
    assert rows == [("ann", "trip_breaker", "api", "they move house"), ("ann", "reset_breaker", "api", None)]


def test_a_breaker_that_nobody_knows_is_not_reset() -> None:
    assert not actions.reset_breaker("task", "t", actor=ANN)


@pytest.mark.parametrize("kind, key", [("queue", "q"), ("task", ""), ("task", "x" * 256), ("destination", "a\x00b")])
def test_what_can_not_be_a_breaker_is_refused_in_a_sentence(kind: str, key: str) -> None:
    with pytest.raises(ValueError, match=r"\.$|correct it"):
        actions.trip_breaker(kind, key, actor=ANN)


def test_a_breaker_is_not_tripped_until_a_time_that_is_over() -> None:
    with pytest.raises(ValueError, match="time to come"):
        actions.trip_breaker("task", "t", actor=ANN, until=timezone.now() - timedelta(seconds=1))


def test_tripping_and_resetting_send_the_signals_once() -> None:
    heard = []

    def note(signal: Any, **about: Any) -> None:
        heard.append((signal is signals.breaker_opened, about["kind"], about["key"]))

    for signal in (signals.breaker_opened, signals.breaker_closed):
        signal.connect(note)
    try:
        for _ in range(2):
            actions.trip_breaker("destination", "api", actor=ANN)
        for _ in range(2):
            actions.reset_breaker("destination", "api", actor=ANN)
    finally:
        for signal in (signals.breaker_opened, signals.breaker_closed):
            signal.disconnect(note)
    assert heard == [(True, "destination", "api"), (False, "destination", "api")]


def test_those_that_hold_jobs_back_are_listed_first() -> None:
    Breaker.objects.create(kind="destination", key="closed", failures=3)
    actions.trip_breaker("task", "t", actor=ANN, until=timezone.now() + timedelta(hours=1))
    first, second = insights.breakers()
    assert (first.key, first.state, second.key, second.failures) == ("t", "open", "closed", 3)
    assert first.retry_in and not second.retry_in


def test_the_command_lists_trips_and_resets() -> None:
    assert command() == []
    (shown,) = command("trip", "destination", "api", "--reason", "they move house", "--until", "2h")
    assert (shown["key"], shown["state"], shown["reason"]) == ("api", "open", "they move house")
    (shown,) = command("reset", "destination", "api")
    assert shown["state"] == "closed"


def test_the_command_says_what_is_missing() -> None:
    with pytest.raises(CommandError, match="No breaker is named"):
        command("trip")
    with pytest.raises(CommandError, match="There is no breaker of task"):
        command("reset", "task", "t")


def test_the_admin_trips_and_resets_with_its_permission_only(client_of: Any) -> None:
    breaker = Breaker.objects.create(kind="destination", key="api")
    chosen = {"_selected_action": [breaker.pk]}
    assert client_of("eve", "view_breaker").post(reverse(LIST), {"action": "trip", **chosen}).status_code == 403
    assert states() == {"api": "closed"}
    client = client_of("ann", "view_breaker", "switch_breaker")
    client.post(reverse(LIST), {"action": "trip", **chosen})
    assert states() == {"api": "open"}
    client.post(reverse(LIST), {"action": "reset", **chosen})
    assert states() == {"api": "closed"}
    assert list(AuditEntry.objects.order_by("id").values_list("actor", "action")) == [
        ("ann", "trip_breaker"),
        ("ann", "reset_breaker"),
    ]


def test_the_admin_shows_a_breaker_of_any_name(root: Client) -> None:
    key = 'a"b<i>/%s..'
    breaker = Breaker.objects.create(kind="destination", key=key, queues=["q"])
    for address in (reverse(LIST), reverse("admin:stampeded_breaker_change", args=[breaker.pk])):
        page = root.get(address)
        assert page.status_code == 200 and b"<i>/" not in page.content


def test_a_job_says_that_its_breaker_keeps_it_from_starting(make_job: Any, make_worker: Any) -> None:
    make_worker(queues=["mail"])
    job = make_job(destination="api")
    other = make_job(destination="other")
    actions.trip_breaker("destination", "api", actor=ANN)
    codes = [reason.code for reason in _facts(job).why]
    assert "breaker_open" in codes
    assert "breaker_open" not in [reason.code for reason in _facts(other).why]


def test_the_statistics_show_the_verdicts_in_force(make_job: Any) -> None:
    now = timezone.now()
    QueuePolicy.objects.create(queue="mail", verdict="hold", reason="queue x is overdue", decided_at=now)
    QueuePolicy.objects.create(queue="old", verdict="hold", reason="why", decided_at=now - timedelta(seconds=31))
    make_job()
    out = StringIO()
    call_command("stampeded", "stats", stdout=out)
    assert "hold: queue x is overdue" in out.getvalue() and out.getvalue().count("hold") == 1
    found = {queue.queue: (queue.verdict, queue.verdict_reason) for queue in insights.queues()}
    assert found == {"mail": ("hold", "queue x is overdue"), "old": ("steady", "")}


def test_how_long_jobs_may_wait_is_decided_on_the_command_line() -> None:
    call_command("stampeded", "policy", "mail", "--max-wait", "5m", stdout=StringIO())
    assert QueuePolicy.objects.get(pk="mail").max_wait_secs == 300
    call_command("stampeded", "policy", "mail", "--max-wait", "none", stdout=StringIO())
    assert QueuePolicy.objects.get(pk="mail").max_wait_secs is None
