"""Acting on all that a list means: counted first, done by a worker in portions, told while it runs, stopped at any time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from django_stampeded import actions
from django_stampeded.actions import bulk, bulk_operations
from django_stampeded.insights import Selection
from django_stampeded.models import AuditEntry, BulkOperation, Job
from django_stampeded.worker.inline import run_once

pytestmark = pytest.mark.django_db

ANN = actions.Actor("ann", via="admin")


def confirm_page(act: str, **selection: str) -> str:
    return f"{reverse('admin:stampeded_job_bulk')}?{urlencode({**selection, 'act': act})}"


def page_of(operation: BulkOperation) -> str:
    return reverse("admin:stampeded_bulkoperation_change", args=[operation.pk])


def states() -> dict[str, int]:
    found: dict[str, int] = {}
    for state in Job.objects.exclude(task="stampeded.bulk").values_list("state", flat=True):
        found[state] = found.get(state, 0) + 1
    return found


def test_everything_of_a_list_is_counted_confirmed_and_done_by_a_worker(root: Client, make_job: Any, make_worker: Any) -> None:
    wanted = [make_job(state="discarded", queue="bulk") for _ in range(4)]
    make_job(state="discarded", queue="mail")
    make_job(state="completed", queue="bulk")
    address = reverse("admin:stampeded_job_changelist") + "?queue=bulk"
    data = {"action": "retry_jobs", "_selected_action": [str(wanted[0].pk)], "index": "0", "select_across": "1"}
    asked = root.post(address, data, follow=True)
    assert "Retry: 4 jobs." in asked.content.decode()
    assert not BulkOperation.objects.exists()
    begun = root.post(asked.redirect_chain[0][0], follow=True).content.decode()
    assert "0 done, 0 skipped" in begun and "of 4" in begun
    operation = BulkOperation.objects.get()
    worker = make_worker(queues=["default"])
    with connection.cursor() as cursor:
        runs = run_once(cursor, worker.pk, ["default"], 5, "default")
    assert [(run.job.task, run.recorded) for run in runs] == [("stampeded.bulk", True)]
    assert states() == {"available": 4, "discarded": 1, "completed": 1}
    shown = root.get(page_of(operation)).content.decode()
    assert "4 done, 0 skipped" in shown and "data-stampeded-ended" in shown
    entries = AuditEntry.objects.filter(action="retry")
    assert {entry.actor for entry in entries} == {"root"} and entries.count() == 4
    assert {entry.detail["operation"] for entry in entries} == {str(operation.pk)}
    assert AuditEntry.objects.get(action="bulk").detail["act"] == "retry"


@pytest.mark.parametrize(
    ("action", "parameters", "left"),
    [
        ("retry", {}, {"available": 5, "completed": 1, "executing": 1}),
        ("cancel", {"reason": "no"}, {"cancelled": 5, "completed": 1, "discarded": 1}),
        ("discard", {"reason": "no"}, {"discarded": 5, "completed": 1, "cancelled": 1}),
        ("delete", {}, {"executing": 1}),
        ("run_now", {}, {"available": 2, "retryable": 1, "completed": 1, "discarded": 1, "cancelled": 1, "executing": 1}),
    ],
)
def test_each_act_goes_for_the_jobs_that_it_fits(make_job: Any, action: str, parameters: Any, left: dict[str, int]) -> None:
    tomorrow = timezone.now() + timedelta(days=1)
    make_job(scheduled_at=tomorrow)
    make_job()
    make_job(state="retryable", scheduled_at=tomorrow)
    make_job(state="executing", attempt=1)
    for state in ("completed", "discarded", "cancelled"):
        make_job(state=state)
    operation = actions.start(action, Selection(queue="mail"), actor=ANN, parameters=parameters)
    assert actions.carry_on(operation.pk)
    operation.refresh_from_db()
    assert (operation.state, operation.done, operation.skipped) == ("finished", operation.expected, 0)
    if action == "retry":  # a retryable job stays so, due now
        left = {"available": 4, "retryable": 1, "completed": 1, "executing": 1}
    assert states() == left
    if action == "run_now":
        assert not Job.objects.filter(scheduled_at__gt=timezone.now()).exists()


def test_moving_and_priorities_leave_what_is_right_already(make_job: Any) -> None:
    for priority in (0, 0, 5):
        make_job(priority=priority)
    make_job(queue="bulk")
    moved = actions.start("move", Selection(state="available"), actor=ANN, parameters={"to": "bulk", "x": "ignored"})
    actions.carry_on(moved.pk)
    moved.refresh_from_db()
    assert (moved.done, moved.parameters) == (3, {"to": "bulk"})
    assert Job.objects.filter(queue="bulk").count() == 4
    set_to = actions.start("set_priority", Selection(queue="bulk"), actor=ANN, parameters={"priority": 5})
    actions.carry_on(set_to.pk)
    set_to.refresh_from_db()
    assert set_to.done == 3 and set(Job.objects.filter(queue="bulk").values_list("priority", flat=True)) == {5}


def test_an_interrupted_operation_goes_on_where_it_stopped(make_job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_operations, "PORTION", 3)
    for _ in range(8):
        make_job()
    operation = actions.start("cancel", Selection(queue="mail"), actor=ANN)
    assert not bulk_operations._next_portion(operation.pk, "default")
    operation.refresh_from_db()
    assert (operation.state, operation.done, states()) == ("running", 3, {"cancelled": 3, "available": 5})

    def broken(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(bulk_operations, "_save", broken)
        bulk_operations._next_portion(operation.pk, "default")
    assert states() == {"cancelled": 3, "available": 5}  # the portion and the position behind it: both or neither
    assert actions.carry_on(operation.pk)
    operation.refresh_from_db()
    assert (operation.done, states()) == (8, {"cancelled": 8})
    assert AuditEntry.objects.filter(action="cancel").count() == 8


def test_jobs_that_come_after_it_was_asked_for_are_left_alone(make_job: Any) -> None:
    make_job()
    operation = actions.start("cancel", Selection(queue="mail"), actor=ANN)
    later = timezone.now() + timedelta(minutes=1)
    make_job(inserted_at=later)
    actions.carry_on(operation.pk)
    assert states() == {"cancelled": 1, "available": 1}


def test_it_can_be_stopped_and_then_its_job_does_nothing(
    root: Client, make_job: Any, make_worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_operations, "PORTION", 2)
    for _ in range(5):
        make_job()
    operation = actions.start("cancel", Selection(queue="mail"), actor=ANN)
    bulk_operations._next_portion(operation.pk, "default")
    stop = reverse("admin:stampeded_bulkoperation_step", args=[operation.pk, "stop"])
    assert "what was done stays done" in root.post(stop, follow=True).content.decode()
    assert Job.objects.get(pk=operation.job_id).state == "cancelled"
    assert actions.carry_on(operation.pk)
    assert states() == {"cancelled": 2, "available": 3}
    assert AuditEntry.objects.get(action="stop_bulk").actor == "root"
    assert "It had ended already" in root.post(stop, follow=True).content.decode()


def test_without_a_worker_a_part_can_be_done_in_the_request(root: Client, make_job: Any) -> None:
    make_job()
    operation = actions.start("cancel", Selection(queue="mail"), actor=ANN)
    shown = root.get(page_of(operation)).content.decode()
    assert "No live worker" in shown
    root.post(reverse("admin:stampeded_bulkoperation_step", args=[operation.pk, "here"]))
    assert states() == {"cancelled": 1}


@pytest.mark.parametrize("loss", ["cancelled", "discarded", "deleted"])
def test_an_operation_without_its_job_says_so_and_can_be_given_to_a_worker_again(
    root: Client, make_job: Any, make_worker: Any, monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    monkeypatch.setattr(bulk_operations, "PORTION", 2)
    for _ in range(3):
        make_job()
    operation = actions.start("cancel", Selection(queue="mail"), actor=ANN)
    listed = reverse("admin:stampeded_bulkoperation_changelist")
    again = reverse("admin:stampeded_bulkoperation_step", args=[operation.pk, "again"])
    assert "a job goes on with it already" in root.post(again, follow=True).content.decode()
    assert "othing does it any more" not in root.get(page_of(operation)).content.decode() + root.get(listed).content.decode()
    bulk_operations._next_portion(operation.pk, "default")
    rows = Job.objects.filter(pk=operation.job_id)
    rows.delete() if loss == "deleted" else rows.update(state=loss, finished_at=timezone.now())
    for address in (listed, page_of(operation), f"{page_of(operation)}?live"):
        assert "othing does it any more" in root.get(address).content.decode()
    assert "A worker goes on with it." in root.post(again, follow=True).content.decode()
    assert AuditEntry.objects.get(action="give_bulk_again").actor == "root"
    assert "othing does it any more" not in root.get(page_of(operation)).content.decode()
    worker = make_worker(queues=["default"])
    with connection.cursor() as cursor:
        run_once(cursor, worker.pk, ["default"], 5, "default")
    operation.refresh_from_db()
    assert (operation.state, operation.done, states()) == ("finished", 3, {"cancelled": 3})
    assert not actions.give_again(operation.pk, actor=ANN)


def test_one_bad_row_does_not_stop_the_others(make_job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "BULK_SECONDS", 1)
    for number in range(3):
        make_job(dedup_scope=f"acct:{number}")
    make_job(queue="bulk", dedup_scope="acct:1")
    operation = actions.start("move", Selection(queue="mail"), actor=ANN, parameters={"to": "bulk"})
    actions.carry_on(operation.pk)
    operation.refresh_from_db()
    assert (operation.done, operation.skipped) == (2, 1)
    assert "dedup slot" in operation.skips[0]["reason"]
    assert Job.objects.filter(queue="bulk").count() == 3


def test_a_portion_takes_a_fixed_number_of_statements(make_job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def statements(number: int) -> int:
        for _ in range(number):
            make_job(state="discarded")
        pairs = list(Job.objects.filter(state="discarded").values_list("queue", "id"))
        with CaptureQueriesContext(connection) as caught:
            report = actions.on_portion("retry", pairs, actor=ANN)
        assert (report.done, report.skipped) == (number, 0)
        return len(caught)

    assert statements(2) == statements(30)


def test_its_own_job_is_not_among_what_it_cancels(make_job: Any) -> None:
    make_job(queue="default")
    operation = actions.start("cancel", Selection(queue="default"), actor=ANN)
    actions.carry_on(operation.pk)
    assert Job.objects.get(pk=operation.job_id).state == "available"
    assert states() == {"cancelled": 1}


def test_the_queue_of_its_job_is_a_setting(settings: Any) -> None:
    settings.STAMPEDED = {"BULK_QUEUE": "operators"}
    operation = actions.start("cancel", Selection(queue="mail"), actor=ANN)
    assert Job.objects.get(pk=operation.job_id).queue == operation.queue == "operators"


def test_an_age_in_the_selection_counts_from_when_it_was_asked_for() -> None:
    operation = actions.start("cancel", Selection(queue="mail", since="1h"), actor=ANN)
    assert "T" in operation.selection["since"]


def test_a_group_of_errors_is_retried_as_one(root: Client, make_job: Any) -> None:
    same = [make_job(state="discarded", error_fingerprint=b"a" * 32, last_error="x") for _ in range(3)]
    other = make_job(state="discarded", error_fingerprint=b"b" * 32, last_error="y")
    address = reverse("admin:stampeded_job_errors")
    assert root.get(address).content.decode().count("<polyline") == 2
    root.post(address, {"operation": "retry", "fingerprint": (b"a" * 32).hex()})
    operation = BulkOperation.objects.get()
    assert (operation.expected, operation.exact) == (3, True)
    actions.carry_on(operation.pk)
    assert set(Job.objects.filter(pk__in=[job.pk for job in same]).values_list("state", flat=True)) == {"available"}
    assert Job.objects.get(pk=other.pk).state == "discarded"
    root.post(address, {"operation": "retry", "fingerprint": ""})
    assert BulkOperation.objects.count() == 1


@pytest.mark.parametrize(
    ("act", "permission"),
    [("retry", "retry_job"), ("cancel", "cancel_job"), ("delete", "delete_job"), ("move", "move_job"), ("run_now", "run_job")],
)
def test_starting_stopping_and_doing_need_the_acts_own_permission(
    client_of: Any, make_job: Any, act: str, permission: str
) -> None:
    make_job()
    operation = actions.start(act, Selection(queue="mail"), actor=ANN, parameters={"to": "bulk"})
    others = ["view_job", "change_job", "view_bulkoperation", "change_bulkoperation", "edit_job"]
    viewer = client_of("viewer", *others)
    steps = [reverse("admin:stampeded_bulkoperation_step", args=[operation.pk, step]) for step in ("stop", "here", "again")]
    assert viewer.get(page_of(operation)).status_code == 200
    assert b'<form method="post" action="/admin/stampeded' not in viewer.get(page_of(operation)).content
    for address in (confirm_page(act, queue="mail"), *steps):
        assert viewer.post(address, {"to": "bulk"}).status_code == 403
    assert viewer.get(confirm_page(act)).status_code == 403
    able = client_of("able", "view_job", permission)
    assert able.get(steps[0]).status_code == 405
    assert able.post(confirm_page(act, queue="mail"), {"to": "bulk"}).status_code == 302
    assert able.post(steps[0]).status_code == 302
    operation.refresh_from_db()
    assert operation.state == "stopped"
    assert able.post(steps[0].replace("/stop/", "/explode/")).status_code == 403
    for strange in ("redrive", "edit", "", "explode"):
        assert client_of(f"root{strange}", superuser=True).post(confirm_page(strange)).status_code == 403


@pytest.mark.parametrize(
    ("act", "data"), [("move", {"to": ""}), ("move", {"to": "x" * 256}), ("set_priority", {"priority": "x"})]
)
def test_a_parameter_that_cannot_be_is_refused_before_anything_starts(root: Client, act: str, data: dict[str, str]) -> None:
    response = root.post(confirm_page(act, queue="mail"), data)
    assert response.status_code == 200 and not BulkOperation.objects.exists()


@pytest.mark.parametrize("selection", [{"q": "a\x00b"}, {"queue": "\x00"}, {"fingerprint": "\x00"}])
def test_what_the_database_cannot_hold_starts_nothing(root: Client, make_job: Any, selection: dict[str, str]) -> None:
    make_job(state="discarded")
    assert "No job can be meant" in root.post(confirm_page("cancel", **selection)).content.decode()
    root.post(reverse("admin:stampeded_job_errors"), {"operation": "retry", **selection})
    assert not BulkOperation.objects.exists()


def test_a_reason_is_kept_as_the_database_can_hold_it(root: Client, make_job: Any) -> None:
    make_job()
    root.post(confirm_page("cancel"), {"reason": "a\x00b" + "c" * 1000})
    assert len(BulkOperation.objects.get().parameters["reason"]) == actions.LONGEST_REASON


def test_a_csrf_token_is_needed(make_user: Any, make_job: Any) -> None:
    make_job()
    operation = actions.start("cancel", Selection(queue="mail"), actor=ANN)
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("root", superuser=True))
    job = Job.objects.get(task="shop.send")
    for address in (
        confirm_page("cancel"),
        reverse("admin:stampeded_bulkoperation_step", args=[operation.pk, "stop"]),
        reverse("admin:stampeded_job_edit", args=[job.pk]),
        reverse("admin:stampeded_job_enqueue"),
    ):
        assert client.post(address).status_code == 403, address
