"""Run as a script: walks the whole admin and the command line of the project in settings.py and prints what went wrong."""

from __future__ import annotations

import io
import sys

import django

django.setup()

from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.test import Client  # noqa: E402
from django.urls import reverse  # noqa: E402

from django_stampeded.models import AuditEntry, Job, QueuePolicy, Schedule, Worker  # noqa: E402


def main() -> list[str]:
    call_command("check", stdout=io.StringIO())
    call_command("migrate", verbosity=0)
    root = User.objects.create_superuser("root")
    client = Client(raise_request_exception=False)
    client.force_login(root)
    failed = Job.objects.using("queue").create(queue="elsewhere", task="t", state="discarded", finished_at="2026-01-01T00:00Z")
    worker = Worker.objects.using("queue").create(hostname="n", pid=1, queues=["elsewhere"])
    Schedule.objects.using("queue").create(key="nightly", queue="elsewhere", task="t", interval_secs=60)
    wrong: list[str] = []

    def expect(what: str, got: object, wanted: object) -> None:
        if got != wanted:
            wrong.append(f"{what}: {got!r} instead of {wanted!r}")

    names = ("job_changelist", "job_errors", "queuepolicy_changelist", "queuepolicy_add", "worker_changelist")
    names += ("schedule_changelist", "cronoccurrence_changelist", "auditentry_changelist", "batch_changelist", "live")
    pages = [reverse(f"admin:stampeded_{name}") for name in names]
    pages.append(reverse("admin:app_list", args=["stampeded"]))
    pages.append(reverse("admin:stampeded_job_change", args=[failed.pk]))
    pages.append(reverse("admin:stampeded_job_history", args=[failed.pk]))
    pages.append(reverse("admin:stampeded_worker_change", args=[worker.pk]))
    pages.append(reverse("admin:stampeded_schedule_change", args=["nightly"]))
    pages.append(reverse("admin:stampeded_job_changelist") + "?queue=elsewhere&state=discarded&q=t")
    for page in pages:
        expect(page, client.get(page).status_code, 200)
    expect("retry", client.post(reverse("admin:stampeded_job_operate", args=[failed.pk, "retry"])).status_code, 302)
    expect("state", Job.objects.using("queue").get(pk=failed.pk).state, "available")
    listed = {"action": "cancel_jobs", "_selected_action": [str(failed.pk)], "index": "0"}
    expect("cancel", client.post(reverse("admin:stampeded_job_changelist"), listed).status_code, 302)
    expect("state", Job.objects.using("queue").get(pk=failed.pk).state, "cancelled")
    paused = {"action": "pause_schedules", "_selected_action": ["nightly"], "index": "0"}
    expect("pause", client.post(reverse("admin:stampeded_schedule_changelist"), paused).status_code, 302)
    expect("paused", Schedule.objects.using("queue").get(pk="nightly").paused, True)
    timed = {"task": "t", "queue": "elsewhere", "timezone": "UTC", "missed_policy": "once", "overlap_policy": "allow"}
    timed |= {"jitter_secs": "0", "priority": "0", "interval_secs": "60", "args": "{}", "key": "hourly"}
    expect("add schedule", client.post(reverse("admin:stampeded_schedule_add"), timed).status_code, 302)
    expect("add schedule again", client.post(reverse("admin:stampeded_schedule_add"), timed).status_code, 200)
    hourly = reverse("admin:stampeded_schedule_change", args=["hourly"])
    expect("change schedule", client.post(hourly, {**timed, "interval_secs": "3600"}).status_code, 302)
    expect("interval", Schedule.objects.using("queue").get(pk="hourly").interval_secs, 3600)
    gone = client.post(reverse("admin:stampeded_schedule_delete", args=["hourly"]), {"post": "yes"})
    expect("delete schedule", gone.status_code, 302)
    limits = {"queue": "elsewhere", "max_running": "3"}
    expect("add policy", client.post(reverse("admin:stampeded_queuepolicy_add"), limits).status_code, 302)
    expect("add policy again", client.post(reverse("admin:stampeded_queuepolicy_add"), limits).status_code, 200)
    change = reverse("admin:stampeded_queuepolicy_change", args=["elsewhere"])
    expect("change page", client.get(change).status_code, 200)
    expect("change policy", client.post(change, {"max_running": "4"}).status_code, 302)
    expect("limit", QueuePolicy.objects.using("queue").get(pk="elsewhere").max_running, 4)
    expect("switch", client.post(reverse("admin:stampeded_queue_pause"), {"queue": "elsewhere"}).status_code, 302)
    expect("stop", client.post(reverse("admin:stampeded_worker_stop", args=[worker.pk])).status_code, 302)
    for words in (["stats"], ["list"], ["show", str(failed.pk)], ["health"], ["schema"], ["resume", "elsewhere"]):
        try:
            call_command("stampeded", *words, stdout=io.StringIO())
        except SystemExit as ended:
            wrong.append(f"{words}: exit code {ended.code}")
    acts = list(AuditEntry.objects.using("queue").order_by("id").values_list("action", flat=True))
    wanted = ["retry", "cancel", "pause_schedule", "make_schedule", "change_schedule", "delete_schedule"]
    wanted += ["change_policy", "change_policy", "pause", "stop_worker", "resume"]
    expect("audit", acts, wanted)
    return wrong


if __name__ == "__main__":
    problems = main()
    print("\n".join(problems))
    sys.exit(bool(problems))
