"""Enqueueing from the admin: a form made of the function's signature, checked by it, with a permission and an audit row."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from html import unescape
from typing import Any, Literal
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse

from django_stampeded import registry
from django_stampeded.declaring import task
from django_stampeded.models import AuditEntry, Job

pytestmark = pytest.mark.django_db


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_tasks", dict(registry._tasks))
    monkeypatch.setattr(registry, "_names", dict(registry._names))

    def everything(
        text: str, number: int, at: datetime, day: date, rate: float, price: Decimal, ref: UUID, size: Size,
        mode: Literal["fast", "slow"], rows: list[int], loud: bool = True, maybe: int | None = None,
        password: str = "", flag: bool | None = None,
    ) -> None: ...  # fmt: skip

    def plain(note: str = "none", **others: int) -> None: ...

    def unresolved(x: NoSuchName) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    for each in (everything, plain, unresolved):
        task(name=f"shop.{each.__name__}")(each)
    yield


def address(name: str = "") -> str:
    return reverse("admin:stampeded_job_enqueue") + (f"?task={name}" if name else "")


GIVEN = {
    "arg_text": " <b>hello</b> ", "arg_number": "7", "arg_at": "2030-01-02T03:04", "arg_day": "2030-01-02", "arg_rate": "1.5",
    "arg_price": "9.90", "arg_ref": "01900000-0000-7000-8000-000000000001", "arg_size": "l", "arg_mode": "slow",
    "arg_rows": "[1, 2]", "arg_maybe": "", "arg_password": "hunter2", "arg_flag": "unknown",
}  # fmt: skip


def test_looking_at_a_form_runs_nothing_and_shows_which_task_was_chosen(root: Client) -> None:
    ran: list[str] = []

    def needs_nothing(note: str = "none") -> None:
        ran.append(note)

    task(name="shop.needs_nothing")(needs_nothing)
    page = root.get(address("shop.needs_nothing")).content.decode()
    assert '<option value="shop.needs_nothing" selected>' in page and "<h2>shop.needs_nothing</h2>" in page
    assert ran == []


def test_a_form_has_a_fitting_field_for_each_parameter(root: Client) -> None:
    page = root.get(address("shop.everything")).content.decode()
    for name, kind in (
        ("text", "text"), ("number", "number"), ("at", "datetime-local"), ("day", "date"), ("loud", "checkbox"),
        ("password", "password"), ("maybe", "number"),
    ):  # fmt: skip
        assert f'<input type="{kind}" name="arg_{name}"' in page, name
    assert '<option value="l">LARGE (l)</option>' in page and '<option value="slow">' in page
    assert '<textarea name="arg_rows"' in page


def test_what_the_form_gives_is_what_the_job_gets(root: Client, settings: Any) -> None:
    settings.TIME_ZONE = "UTC"
    options = {"queue_name": "slow", "priority": "-3", "run_after": "2031-01-01T00:00", "tenant": "acme"}
    response = root.post(address("shop.everything"), {**GIVEN, **options})
    job = Job.objects.get()
    assert response["Location"] == reverse("admin:stampeded_job_change", args=[job.pk])
    assert (job.queue, job.priority, job.tenant_id) == ("slow", -3, "acme")
    assert job.scheduled_at == datetime(2031, 1, 1, tzinfo=UTC)
    known = registry.find("shop.everything").signature
    assert known is not None
    assert known.decode(job.args) == {
        "text": " <b>hello</b> ", "number": 7, "at": datetime(2030, 1, 2, 3, 4, tzinfo=UTC), "day": date(2030, 1, 2),
        "rate": 1.5, "price": Decimal("9.90"), "ref": UUID(GIVEN["arg_ref"]), "size": Size.LARGE, "mode": "slow",
        "rows": [1, 2], "loud": False, "password": "hunter2",
    }  # fmt: skip
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor, entry.job_id, entry.detail["task"]) == ("enqueue", "root", job.pk, "shop.everything")
    assert "hunter2" not in str(entry.detail)


@pytest.mark.parametrize(
    "wrong",
    [
        {"arg_number": "x"}, {"arg_text": ""}, {"arg_rows": '["a"]'}, {"arg_rows": "{"}, {"arg_size": "xl"}, {"arg_mode": ""},
        {"priority": "99999"}, {"arg_at": "soon"}, {"arg_ref": "1"},
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_nothing_written(root: Client, wrong: dict[str, str]) -> None:
    response = root.post(address("shop.everything"), {**GIVEN, **wrong})
    page = response.content.decode()
    assert response.status_code == 200 and "errorlist" in page
    assert "hunter2" not in page
    assert not Job.objects.exists() and not AuditEntry.objects.exists()


def test_fields_left_empty_leave_the_functions_defaults_and_others_come_as_json(root: Client) -> None:
    root.post(address("shop.plain"), {"arg_note": "", "more_arguments": '{"a": 1}'})
    assert Job.objects.get().args == {"a": 1}
    refused = root.post(address("shop.plain"), {"more_arguments": '{"a": "x"}'})
    assert refused.status_code == 200 and Job.objects.count() == 1


def test_a_task_that_cannot_have_a_form_says_why(root: Client) -> None:
    assert "do not resolve" in unescape(root.get(address("shop.unresolved")).content.decode())


def test_only_registered_tasks_are_offered_and_none_of_our_own(root: Client) -> None:
    page = root.get(address()).content.decode()
    assert "shop.plain" in page and "stampeded.bulk" not in page
    for name in ("stampeded.bulk", "os.system", "\x00"):
        assert (
            root.post(reverse("admin:stampeded_job_enqueue") + "?" + "task=" + name.replace("\x00", "%00")).status_code == 200
        )
    assert not Job.objects.exists()


def test_enqueueing_needs_its_own_permission(client_of: Any) -> None:
    for name, *permissions in (("viewer", "view_job", "add_job", "change_job", "edit_job"), ("blind", "enqueue_job")):
        client = client_of(name, *permissions)
        assert client.get(address("shop.plain")).status_code == client.post(address("shop.plain"), {}).status_code == 403
    assert not Job.objects.exists()
    assert client_of("able", "view_job", "enqueue_job").post(address("shop.plain"), {}).status_code == 302
    assert Job.objects.get().task == "shop.plain"
