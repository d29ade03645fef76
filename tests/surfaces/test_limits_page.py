"""The admin's pages of limits, and the policies that are edited in their list: written with an audit row, or refused."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from django_stampeded import actions
from django_stampeded.models import AuditEntry, QueueLimit, QueuePolicy

pytestmark = pytest.mark.django_db

ANN = actions.Actor("ann")
EMPTY = {"of_queue": "mail", "scope": "tenant", "value": "", "max_running": "", "rate_limit": "", "rate_period_secs": ""}


def limits() -> list[tuple[Any, ...]]:
    rows = QueueLimit.objects.order_by("queue_id", "scope", "value")
    return list(rows.values_list("queue_id", "scope", "value", "max_running", "rate_limit", "rate_period_secs"))


def acts() -> list[tuple[Any, ...]]:
    return list(AuditEntry.objects.order_by("id").values_list("actor", "action", "queue"))


def add(client: Client, **given: str) -> Any:
    return client.post(reverse("admin:stampeded_queuelimit_add"), {**EMPTY, **given})


def a_limit() -> QueueLimit:
    actions.change_limit("mail", "tenant", "acme", {"max_running": 2}, actor=ANN)
    return QueueLimit.objects.get()


def test_a_limit_is_added_changed_and_deleted_with_an_audit_row_each(root: Client) -> None:
    assert add(root, max_running="3").status_code == 302
    assert add(root, value=" acme ", rate_limit="5", rate_period_secs="60").status_code == 302
    assert limits() == [("mail", "tenant", " acme ", None, 5, 60), ("mail", "tenant", None, 3, None, None)]
    acme = QueueLimit.objects.get(value=" acme ")
    page = reverse("admin:stampeded_queuelimit_change", args=[acme.pk])
    numbers = {"max_running": "1", "rate_limit": "", "rate_period_secs": ""}
    assert root.post(page, {**numbers, "of_queue": "other", "value": "other", "scope": "key"}).status_code == 302
    assert limits()[0] == ("mail", "tenant", " acme ", 1, None, None)
    assert root.post(reverse("admin:stampeded_queuelimit_delete", args=[acme.pk]), {"post": "yes"}).status_code == 302
    chosen = {"action": "delete_selected", "_selected_action": [str(QueueLimit.objects.get().pk)], "post": "yes"}
    assert root.post(reverse("admin:stampeded_queuelimit_changelist"), chosen).status_code == 302
    assert limits() == []
    assert acts() == [("root", "change_limit", "mail")] * 5


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "limit nothing"),
        ({"rate_limit": "5"}, "give both or neither"),
        ({"max_running": "0"}, "greater than or equal to 1"),
        ({"max_running": "3", "of_queue": "*"}, "All queues together"),
        ({"max_running": "3", "of_queue": ""}, "This field is required"),
        ({"max_running": "3", "value": "acme"}, "such a limit already"),
        ({"max_running": "3", "value": "a\x00b"}, "Null characters"),
        ({"max_running": "3", "scope": "planet"}, "not one of the available choices"),
    ],
)
def test_what_makes_no_sense_is_refused_with_nothing_written(root: Client, given: dict[str, str], words: str) -> None:
    a_limit()
    before = limits(), acts()
    response = add(root, **given)
    assert response.status_code == 200 and words in response.content.decode()
    assert (limits(), acts()) == before


def test_each_act_on_limits_asks_for_its_own_permission(client_of: Any) -> None:
    limit = a_limit()
    page = reverse("admin:stampeded_queuelimit_change", args=[limit.pk])
    gone = reverse("admin:stampeded_queuelimit_delete", args=[limit.pk])
    viewer = client_of("viewer", "view_queuelimit")
    assert viewer.get(page).status_code == 200
    assert viewer.get(reverse("admin:stampeded_queuelimit_changelist")).status_code == 200
    forged = [
        viewer.post(page, {"max_running": "9"}),
        viewer.post(gone, {"post": "yes"}),
        add(viewer, max_running="1"),
        add(client_of("changer", "view_queuelimit", "change_queuelimit"), max_running="1"),
        client_of("adder", "view_queuelimit", "add_queuelimit").post(page, {"max_running": "9"}),
    ]
    assert [response.status_code for response in forged] == [403] * 5
    assert limits() == [("mail", "tenant", "acme", 2, None, None)]


def in_list(queue: str, **given: str) -> dict[str, str]:
    row = {"queue": queue, "max_running": "", "rate_limit": "", "rate_period_secs": "", **given}
    forms = {"form-TOTAL_FORMS": "1", "form-INITIAL_FORMS": "1", "form-MIN_NUM_FORMS": "0", "form-MAX_NUM_FORMS": "1000"}
    return {**forms, **{f"form-0-{name}": value for name, value in row.items()}, "_save": "Save"}


def test_policies_are_edited_in_their_list_with_an_audit_row(root: Client) -> None:
    QueuePolicy.objects.create(queue="mail", max_wait_secs=60, max_running=2)
    address = reverse("admin:stampeded_queuepolicy_changelist")
    assert 'name="form-0-max_running" value="2"' in root.get(address).content.decode()
    assert root.post(address, in_list("mail", max_running="7", fair_tenants="on")).status_code == 302
    policy = QueuePolicy.objects.get()
    assert (policy.max_running, policy.fair_tenants, policy.max_wait_secs) == (7, True, 60)
    assert acts() == [("root", "change_policy", "mail")]
    root.post(address, in_list("mail", max_running="7", fair_tenants="on"))  # nothing changed
    refused = root.post(address, in_list("mail", rate_limit="3"))
    assert "give both or neither" in refused.content.decode()
    assert len(acts()) == 1


def test_who_may_only_look_at_policies_edits_none_in_the_list(client_of: Any) -> None:
    QueuePolicy.objects.create(queue="mail")
    viewer = client_of("viewer", "view_queuepolicy")
    address = reverse("admin:stampeded_queuepolicy_changelist")
    assert "form-0-max_running" not in viewer.get(address).content.decode()
    assert viewer.post(address, in_list("mail", max_running="7")).status_code == 403
    assert acts() == [] and QueuePolicy.objects.get().max_running is None
