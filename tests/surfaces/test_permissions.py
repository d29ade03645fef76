"""Who may see and do what in the admin: every address, by GET and by POST, for every kind of user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from django_stampeded.models import AuditEntry, BulkOperation, Job, QueuePolicy, Schedule, Worker

pytestmark = pytest.mark.django_db

LISTS = ["job", "queuepolicy", "queuelimit", "breaker", "worker", "schedule", "cronoccurrence", "auditentry", "batch"]
OPERATIONS = {
    "retry": "retry_job",
    "run_now": "run_job",
    "cancel": "cancel_job",
    "discard": "discard_job",
    "move": "move_job",
    "set_priority": "prioritise_job",
    "delete": "delete_job",
}
LIST_ACTIONS = {
    "retry_jobs": "retry_job",
    "run_jobs_now": "run_job",
    "cancel_jobs": "cancel_job",
    "discard_jobs": "discard_job",
    "move_jobs": "move_job",
    "set_priority_of_jobs": "prioritise_job",
    "delete_jobs": "delete_job",
}

ASKED = {"to": "bulk", "priority": "3"}


def bulk_operation(action: str = "cancel") -> BulkOperation:
    return BulkOperation.objects.create(
        id=uuid4(), action=action, actor="ann", via="admin", selection={}, expected=1, exact=True
    )


def addresses(job: Job, worker: Worker) -> dict[str, str]:
    """Every address of ours that can be looked at, with the permission that it asks for."""
    pages = {reverse(f"admin:stampeded_{name}_changelist"): f"view_{name}" for name in LISTS}
    pages[reverse("admin:stampeded_job_change", args=[job.pk])] = "view_job"
    pages[reverse("admin:stampeded_job_history", args=[job.pk])] = "view_job"
    pages[reverse("admin:stampeded_job_errors")] = "view_job"
    pages[reverse("admin:stampeded_job_change", args=[job.pk]) + "?live"] = "view_job"
    pages[reverse("admin:stampeded_schedule_preview")] = "add_schedule"
    pages[reverse("admin:stampeded_bulkoperation_changelist")] = "view_job"
    pages[reverse("admin:stampeded_bulkoperation_change", args=[bulk_operation().pk])] = "view_job"
    pages[reverse("admin:stampeded_worker_change", args=[worker.pk])] = "view_worker"
    pages[reverse("admin:stampeded_schedule_change", args=["nightly"])] = "view_schedule"
    pages[reverse("admin:stampeded_queuepolicy_change", args=["mail"])] = "view_queuepolicy"
    pages[reverse("admin:stampeded_queuepolicy_add")] = "add_queuepolicy"
    return pages


@pytest.fixture
def pages(make_job: Any, make_worker: Any) -> dict[str, str]:
    Schedule.objects.create(key="nightly", queue="mail", task="t", interval_secs=60)
    QueuePolicy.objects.create(queue="mail")
    return addresses(make_job(), make_worker())


def test_nobody_sees_anything_without_logging_in(client: Client, pages: dict[str, str]) -> None:
    for address in pages:
        response = client.get(address)
        assert (response.status_code, "/login/" in response["Location"]) == (302, True), address


def test_somebody_who_is_not_staff_sees_nothing(client_of: Any, pages: dict[str, str]) -> None:
    client = client_of("ann", "view_job", staff=False)
    for address in pages:
        assert client.get(address).status_code == 302, address


def test_staff_without_permissions_is_refused_everywhere(client_of: Any, pages: dict[str, str]) -> None:
    client = client_of("ann")
    for address in pages:
        assert client.get(address).status_code == 403, address


def test_each_page_opens_with_its_own_permission_and_no_other(client_of: Any, pages: dict[str, str]) -> None:
    for number, permission in enumerate(sorted(set(pages.values()))):
        client = client_of(f"user{number}", permission)
        for address, needed in pages.items():
            expected = 200 if needed == permission else 403
            if permission == "add_queuepolicy" and needed == "view_queuepolicy":
                continue
            assert client.get(address).status_code == expected, (address, permission)


def test_the_superuser_sees_everything(root: Client, pages: dict[str, str]) -> None:
    for address in pages:
        assert root.get(address).status_code == 200, address


def test_jobs_are_neither_added_nor_edited_nor_deleted_by_djangos_own_pages(root: Client, make_job: Any) -> None:
    job = make_job()
    change = reverse("admin:stampeded_job_change", args=[job.pk])
    assert root.get(reverse("admin:stampeded_job_add")).status_code == 403
    assert root.post(change, {"state": "completed", "_save": "1"}).status_code == 405
    delete = reverse("admin:stampeded_job_delete", args=[job.pk])
    assert root.get(delete).status_code == 403
    assert root.post(delete, {"post": "yes"}).status_code == 403
    assert Job.objects.get(pk=job.pk).state == "available"


@pytest.mark.parametrize("name", ["worker", "auditentry", "cronoccurrence", "batch"])
def test_what_is_only_to_read_cannot_be_written(root: Client, make_worker: Any, name: str) -> None:
    key = {"worker": make_worker().pk}.get(name, 1)
    assert root.post(reverse(f"admin:stampeded_{name}_add"), {}).status_code == 403
    assert root.post(reverse(f"admin:stampeded_{name}_delete", args=[key]), {"post": "yes"}).status_code in {302, 403}
    assert Worker.objects.exists()


def operate(client: Client, job: Job, operation: str) -> Any:
    return client.post(reverse("admin:stampeded_job_operate", args=[job.pk, operation]), ASKED)


def in_state_for(operation: str, make_job: Callable[..., Job]) -> Job:
    return make_job(state="discarded" if operation.startswith("retry") else "available")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_button_needs_its_own_permission_and_sight_of_the_job(client_of: Any, make_job: Any, operation: str) -> None:
    job = in_state_for(operation, make_job)
    before = job.state
    others = [permission for name, permission in OPERATIONS.items() if name != operation]
    refused = {
        "nobody": client_of("nobody"),
        "viewer": client_of("viewer", "view_job"),
        "changer": client_of("changer", "view_job", "change_job"),
        "others": client_of("others", "view_job", "change_job", *others),
        "blind": client_of("blind", OPERATIONS[operation]),
    }
    for name, client in refused.items():
        assert operate(client, job, operation).status_code == 403, name
    assert operate(Client(), job, operation).status_code == 302
    job.refresh_from_db()
    assert job.state == before and not AuditEntry.objects.exists()
    assert operate(client_of("able", "view_job", OPERATIONS[operation]), job, operation).status_code == 302
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.job_id, entry.detail["via"]) == ("able", operation, job.pk, "admin")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_button_works_by_post_alone_and_only_with_the_csrf_token(make_user: Any, make_job: Any, operation: str) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("root", superuser=True))
    job = in_state_for(operation, make_job)
    address = reverse("admin:stampeded_job_operate", args=[job.pk, operation])
    assert client.get(address).status_code == 405
    assert client.post(address).status_code == 403
    assert not AuditEntry.objects.exists()


def test_an_unknown_operation_or_job_does_nothing(root: Client, make_job: Any) -> None:
    job = make_job()
    for name in ("explode", "__class__", "JOB_ACTIONS"):
        assert root.post(reverse("admin:stampeded_job_operate", args=[job.pk, name])).status_code == 403
    for job_id in (uuid4(), "not-an-id", "1"):
        assert root.post(reverse("admin:stampeded_job_operate", args=[job_id, "cancel"])).status_code == 302
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("action", LIST_ACTIONS)
def test_a_list_action_needs_its_own_permission_also_when_forged(client_of: Any, make_job: Any, action: str) -> None:
    job = in_state_for(action, make_job)
    data = {"action": action, "_selected_action": [str(job.pk)], "confirmed": "yes", "index": "0", **ASKED}
    address = reverse("admin:stampeded_job_changelist")
    viewer = client_of("viewer", "view_job", "change_job")
    assert f'value="{action}"' not in viewer.get(address).content.decode()
    for client in (viewer, client_of("blind", LIST_ACTIONS[action])):
        for across in ("0", "1"):
            assert client.post(address, {**data, "select_across": across}).status_code == 403
    assert not AuditEntry.objects.exists()
    able = client_of("able", "view_job", LIST_ACTIONS[action])
    assert f'value="{action}"' in able.get(address).content.decode()
    assert able.post(address, data).status_code == 302
    assert AuditEntry.objects.get().actor == "able"


def test_somebody_who_only_views_is_offered_no_button(client_of: Any, make_job: Any) -> None:
    job = make_job(state="discarded")
    viewer = client_of("viewer", "view_job")
    page = viewer.get(reverse("admin:stampeded_job_change", args=[job.pk])).content.decode()
    assert "/do/" not in page
    assert 'name="action"' not in viewer.get(reverse("admin:stampeded_job_changelist")).content.decode()


def test_groups_of_errors_are_retried_only_with_the_permission(client_of: Any, make_job: Any) -> None:
    job = make_job(state="discarded", error_fingerprint=b"a", last_error="x")
    address = reverse("admin:stampeded_job_errors")
    data = {"operation": "retry", "fingerprint": b"a".hex()}
    assert client_of("viewer", "view_job", "change_job").post(address, data).status_code == 403
    able = client_of("able", "view_job", "retry_job")
    for operation in ("delete", "cancel", "", "x"):
        assert able.post(address, {**data, "operation": operation}).status_code == 403
    assert able.post(address, data).status_code == 302
    assert BulkOperation.objects.get().action == "retry"
    assert Job.objects.get(pk=job.pk).state == "discarded"  # until a worker does it


@pytest.mark.parametrize("name", ["pause", "resume"])
def test_a_queue_is_switched_only_with_the_permission(client_of: Any, name: str) -> None:
    address = reverse(f"admin:stampeded_queue_{name}")
    for user, *permissions in (("a",), ("b", "view_queuepolicy", "change_queuepolicy"), ("c", "pause_queue")):
        assert client_of(user, *permissions).post(address, {"queue": "mail"}).status_code == 403
    able = client_of("able", "view_queuepolicy", "pause_queue")
    assert able.get(address).status_code == 405
    assert able.post(address, {"queue": "mail"}).status_code == 302
    assert AuditEntry.objects.get().action == name


def test_a_queues_limits_are_changed_only_with_the_permission(client_of: Any) -> None:
    QueuePolicy.objects.create(queue="mail")
    address = reverse("admin:stampeded_queuepolicy_change", args=["mail"])
    assert client_of("viewer", "view_queuepolicy").post(address, {"max_running": "3"}).status_code == 403
    assert client_of("able", "change_queuepolicy").post(address, {"max_running": "3"}).status_code == 302
    assert QueuePolicy.objects.get().max_running == 3
    assert AuditEntry.objects.get().detail["max_running"] == 3


def test_schedules_are_paused_only_with_the_permission(client_of: Any) -> None:
    Schedule.objects.create(key="nightly", queue="mail", task="t", interval_secs=60)
    address = reverse("admin:stampeded_schedule_changelist")
    data = {"action": "pause_schedules", "_selected_action": ["nightly"], "index": "0"}
    assert client_of("viewer", "view_schedule").post(address, data).status_code == 403
    assert client_of("able", "view_schedule", "change_schedule").post(address, data).status_code == 302
    assert Schedule.objects.get().paused and AuditEntry.objects.get().action == "pause_schedule"


@pytest.mark.parametrize(
    ("name", "action"),
    [("breaker", "trip"), ("queuelimit", "delete_selected"), ("worker", "stop_workers"), ("schedule", "run_schedules")],
)
def test_a_forged_key_in_a_list_is_a_bad_request(root: Client, name: str, action: str) -> None:
    address = reverse(f"admin:stampeded_{name}_changelist")
    for key in ("\x00", "x\x00") if name == "schedule" else ("x", "\x00"):
        assert root.post(address, {"action": action, "_selected_action": key, "index": "0"}).status_code == 400
