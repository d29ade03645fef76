"""What the admin's pages show: hostile text escaped, odd names reachable, paging complete, statements constant."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import unquote, urlencode
from uuid import uuid4

import pytest
from django.contrib.admin import AdminSite
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import path, reverse
from django.utils import timezone

from django_stampeded import insights
from django_stampeded.admin import pages, register
from django_stampeded.admin.pages import quote_name, unquote_dots
from django_stampeded.models import AuditEntry, BulkOperation, CronOccurrence, Job, Progress, QueuePolicy, Schedule

pytestmark = pytest.mark.django_db

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    '" onmouseover=alert(3) x="',
    "javascript:alert(4)",
    "=HYPERLINK(1)",
    "{{ 7|add:7 }}{% now 'Y' %}",
    "%(count)d %s {0}",
]
RAW = re.compile(r"<img src=x|<script>alert|onmouseover=alert\(3\) x=\"|href=\"javascript:")

ODD_NAMES = [
    "foo/bar.baz",
    "a+b",
    "a b",
    "a%2Fb",
    "a?x=1#y",
    "..",
    ".",
    "日本",
    "q'\"<b>",
    "_2E",
    "_2E_2E",
    "a_5F",
    "\\",
    "a\nb",
]

own_site = AdminSite(name="own")
register(own_site)
urlpatterns = [path("own/", own_site.urls)]


def addresses(*extra: str) -> list[str]:
    names = ["job_changelist", "job_errors", "queuepolicy_changelist", "worker_changelist", "schedule_changelist"]
    names += ["cronoccurrence_changelist", "auditentry_changelist", "batch_changelist"]
    return [reverse(f"admin:stampeded_{name}") for name in names] + list(extra)


def ids_on(page: str) -> list[str]:
    return re.findall(r'name="_selected_action" value="([0-9a-f-]{36})"', page)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_escaped_on_every_page_and_in_every_message(
    root: Client, make_job: Any, make_worker: Any, text: str
) -> None:
    worker = make_worker(hostname=text, queues=[text], metadata={text: text})
    columns = {
        "queue": text,
        "task": text,
        "tenant_id": text,
        "destination": text,
        "args": {text: [text, {text: text}]},
        "meta": {text: text},
        "last_error": f"Traceback (most recent call last):\n{text}\n{text}",
        "errors": [{"at": text, "attempt": 1, "kind": text, "message": f"{text}\n{text}", "destination": text}, text],
        "error_fingerprint": b"a",
        "checkpoint": {text: text},
        "dead_letter_queue": f"{text}.",
        "source_id": worker.pk,
        "source_queue": text,
    }
    jobs = [make_job(**columns, state=state) for state in ("available", "discarded")]
    make_job(**{**columns, "dedup_scope": text}, state="executing", claimed_by=worker.pk, claimed_at=timezone.now())
    QueuePolicy.objects.create(queue=text, reason=text, paused_at=timezone.now(), paused_reason=text)
    Schedule.objects.create(
        key=text,
        queue=text,
        task=text,
        cron_expr=text,
        timezone=text,
        args={text: text},
        options={text: text},
        set_aside_reason=text,
    )
    CronOccurrence.objects.create(cron_key_id=text, occurrence_token=text, job_id=jobs[0].pk, skipped=text)
    AuditEntry.objects.create(actor=text, action=text, queue=text, job_id=jobs[0].pk, detail={"reason": text})
    operation = BulkOperation.objects.create(
        id=worker.pk, action=text, actor=text, via=text, selection={"queue": text, text: text}, parameters={"reason": text},
        expected=5, exact=False, skips=[{"id": str(worker.pk), "reason": text}], queue=text, job_id=jobs[0].pk,
    )  # fmt: skip
    address = reverse("admin:stampeded_job_changelist")
    seen = addresses(
        *(reverse("admin:stampeded_job_change", args=[job.pk]) for job in Job.objects.all()),
        reverse("admin:stampeded_worker_change", args=[worker.pk]),
        reverse("admin:stampeded_queuepolicy_change", args=[quote_name(text)]),
        reverse("admin:stampeded_schedule_change", args=[quote_name(text)]),
        address + "?" + urlencode({"q": text}),
        address + "?" + urlencode({"queue": text, "task": text, "state": text}),
        address + "?" + urlencode({"fingerprint": text}),
        address + "?" + urlencode({"tenant": text, "since": text, "until": text, "p": text}),
        reverse("admin:stampeded_job_bulk") + "?" + urlencode({"act": "cancel", "q": text, "queue": text}),
        reverse("admin:stampeded_bulkoperation_change", args=[operation.pk]),
        reverse("admin:stampeded_bulkoperation_change", args=[operation.pk]) + "?live",
        *(reverse("admin:stampeded_job_edit", args=[job.pk]) for job in jobs),
        reverse("admin:stampeded_job_change", args=[jobs[0].pk]) + "?live",
        reverse("admin:stampeded_job_enqueue") + "?" + urlencode({"task": text}),
    )
    for page in seen:
        response = root.get(page)
        assert response.status_code == 200, page
        assert not RAW.search(response.content.decode()), page
    for posted, data in (
        (reverse("admin:stampeded_queue_resume"), {"queue": text}),
        (reverse("admin:stampeded_queue_pause"), {"queue": text, "reason": text}),
        (reverse("admin:stampeded_job_operate", args=[jobs[0].pk, "retry"]), {}),
        (reverse("admin:stampeded_job_operate", args=[jobs[0].pk, "cancel"]), {"reason": text}),
        (reverse("admin:stampeded_job_operate", args=[jobs[1].pk, "move"]), {"to": text + text}),
    ):
        response = root.post(posted, data, follow=True)
        assert response.status_code == 200
        assert not RAW.search(response.content.decode()), posted


def test_no_page_has_inline_scripts_styles_or_anything_from_elsewhere(root: Client, make_job: Any, make_worker: Any) -> None:
    make_worker()
    job = make_job(state="discarded", error_fingerprint=b"a", last_error="x", errors=[{"message": "a\nb"}])
    for address in addresses(reverse("admin:stampeded_job_change", args=[job.pk])):
        page = root.get(address).content.decode()
        ours = page[page.index('id="content"') :]
        assert not re.search(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)", ours), address
        assert not re.search(r"\son\w+=|\sstyle=|<style", ours), address
        assert not re.search(r'(?:src|href)="(?:https?:)?//', page), address


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_queue_of_any_name_can_be_listed_paused_and_limited(root: Client, make_job: Any, name: str) -> None:
    job = make_job(queue=name)
    make_job(queue="other")
    queues = root.get(reverse("admin:stampeded_queuepolicy_changelist")).content.decode()
    links = [unquote(link) for link in re.findall(r'href="[^"]*/job/\?queue=([^"]*)"', queues)]
    assert sorted(links) == sorted([name, "other"])
    jobs = root.get(reverse("admin:stampeded_job_changelist"), {"queue": name}).content.decode()
    assert ids_on(jobs) == [str(job.pk)]
    root.post(reverse("admin:stampeded_queue_pause"), {"queue": name})
    policy = QueuePolicy.objects.get()
    assert policy.queue == name and policy.paused_at is not None
    listed = root.get(reverse("admin:stampeded_queuepolicy_changelist")).content.decode()
    link = re.search(r'class="field-queue"><a href="([^"]+)"', listed)
    assert link is not None
    response = root.post(unescape(link[1]), {"max_running": "4", "max_wait_secs": ""})
    assert response.status_code == 302
    policy.refresh_from_db()
    assert policy.max_running == 4
    root.post(reverse("admin:stampeded_queue_resume"), {"queue": name})
    policy.refresh_from_db()
    assert policy.paused_at is None
    assert set(AuditEntry.objects.values_list("queue", flat=True)) == {name}


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_schedule_of_any_name_has_its_page(root: Client, name: str) -> None:
    Schedule.objects.create(key=name, queue="mail", task="nightly.report", interval_secs=60)
    listed = root.get(reverse("admin:stampeded_schedule_changelist")).content.decode()
    link = re.search(r'class="field-key"><a href="([^"]+)"', listed)
    assert link is not None
    response = root.get(unescape(link[1]))
    assert response.status_code == 200 and "nightly.report" in response.content.decode()


@pytest.mark.parametrize("name", [*ODD_NAMES, "...", "plain", "_", "_2E_2", "x_2E"])
def test_a_name_in_an_address_comes_back_as_it_was(name: str) -> None:
    from django.contrib.admin.utils import unquote as admins_own

    segment = quote_name(name)
    assert "/" not in segment and segment not in {".", ".."}
    assert admins_own(unquote_dots(segment)) == name


def test_a_policy_is_made_for_a_queue_of_any_name_once(root: Client) -> None:
    address = reverse("admin:stampeded_queuepolicy_add")
    for name in ODD_NAMES:
        if "\n" not in name:  # a browser's one-line field can't send one
            assert root.post(address, {"queue": name, "max_running": "2"}).status_code == 302
            assert QueuePolicy.objects.filter(queue=name, max_running=2).exists()
    again = root.post(address, {"queue": "..", "max_running": "3"})
    assert again.status_code == 200 and "has a policy already" in again.content.decode()
    for wrong in (
        {"queue": ""},
        {"queue": "x" * 256},
        {"queue": "n", "max_running": "0"},
        {"queue": "n", "max_running": 2**31},
    ):
        assert root.post(address, wrong).status_code == 200
    assert not QueuePolicy.objects.filter(queue="n").exists()


@pytest.mark.parametrize("state", ["available", "completed", "discarded"])
def test_the_links_of_the_list_lead_through_all_of_many_simultaneous_jobs(root: Client, state: str) -> None:
    now = timezone.now()
    Job.objects.bulk_create(
        Job(id=f"00000000-0000-7000-8000-{number:012x}", queue="mail", task="t", state=state, scheduled_at=now, finished_at=now)
        for number in range(120)
    )
    seen: list[list[str]] = []
    address = reverse("admin:stampeded_job_changelist")
    query = f"?state={state}"
    while query:
        page = root.get(address + query).content.decode()
        seen.append(ids_on(page))
        following = re.search(r'<a href="([^"]+)" rel="next">', page)
        query = unescape(following[1]) if following else ""
    assert [len(each) for each in seen] == [50, 50, 20]
    assert len({each for page in seen for each in page}) == 120
    before = re.search(r'<a href="([^"]+)" rel="prev">', page)
    assert before is not None
    assert ids_on(root.get(address + unescape(before[1])).content.decode()) == seen[1]


@pytest.mark.parametrize(
    "query",
    [
        {"args__card_token__startswith": "h"},
        {"last_error__regex": "(a+)+$"},
        {"meta__icontains": "x"},
        {"id__in": "1"},
        {"nonsense": "1"},
        {"state__in": "x"},
    ],
)
def test_the_list_cannot_be_filtered_by_what_is_not_offered(root: Client, query: dict[str, str]) -> None:
    assert root.get(reverse("admin:stampeded_job_changelist"), query).status_code == 400


@pytest.mark.parametrize(
    "query",
    [
        {"p": "999"},
        {"p": "0"},
        {"p": "x"},
        {"p": "after:[0]"},
        {"since": "x"},
        {"tenant": "\x00"},
        {"o": "3.-2"},
        {"all": ""},
        {"q": "\x00"},
        {"queue": "\x00"},
        {"fingerprint": "zz"},
        {"q": "x" * 5_000},
        {"state": "nonsense"},
    ],
)
def test_an_odd_query_is_answered_without_an_error(root: Client, make_job: Any, query: dict[str, str]) -> None:
    make_job()
    assert root.get(reverse("admin:stampeded_job_changelist"), query).status_code in {200, 302}


def test_a_ledgers_filter_by_what_no_row_can_hold_finds_nothing(root: Client) -> None:
    for name, parameter in (("auditentry", "action_taken"), ("cronoccurrence", "schedule")):
        answer = root.get(reverse(f"admin:stampeded_{name}_changelist"), {parameter: "\x00"})
        assert answer.status_code == 200 and 'id="result_list"' not in answer.content.decode()


def test_the_list_keeps_its_order_whatever_the_address_asks(root: Client, make_job: Any) -> None:
    jobs = [make_job(task=task) for task in "bca"]
    page = root.get(reverse("admin:stampeded_job_changelist"), {"o": "2"}).content.decode()
    assert ids_on(page) == [str(job.pk) for job in reversed(jobs)]


def test_a_job_that_is_gone_leads_back_to_the_list_with_a_word(root: Client) -> None:
    for job_id in ("019aaaaa-0000-7000-8000-000000000000", "nonsense", "\x00", "1; DROP TABLE x"):
        response = root.get(reverse("admin:stampeded_job_change", args=[job_id]), follow=True)
        assert response.redirect_chain[0][0] == reverse("admin:stampeded_job_changelist")
        assert "not there any more" in response.content.decode()


def test_a_jobs_page_shows_what_an_operator_needs(root: Client, make_job: Any) -> None:
    job = make_job(
        state="retryable",
        scheduled_at=timezone.now() + timedelta(hours=2),
        args={"order": 7, "password": "hunter2"},
        attempt=2,
        errors=[{"at": "2026-01-02T03:04:05Z", "attempt": 2, "kind": "raised", "message": "Traceback (most\nKeyError: 1"}],
        failure_kind="raised",
    )
    page = root.get(reverse("admin:stampeded_job_change", args=[job.pk])).content.decode()
    assert "hunter2" not in page and "[redacted]" in page
    assert "It failed and waits for its next attempt" in page
    assert "<summary>KeyError: 1</summary>" in page
    for name in ("retry", "run_now", "cancel", "discard", "move", "delete"):
        assert f"/{job.pk}/do/{name}/" in page


def statements_for(client: Client, address: str) -> int:
    with CaptureQueriesContext(connection) as caught:
        assert client.get(address).status_code == 200
    return len(caught)


def test_a_jobs_page_shows_how_far_it_is(root: Client, make_job: Any) -> None:
    job = make_job()
    page = reverse("admin:stampeded_job_change", args=[job.pk])
    assert "<progress" not in root.get(page).content.decode()
    Progress.objects.create(job_id=job.pk, attempt=1, done=4, total=10, message="page <4>")
    text = root.get(page).content.decode()
    assert 'max="100" value="40"' in text and "4 of 10 (40 %): page &lt;4&gt;" in text
    Progress.objects.update(total=None)
    text = root.get(page).content.decode()
    assert "<progress" not in text and "4: page &lt;4&gt;" in text


def test_a_pages_statements_do_not_grow_with_its_rows(root: Client, make_job: Any, make_worker: Any) -> None:
    def fill(number: int) -> None:
        worker = make_worker(pid=number, queues=[f"q{number}"])
        job = make_job(queue=f"q{number}")
        make_job(queue=f"q{number}", state="executing", claimed_by=worker.pk, claimed_at=timezone.now())
        make_job(queue=f"q{number}", state="discarded", error_fingerprint=str(number).encode(), last_error="x")
        QueuePolicy.objects.create(queue=f"q{number}")
        Schedule.objects.create(key=f"s{number}", queue="mail", task="t", interval_secs=60)
        CronOccurrence.objects.create(cron_key_id=f"s{number}", occurrence_token="1", job_id=job.pk)
        AuditEntry.objects.create(actor="ann", action="retry", job_id=job.pk)

    fill(0)
    fixed = addresses(
        reverse("admin:stampeded_job_change", args=[Job.objects.filter(state="available").first().pk]),  # type: ignore[union-attr]
        reverse("admin:stampeded_worker_change", args=[make_worker().pk]),
    )
    for address in fixed:
        root.get(address)  # what Django reads once for a process is read now
    before = {address: statements_for(root, address) for address in fixed}
    for number in range(1, 101):
        fill(number)
    assert {address: statements_for(root, address) for address in fixed} == before


def test_the_job_table_is_never_counted(root: Client, make_job: Any) -> None:
    make_job()
    with CaptureQueriesContext(connection) as caught:
        for query in ({}, {"state": "available"}, {"queue": "mail"}, {"q": "send"}, {"task": "shop.send"}):
            root.get(reverse("admin:stampeded_job_changelist"), query)
    for statement in (entry["sql"] for entry in caught):
        if "COUNT(" in statement.upper() and "stampeded_jobs" in statement:
            assert "LIMIT" in statement, statement
        assert "DISTINCT" not in statement.upper()


def test_a_page_that_stopped_looking_says_so_and_leads_on(root: Client, make_job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_stampeded.insights.paging.WINDOW", 3)
    for _ in range(5):
        make_job()
    page = root.get(reverse("admin:stampeded_job_changelist"), {"task": "shop.none"}).content.decode()
    assert "a page looks at 3 jobs" in page and 'rel="next"' in page


def test_ledgers_are_counted_no_further_than_they_are_paged(root: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "REACH", 3)
    AuditEntry.objects.bulk_create(AuditEntry(actor="ann", action="retry") for _ in range(5))
    with CaptureQueriesContext(connection) as caught:
        root.get(reverse("admin:stampeded_auditentry_changelist"), {"q": "ann"})
    counts = [entry["sql"] for entry in caught if "COUNT(" in entry["sql"] and "stampeded_audit" in entry["sql"]]
    assert counts and all("LIMIT 3" in statement for statement in counts)


def test_the_audit_is_searched_by_user_queue_and_job(root: Client, make_job: Any) -> None:
    job = make_job()
    AuditEntry.objects.create(actor="ann", action="retry", queue="mail", job_id=job.pk)
    AuditEntry.objects.create(actor="bob", action="pause", queue="bulk")
    address = reverse("admin:stampeded_auditentry_changelist")
    for query, found, hidden in (
        ({"q": "ann"}, "ann", "bob"),
        ({"q": "bulk"}, "bob", ">ann<"),
        ({"q": str(job.pk)}, "ann", "bob"),
        ({"action_taken": "pause"}, "bob", ">ann<"),
    ):
        page = root.get(address, query).content.decode()
        rows = page[page.index('id="result_list"') :]
        assert found in rows and hidden not in rows, query


def test_a_secret_in_a_reason_is_hidden_in_the_audit_and_on_the_jobs_page(root: Client, make_job: Any) -> None:
    job = make_job()
    detail = {"reason": "wrong api_key=hunter2", "via": "admin"}
    entry = AuditEntry.objects.create(actor="ann", action="move", queue="mail", job_id=job.pk, detail=detail)
    for view, arguments in (
        ("auditentry_changelist", []), ("auditentry_change", [entry.pk]), ("job_change", [job.pk])
    ):  # fmt: skip
        page = root.get(reverse(f"admin:stampeded_{view}", args=arguments)).content.decode()
        assert "wrong api_key=[redacted]" in page and "hunter2" not in page


def test_what_operators_did_to_a_job_is_found_by_an_index_among_that_of_all_others() -> None:
    fill = """INSERT INTO stampeded_audit (actor, action, queue, job_id)
              SELECT 'ann', 'retry', 'queue' || n % 200, gen_random_uuid() FROM generate_series(1, 20000) n"""
    with connection.cursor() as cursor:
        cursor.execute(fill)
        cursor.execute("ANALYZE stampeded_audit")
    with CaptureQueriesContext(connection) as captured:
        insights.acts_on(uuid4())
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + captured.captured_queries[0]["sql"])
        plan = cursor.fetchone()[0]
    plan = json.loads(plan) if isinstance(plan, str) else plan
    assert plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"] < 10


@pytest.mark.urls("tests.surfaces.test_pages")
def test_the_dashboard_works_on_an_admin_site_of_the_projects_own(root: Client, make_job: Any, make_worker: Any) -> None:
    job = make_job(state="discarded", error_fingerprint=b"a", last_error="x")
    make_worker()
    for name in ("job_changelist", "job_errors", "queuepolicy_changelist", "worker_changelist", "schedule_changelist"):
        response = root.get(reverse(f"own:stampeded_{name}"))
        assert response.status_code == 200
        assert 'href="/admin/' not in response.content.decode()
    for address in (
        reverse("own:stampeded_job_bulk") + "?act=retry&state=discarded",
        reverse("own:stampeded_job_edit", args=[job.pk]),
        reverse("own:stampeded_job_enqueue"),
        reverse("own:stampeded_bulkoperation_changelist"),
    ):
        assert 'href="/admin/' not in root.get(address).content.decode()
    begun = root.post(reverse("own:stampeded_job_bulk") + "?act=retry&state=discarded")
    assert begun["Location"].startswith("/own/stampeded/bulkoperation/")
    assert "/own/stampeded/bulkoperation/" in root.get(begun["Location"]).content.decode()
    page = root.get(reverse("own:stampeded_job_change", args=[job.pk])).content.decode()
    assert f"/own/stampeded/job/{job.pk}/do/retry/" in page
    response = root.post(reverse("own:stampeded_job_operate", args=[job.pk, "retry"]))
    assert response["Location"] == f"/own/stampeded/job/{job.pk}/change/"


def test_registering_twice_is_no_error() -> None:
    site = AdminSite(name="twice")
    register(site)
    register(site)
    assert site.is_registered(Job)
