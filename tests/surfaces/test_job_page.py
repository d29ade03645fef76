"""A job's page: what happened to it and with whom it belongs, and mending its arguments, or refusing to, as a whole."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from django_stampeded import actions, insights, registry
from django_stampeded.declaring import task
from django_stampeded.models import AuditEntry, Batch, Dependency, Job

pytestmark = pytest.mark.django_db

ANN = actions.Actor("ann", via="admin")


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_tasks", dict(registry._tasks))
    monkeypatch.setattr(registry, "_names", dict(registry._names))

    def send(order: int, api_token: str = "", note: str = "") -> None: ...

    task(name="shop.send")(send)
    yield


def page_of(job: Job) -> str:
    return reverse("admin:stampeded_job_change", args=[job.pk])


def edit_of(job: Job) -> str:
    return reverse("admin:stampeded_job_edit", args=[job.pk])


def seen_on(client: Client, job: Job) -> str:
    found = re.search(r'name="seen" value="([^"]+)"', client.get(edit_of(job)).content.decode())
    assert found is not None
    return unescape(found[1])


def test_the_timeline_tells_every_attempt_with_its_trace_folded(root: Client, make_job: Any) -> None:
    entry = {"kind": "raised", "node": "node7", "duration_s": 1.25, "worker": "w1", "exit_status": 3}
    job = make_job(
        state="discarded",
        errors=[
            {**entry, "at": "2026-01-01T10:00:00Z", "attempt": 1, "message": "Traceback (most\nKeyError: first"},
            {"kind": "timed_out", "at": "2026-01-01T11:00:00Z", "attempt": 2, "message": "too long"},
        ],
        inserted_at="2026-01-01T09:00:00Z",
    )
    page = root.get(page_of(job)).content.decode()
    shown = page[page.index("Timeline") : page.index("Facts")]
    order = [shown.index(words) for words in ("discarded", "timed_out", "raised", "enqueued")]
    assert order == sorted(order)
    for words in ("node7", "1.25", "exit status", "<summary>KeyError: first</summary>", "too long"):
        assert words in shown


def test_a_page_shows_what_belongs_with_the_job(root: Client, make_job: Any) -> None:
    parent, child = make_job(task="shop.parent"), make_job(task="shop.child")
    job = make_job(state="discarded", meta={"depends_on": [str(parent.pk), "nonsense", 5]})
    letter = make_job(queue="dead", source_id=job.pk, source_queue="mail", task="shop.letter")
    Dependency.objects.create(parent_queue="mail", parent_id=job.pk, child_queue="mail", child_id=child.pk)
    page = root.get(page_of(job)).content.decode()
    for other in (parent, child, letter):
        assert page_of(other) in page and other.task in page
    back = root.get(page_of(letter)).content.decode()
    assert "Dead letter of" in back and page_of(job) in back


def test_a_dead_letter_goes_back_to_its_queue_due_now(root: Client, make_job: Any) -> None:
    job = make_job(state="discarded")
    letter = make_job(queue="dead", source_id=job.pk, source_queue="mail", scheduled_at=timezone.now() + timedelta(days=1))
    address = reverse("admin:stampeded_job_operate", args=[letter.pk, "redrive"])
    assert address in root.get(page_of(letter)).content.decode()
    assert reverse("admin:stampeded_job_operate", args=[job.pk, "redrive"]) not in root.get(page_of(job)).content.decode()
    assert "1 job is back in its queue" in root.post(address, follow=True).content.decode()
    letter.refresh_from_db()
    assert (letter.queue, letter.state, letter.scheduled_at <= timezone.now()) == ("mail", "available", True)
    assert AuditEntry.objects.get().detail["to"] == "mail"
    refused = actions.redrive("mail", job.pk, actor=ANN)
    assert (refused.done, refused.reason) == (False, "it is no dead letter")


def test_the_live_part_ends_with_the_job(root: Client, make_job: Any) -> None:
    for state, ended in (("available", False), ("discarded", True)):
        part = root.get(page_of(make_job(state=state)), {"live": ""}).content.decode()
        assert "data-stampeded-part" in part and ("data-stampeded-ended" in part) is ended
        assert "<html" not in part


def test_arguments_are_mended_and_the_job_retried_in_one_step(root: Client, make_job: Any) -> None:
    job = make_job(state="discarded", attempt=3, max_attempts=3, args={"order": 7, "api_token": "hunter2", "note": "x" * 900})
    form = root.get(edit_of(job)).content.decode()
    assert "hunter2" not in form and "[redacted]" in form and "x" * 900 in form
    edited = {"order": 8, "api_token": "[redacted]", "note": "x" * 900}
    response = root.post(edit_of(job), {"args": json.dumps(edited), "seen": seen_on(root, job)})
    assert response["Location"] == page_of(job)
    job.refresh_from_db()
    assert job.args == {"order": 8, "api_token": "hunter2", "note": "x" * 900}
    assert (job.state, job.attempt < job.max_attempts) == ("available", True)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor, entry.detail["changed"]) == ("edit", "root", ["order"])
    assert "hunter2" not in str(entry.detail)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ('{"order": "seven"}', "args.order"),
        ('{"order": 7, "colour": 1}', "no parameter"),
        ("{}", "missing"),
        ("[1]", "JSON object"),
        ("{", "valid JSON"),
        ('{"order": 1, "note": "a\\u0000b"}', "NUL"),
    ],
)
def test_arguments_that_the_task_does_not_take_are_refused_and_nothing_changes(
    root: Client, make_job: Any, args: str, said: str
) -> None:
    job = make_job(state="discarded", args={"order": 7})
    response = root.post(edit_of(job), {"args": args, "seen": actions.mark(job)})
    assert response.status_code == 200 and said in unescape(response.content.decode())
    job.refresh_from_db()
    assert (job.state, job.args) == ("discarded", {"order": 7}) and not AuditEntry.objects.exists()


@pytest.mark.parametrize(
    "edited",
    [
        {"cards": [{"token": "[redacted]"}, {"token": "y"}], "url": "https://ann:[redacted]@x/"},
        {"cards": [{"token": "[redacted]"}], "url": "https://ann:[redacted]@y/"},
        {"cards": [{"token": "z"}], "url": "https://ann:secret@x/", "new_token": "[redacted]"},
    ],
)
def test_a_secret_that_cannot_be_put_back_is_asked_for_and_nothing_changes(root: Client, make_job: Any, edited: Any) -> None:
    stored = {"cards": [{"token": "x"}], "url": "https://ann:pw@x/"}
    job = make_job(state="discarded", args=stored)
    answer = root.post(reverse("admin:stampeded_job_edit", args=[job.pk]), {"args": json.dumps(edited)})
    assert answer.status_code == 200 and "write its value instead" in answer.content.decode()
    job.refresh_from_db()
    assert (job.args, job.state) == (stored, "discarded")


@pytest.mark.parametrize(
    "typed", ["[" * 100_000, '{"a": "\\ud800"}', '{"a": ' + "9" * 5_000 + "}", '{"a": ' + "[" * 1_500 + "]" * 1_500 + "}"]
)
def test_json_that_cannot_be_read_or_stored_is_refused_in_words(root: Client, make_job: Any, typed: str) -> None:
    job = make_job(state="discarded")
    answer = root.post(reverse("admin:stampeded_job_edit", args=[job.pk]), {"args": typed})
    assert answer.status_code == 200 and "errorlist" in answer.content.decode()
    job.refresh_from_db()
    assert (job.args, job.state) == ({}, "discarded")


def test_arguments_of_a_job_that_has_changed_meanwhile_stay_as_they_are(root: Client, make_job: Any) -> None:
    job = make_job(state="discarded", args={"order": 7})
    seen = seen_on(root, job)
    Job.objects.filter(pk=job.pk).update(state="executing", attempt=4, finished_at=None)
    page = root.post(edit_of(job), {"args": '{"order": 8}', "seen": seen}, follow=True).content.decode()
    assert "it has changed since it was shown" in page
    refused = actions.edit_and_retry("mail", job.pk, {"order": 8}, actor=ANN)
    assert (refused.done, "it is running" in refused.reason) == (False, True)
    job.refresh_from_db()
    assert job.args == {"order": 7} and not AuditEntry.objects.exists()


def test_a_waiting_jobs_arguments_are_mended_without_making_it_due(make_job: Any) -> None:
    job = make_job(args={"order": 7}, scheduled_at=timezone.now() + timedelta(days=1))
    assert actions.edit_and_retry("mail", job.pk, {"order": 8}, actor=ANN).done
    again = Job.objects.get(pk=job.pk)
    assert (again.args, again.scheduled_at) == ({"order": 8}, job.scheduled_at)


def test_mending_needs_both_permissions_also_by_a_forged_post(client_of: Any, make_job: Any) -> None:
    job = make_job(state="discarded", args={"order": 7})
    data = {"args": '{"order": 8}', "seen": actions.mark(job)}
    for name, *permissions in (
        ("viewer", "view_job", "change_job"),
        ("retrier", "view_job", "retry_job"),
        ("editor", "view_job", "edit_job"),
        ("blind", "edit_job", "retry_job"),
    ):
        client = client_of(name, *permissions)
        assert client.get(edit_of(job)).status_code == client.post(edit_of(job), data).status_code == 403
        if "view_job" in permissions:
            assert edit_of(job) not in client.get(page_of(job)).content.decode()
    assert not AuditEntry.objects.exists()
    able = client_of("able", "view_job", "retry_job", "edit_job")
    assert edit_of(job) in able.get(page_of(job)).content.decode()
    assert able.post(edit_of(job), data).status_code == 302
    assert Job.objects.get(pk=job.pk).args == {"order": 8}


def test_the_steps_of_a_job_stand_in_a_table_with_their_secrets_hidden(root: Client, make_job: Any) -> None:
    record = {
        "download": {"done": True, "result": {"rows": 3376, "api_token": "hunter2"}},
        "rows <b>": {"cursor": 1500},
        "password": {"done": True, "result": "hunter3"},
        "odd": "no object",
    }
    job = make_job(checkpoint={"stampeded_steps": record, "state": {"line": 7, "secret": "hunter4"}})
    page = root.get(reverse("admin:stampeded_job_change", args=[job.pk])).content.decode()
    live = root.get(reverse("admin:stampeded_job_change", args=[job.pk]) + "?live").content.decode()
    for shown in (page, live):
        assert "3376" in shown and "1500" in shown and "rows &lt;b&gt;" in shown and "no object" in shown
        assert "hunter" not in shown and "stampeded_steps" not in shown
    assert "&quot;line&quot;: 7" in page
    stored = insights.checkpoint_of(job)
    assert [(step.name, step.finished) for step in stored.steps] == [
        ("odd", False), ("download", True), ("password", True), ("rows <b>", False)
    ]  # fmt: skip


def test_a_checkpoint_without_steps_is_shown_as_it_is_and_many_steps_are_cut(root: Client, make_job: Any) -> None:
    plain = make_job(checkpoint={"row": 7})
    assert insights.checkpoint_of(plain) == insights.Checkpoint(plain={"row": 7})
    assert insights.checkpoint_of(make_job(checkpoint={"stampeded_steps": [1]})).steps == []
    many = make_job(checkpoint={"stampeded_steps": {f"s{n}": {"done": True} for n in range(130)}})
    assert "30 more steps are not shown" in root.get(reverse("admin:stampeded_job_change", args=[many.pk])).content.decode()


def test_a_batchs_page_lists_its_newest_jobs_and_leads_to_all_of_them(root: Client, client_of: Any, make_job: Any) -> None:
    batch = Batch.objects.create(name="import")
    jobs = [make_job(batch_id=batch.pk, state="discarded" if n == 3 else "available") for n in range(25)]
    make_job()
    address = reverse("admin:stampeded_batch_change", args=[batch.pk])
    page = root.get(address).content.decode()
    assert str(jobs[-1].pk) in page and str(jobs[0].pk) not in page
    listed = reverse("admin:stampeded_job_changelist")
    assert f'href="{listed}?batch={batch.pk}"' in page and f"?batch={batch.pk}&amp;state=discarded" in page
    assert str(jobs[3].pk) in root.get(listed, {"batch": str(batch.pk), "state": "discarded"}).content.decode()
    viewer = client_of("viewer", "view_batch").get(address).content.decode()
    assert str(jobs[-1].pk) not in viewer
    assert insights.page(insights.Selection(batch="nonsense")).jobs == []
    meant = actions.group("cancel", insights.Selection(batch=str(batch.pk)), {})
    assert len(insights.portion(meant, size=100).jobs) == 24
