"""`manage.py stampeded …`: the same facts and acts as the admin, as text and as JSON, and exit codes that a probe can use."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from django_stampeded import Batch
from django_stampeded.management.commands.stampeded import SUBCOMMANDS
from django_stampeded.models import AuditEntry, Job, Progress, QueuePolicy, Schedule
from tests.testapp import tasks

pytestmark = pytest.mark.django_db


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("stampeded", *words, stdout=out)
    return out.getvalue()


def run_json(*words: str) -> Any:
    return json.loads(run(*words, "--json"))


def failing(*words: str) -> tuple[int, str]:
    """Exit code and output of a subcommand that ends with trouble."""
    out = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("stampeded", *words, stdout=out)
    return int(ended.value.code or 0), out.getvalue()


def test_every_subcommand_that_only_looks_answers_on_an_empty_queue() -> None:
    for name in ("stats", "list", "errors", "batches", "workers", "health", "schema", "cron"):
        assert run(name).strip()
        assert isinstance(run_json(name), dict)


def test_stats_tell_jobs_by_queue_and_state(make_job: Any) -> None:
    make_job(scheduled_at=timezone.now() - timedelta(minutes=3))
    make_job(state="discarded")
    assert "mail" in run("stats") and "3 min" in run("stats")
    (queue,) = run_json("stats")["queues"]
    assert queue["queue"] == "mail"
    assert queue["counts"] | {"available": 1, "discarded": 1} == queue["counts"]
    assert queue["oldest_age_seconds"] >= 180


def test_list_narrows_by_every_option(make_job: Any) -> None:
    wanted = make_job(state="discarded", queue="bulk", task="shop.pay", failure_kind="raised", args={"order": 7})
    make_job()
    for options in (
        ["--state", "discarded"],
        ["--queue", "bulk"],
        ["--task", "shop.pay"],
        ["--kind", "raised"],
        ["--search", "order=7"],
        ["--search", str(wanted.pk)],
    ):
        found = run_json("list", *options)
        assert [job["id"] for job in found["jobs"]] == [str(wanted.pk)] and found["total"] == 1, options
    assert str(wanted.pk) in run("list")
    assert len(run_json("list", "--limit", "1")["jobs"]) == 1


def test_show_tells_why_a_job_is_not_running_and_hides_secrets(make_job: Any) -> None:
    job = make_job(args={"order": 7, "api_token": "hunter2"}, errors=[{"attempt": 1, "kind": "raised", "message": "boom"}])
    text = run("show", str(job.pk))
    assert "No live worker takes jobs" in text and "boom" in text and "hunter2" not in text
    data = run_json("show", str(job.pk), "--queue", "mail")
    assert data["args"] == {"order": 7, "api_token": "[redacted]"}
    assert data["why"][0]["code"] == "no_worker" and data["errors"][0]["summary"] == "boom"


def test_show_tells_how_far_a_job_is(make_job: Any) -> None:
    job = make_job()
    assert "progress" not in run("show", str(job.pk))
    assert run_json("show", str(job.pk))["progress"] is None
    Progress.objects.create(job_id=job.pk, attempt=1, done=4, total=10, message="page 4")
    assert "progress: 4 of 10 (40 %): page 4\n" in run("show", str(job.pk))
    assert run_json("show", str(job.pk))["progress"]["percent"] == 40


def test_nothing_from_a_job_reaches_the_terminal_as_a_command(make_job: Any) -> None:
    hostile = "\x1b[2J\x1b]0;owned\x07\x9b31m"
    job = make_job(
        queue=hostile, task=hostile, last_error=hostile, args={"x": hostile}, error_fingerprint=b"a", state="discarded"
    )
    QueuePolicy.objects.create(queue=hostile, paused_at=timezone.now(), paused_reason=hostile)
    Schedule.objects.create(key=hostile, queue=hostile, task=hostile, interval_secs=5)
    outputs = [run("stats"), run("list"), run("show", str(job.pk)), run("errors"), run("cron"), run("health")]
    outputs.append(run("retry", str(job.pk)))
    outputs.append(run("resume", hostile))
    for text in outputs:
        assert not any(ord(char) < 32 and char not in "\n\t" or 127 <= ord(char) < 160 for char in text)


def test_errors_are_grouped_and_can_be_retried_by_their_fingerprint(make_job: Any) -> None:
    for _ in range(3):
        make_job(state="discarded", error_fingerprint=b"a", last_error="KeyError: 1")
    make_job(state="discarded", error_fingerprint=b"b", last_error="ValueError: 2")
    clusters = run_json("errors")["clusters"]
    assert [(cluster["jobs"], cluster["summary"]) for cluster in clusters] == [(3, "KeyError: 1"), (1, "ValueError: 2")]
    assert "KeyError: 1" in run("errors")
    printed = run("errors").splitlines()[1].split()[-1]
    assert clusters[0]["fingerprint"].startswith(printed)
    report = run_json("retry", "--all", "--error", printed, "--yes")
    assert (report["done"], report["skipped"], report["finished"]) == (3, 0, True)
    assert Job.objects.filter(state="discarded").count() == 1


@pytest.mark.parametrize(
    ("word", "state", "now", "extra"),
    [
        ("retry", "discarded", "available", []),
        ("run", "retryable", "retryable", []),
        ("cancel", "available", "cancelled", ["--reason", "no longer wanted"]),
        ("discard", "available", "discarded", ["--reason", "no use"]),
        ("move", "available", "available", ["--to", "bulk"]),
    ],
)
def test_jobs_named_by_id_are_acted_on_and_audited(make_job: Any, word: str, state: str, now: str, extra: list[str]) -> None:
    jobs = [make_job(state=state) for _ in range(2)]
    assert "2 done, 0 skipped" in run(word, *(str(job.pk) for job in jobs), *extra)
    assert set(Job.objects.values_list("state", flat=True)) == {now}
    entry = AuditEntry.objects.order_by("id").first()
    assert entry is not None and entry.detail["via"] == "command" and "@" in entry.actor
    if word in {"cancel", "discard"}:
        assert entry.detail["reason"] == extra[1]


def test_what_cannot_be_done_is_told_job_by_job_and_ends_with_1(make_job: Any) -> None:
    job, running, gone = make_job(), make_job(state="executing", attempt=1), uuid4()
    code, text = failing("delete", str(job.pk), str(running.pk), str(gone), "--yes")
    assert code == 1 and "1 done, 2 skipped" in text
    assert f"{running.pk} skipped: it is running" in text and f"{gone} skipped: there is no such job" in text
    assert list(Job.objects.values_list("pk", flat=True)) == [running.pk]


def test_many_jobs_are_touched_only_after_a_yes(make_job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_job(state="discarded")
    name = connection.settings_dict["NAME"]
    with pytest.raises(CommandError, match=f"Retry 1 jobs in database “default” \\({name}\\).*add --yes"):
        run("retry", "--all", "--state", "discarded")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: "n")
    with pytest.raises(CommandError, match="Nothing was done"):
        run("retry", "--all", "--state", "discarded")
    assert not AuditEntry.objects.exists()
    monkeypatch.setattr("builtins.input", lambda question: "y")
    run("retry", "--all", "--state", "discarded")
    job.refresh_from_db()
    assert job.state == "available"


def test_all_goes_on_until_nothing_is_left(make_job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_stampeded.management.console.acting.BATCH", 2)
    for _ in range(5):
        make_job()
    assert run_json("cancel", "--all", "--queue", "mail", "--yes")["done"] == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "nonsense"], "not an id"),
        (["show", str(uuid4())], "There is no job"),
        (["list", "--limit", "0"], "1 to 1000"),
        (["list", "--state", "nonsense"], "invalid choice"),
        (["retry"], "No job is named"),
        (["retry", "--all", "--yes"], "would mean every job"),
        (["retry", "--all", str(uuid4()), "--queue", "mail", "--yes"], "leave one of them out"),
        (["move", str(uuid4())], "--to"),
        (["pause", ""], "1 to 255 characters"),
        (["pause"], "Name one queue, or give --all"),
        (["resume", "mail", "--all"], "Name one queue, or give --all"),
        (["pause", "mail", "--until", "2001-01-01"], "time to come"),
        (["policy", "--max-running", "3"], "No queue is named"),
        (["policy", "mail", "--max-running", "0"], "from 1 to"),
        (["limit", "mail", "--max-running", "3"], "No limit is named"),
        (["prune", "--completed-older-than", "soon"], "not an age"),
        (["cron", "--pause", "gone"], "no schedule “gone”"),
        (["stats", "--database", "nowhere"], "no database alias “nowhere”"),
        (["explode"], "invalid choice"),
        ([], "subcommand"),
    ],
)
def test_a_mistake_is_answered_in_one_sentence(words: list[str], said: str) -> None:
    with pytest.raises(CommandError) as refused:
        run(*words)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value).strip()
    assert not AuditEntry.objects.exists()


def test_a_queue_is_paused_and_resumed() -> None:
    assert run_json("pause", "a/b", "--reason", "deploy") == {"queue": "a/b", "paused": True}
    policy = QueuePolicy.objects.get(pk="a/b")
    assert policy.paused_at is not None and policy.paused_reason == "deploy"
    assert "“a/b” is resumed" in run("resume", "a/b")
    policy.refresh_from_db()
    assert policy.paused_at is None


def test_all_queues_are_paused_until_a_time_and_resumed(make_job: Any) -> None:
    job = make_job()
    assert run_json("pause", "--all", "--until", "2h") == {"queue": "*", "paused": True}
    assert timedelta(minutes=110) < QueuePolicy.objects.get(pk="*").paused_until - timezone.now() < timedelta(minutes=121)
    assert all(queue["paused_at"] for queue in run_json("stats")["queues"])
    assert "All queues are paused" in run("show", str(job.pk)) and "ends by itself" in run("show", str(job.pk))
    assert run("resume", "--all") == "All queues are resumed.\n"
    assert [queue["queue"] for queue in run_json("stats")["queues"]] == ["mail"]


def test_a_policy_is_shown_and_changed() -> None:
    assert "no policy" in run("policy")
    run("policy", "mail", "--max-running", "3", "--rate", "30/1m", "--fair", "yes", "--keep-completed", "2h")
    (policy,) = run_json("policy", "mail")["policies"]
    wanted = {"max_running": 3, "rate_limit": 30, "rate_period_secs": 60, "fair_tenants": True, "keep_completed_secs": 7200}
    assert policy.items() >= wanted.items()
    run("policy", "mail", "--rate", "none", "--max-running", "none", "--fair", "no", "--keep-completed", "none")
    row = QueuePolicy.objects.get()
    assert (row.max_running, row.rate_limit, row.fair_tenants, row.keep_completed_secs) == (None, None, False, None)


def test_limits_within_a_queue_are_shown_changed_and_removed() -> None:
    assert "no limit" in run("limit")
    run("limit", "mail", "tenant", "--max-running", "2")
    assert "acme" in run("limit", "mail", "tenant", "acme", "--rate", "5/1s")
    assert [(row["value"], row["max_running"]) for row in run_json("limit")["limits"]] == [("acme", None), (None, 2)]
    assert "acme" not in run("limit", "mail", "tenant", "acme", "--remove")


def test_schedules_are_listed_paused_and_resumed() -> None:
    Schedule.objects.create(key="nightly", queue="mail", task="shop.report", cron_expr="0 3 * * *")
    assert "0 3 * * *" in run("cron")
    assert run_json("cron", "--pause", "nightly")["schedules"][0]["paused"] is True
    assert run_json("cron", "--resume", "nightly")["schedules"][0]["paused"] is False
    run("cron", "--run", "nightly")
    assert Job.objects.get().task == "shop.report"
    with pytest.raises(CommandError, match="was not run"):
        run("cron", "--run", "gone")


def test_pruning_asks_and_uses_the_retention_of_the_settings(make_job: Any, settings: Any) -> None:
    settings.STAMPEDED = {"COMPLETED_RETENTION": timedelta(days=2), "DISCARDED_RETENTION": timedelta(days=10)}
    for state, days in (("completed", 3), ("completed", 1), ("discarded", 3), ("cancelled", 11)):
        make_job(state=state, finished_at=timezone.now() - timedelta(days=days))
    with pytest.raises(CommandError, match="older than 2 d and .* older than 10 d"):
        run("prune")
    assert run_json("prune", "--yes") == {"pruned": 2}
    assert run_json("prune", "--yes", "--completed-older-than", "12h", "--failed-older-than", "2d") == {"pruned": 2}


def test_health_ends_with_0_or_1(make_job: Any, make_worker: Any) -> None:
    assert "All is well." in run("health")
    make_job()
    code, text = failing("health")
    assert code == 1 and "trouble: Queue “mail” has due jobs and no live worker" in text
    assert json.loads(failing("health", "--json")[1])["ok"] is False
    make_worker()
    assert run_json("health") == {"ok": True, "findings": []}
    Job.objects.update(scheduled_at=timezone.now() - timedelta(seconds=100))
    assert failing("health", "--max-wait", "60")[0] == 1
    assert run_json("health", "--max-wait", "600")["ok"] is True


def test_an_old_schema_is_told_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_json("schema")["problem"] == ""
    monkeypatch.setattr("django_stampeded.schema.SCHEMA_VERSION", 99)
    code, text = failing("schema")
    assert code == 1 and "manage.py migrate stampeded" in text
    with pytest.raises(CommandError, match="manage.py migrate stampeded"):
        run("stats")


def test_every_subcommand_has_its_help() -> None:
    assert all(subcommand.help.endswith(".") for subcommand in SUBCOMMANDS.values())


def test_batches_are_listed_and_shown_with_their_counts() -> None:
    with (
        Batch("import\x1b[2J", on_complete=tasks.note_batch, meta={"file": "a.csv", "token": "t0p"}) as outer,
        Batch("pages", parent=outer) as inner,
    ):
        outer.enqueue_many(tasks.noop, [{}] * 3)
    inner_job = inner.enqueue(tasks.noop)
    with connection.cursor() as cursor:
        cursor.execute("SELECT stampeded_cancel(%s, %s)", [inner_job.queue, inner_job.id])
        cursor.execute("SELECT stampeded_finish_batches()")
    open_one = Batch("open").open()

    listed = run_json("batches")["batches"]
    assert [(b["name"], b["stage"], b["ended"], b["jobs"]) for b in listed] == [
        ("open", "open", 0, 0), ("pages", "failed", 1, 1), ("import\x1b[2J", "sealed", 0, 3),
    ]  # fmt: skip
    assert [b["name"] for b in run_json("batches", "--unfinished", "--limit", "1")["batches"]] == ["open"]
    assert "0/3" in run("batches") and str(open_one.id) in run("batches")

    shown = run_json("batches", str(outer.id))
    assert shown["counts"] == {"available": 3} and shown["callbacks"] == {"on_complete": tasks.note_batch.name}
    assert shown["meta"]["file"] == "a.csv" and shown["meta"]["token"] != "t0p"
    assert [(b["id"], b["counts"]) for b in shown["within"]] == [(str(inner.id), {"cancelled": 1})]
    text = run("batches", str(outer.id))
    assert f"within it: {inner.id} failed pages 1/1" in text and "\x1b" not in text and "t0p" not in text
    with pytest.raises(CommandError, match="There is no batch"):
        run("batches", str(uuid4()))
