"""The subcommands that only look, from stats and list to health and schema. All facts come from `insights`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError
from django.db import connections
from django.utils import timezone

from django_stampeded import functions, insights, schema
from django_stampeded.exceptions import SchemaMismatch, ServerTooOld
from django_stampeded.management.console.printing import Answer, as_json, plain, table
from django_stampeded.models import Job
from django_stampeded.states import FINAL, RUNNING, State


def stats(alias: str, options: dict[str, Any]) -> Answer:
    """Every queue: jobs by state, the age of the oldest due job, workers, pause."""
    found = insights.queues(alias)
    rows = [[q.queue, *q.by_state, q.oldest_words, q.live_workers, "paused" if q.paused else _advice(q)] for q in found]
    headings = ["queue", *(state.value for state in State), "oldest due", "workers", ""]
    data = [
        {
            "queue": q.queue,
            "counts": {state.value: q.counts.get(state, 0) for state in State},
            "oldest_due": q.oldest_due,
            "oldest_age_seconds": None if q.oldest_age is None else q.oldest_age.total_seconds(),
            "live_workers": q.live_workers,
            "paused_at": q.paused_at,
            "paused_reason": q.paused_reason,
            "paused_until": q.paused_until,
            "max_running": q.max_running,
            "verdict": q.verdict,
            "verdict_reason": q.verdict_reason,
        }
        for q in found
    ]
    return Answer({"queues": data}, table(headings, rows, "There are no jobs."))


def _advice(queue: insights.QueueStatus) -> str:
    return "" if queue.verdict == "steady" else f"{queue.verdict}: {queue.verdict_reason}"


def list_jobs(alias: str, options: dict[str, Any]) -> Answer:
    """The newest jobs of a selection."""
    found = insights.page(selection(options), alias, size=options["limit"])
    jobs = found.jobs
    rows = [
        [job.pk, job.state, job.queue, job.task, f"{job.attempt}/{job.max_attempts}", _when(job), job.failure_kind]
        for job in jobs
    ]
    text = table(["id", "state", "queue", "task", "attempt", "when", "failure"], rows, "No job matches.")
    if found.searched is not None:
        text += f"\nLooked for among {found.searched} jobs; add --state or --queue to look further back."
        if selection(options).arguments and not insights.arguments_are_indexed(alias):
            text += "\n`stampeded index-arguments` builds an index that finds arguments among all jobs."
    data = {"total": found.total, "searched": found.searched, "jobs": [_brief(job) for job in jobs]}
    return Answer(data, text)


def show(alias: str, options: dict[str, Any]) -> Answer:
    """One job: facts, why it is not running, errors."""
    job = insights.find(options["id"], options["queue"], alias)
    if job is None:
        raise CommandError(f"There is no job {options['id']} in database “{alias}”: check the id, or it has been pruned.")
    facts = insights.facts(job, alias)
    data = asdict(facts)
    why = data.pop("why")
    errors = data.pop("errors")
    told = {**data, "progress": facts.progress and facts.progress.words}
    lines = [f"{name}: {_shown(value)}" for name, value in told.items() if value not in (None, "", {}, [])]
    lines += ["why is it not running:", *(f"  {reason['text']}" for reason in why)]
    if errors:
        lines += ["failures, newest first:", *(f"  {_error_line(entry)}" for entry in errors)]
    return Answer({**data, "why": why, "errors": errors}, plain("\n".join(lines)))


def errors(alias: str, options: dict[str, Any]) -> Answer:
    """Failed jobs grouped by what went wrong."""
    found = insights.error_clusters(options["queue"], alias)
    rows = [[c.jobs, c.summary, ", ".join(c.tasks), ", ".join(c.queues), c.fingerprint[:16]] for c in found.clusters]
    text = table(["jobs", "error", "tasks", "queues", "fingerprint"], rows, "No job is failing.")
    if not found.complete:
        text += f"\nThe newest {found.examined} failed jobs were looked at; there are more."
    return Answer(asdict(found), text)


def batches(alias: str, options: dict[str, Any]) -> Answer:
    """The newest batches, or all about the one named."""
    if options["id"] is not None:
        return _batch(alias, options["id"])
    found = insights.batches(options["limit"], unfinished=options["unfinished"], using=alias)
    rows = [
        [b.id, b.stage, b.name, f"{b.ended}/{b.jobs}", _failed(b), b.created_at.isoformat(timespec="seconds")] for b in found
    ]
    text = table(["id", "stage", "name", "ended", "failed", "created"], rows, "There are no batches.")
    return Answer({"batches": [_batch_data(b) for b in found]}, text)


def _batch(alias: str, id: UUID) -> Answer:
    found = insights.batch(id, alias)
    if found is None:
        raise CommandError(f"There is no batch {id} in database “{alias}”: check the id, or it has been pruned.")
    data = {**_batch_data(found.status), "callbacks": found.callbacks, "meta": found.meta}
    lines = [f"{name}: {_shown(value)}" for name, value in data.items() if value not in (None, "", {}, [])]
    lines += [f"within it: {b.id} {b.stage} {b.name} {b.ended}/{b.jobs}" for b in found.within]
    return Answer({**data, "within": [_batch_data(b) for b in found.within]}, plain("\n".join(lines)))


def _batch_data(batch: insights.BatchStatus) -> dict[str, Any]:
    return {**asdict(batch), "stage": batch.stage, "jobs": batch.jobs, "ended": batch.ended}


def _failed(batch: insights.BatchStatus) -> int:
    return batch.counts.get(State.DISCARDED, 0) + batch.counts.get(State.CANCELLED, 0)


def workers(alias: str, options: dict[str, Any]) -> Answer:
    """Every worker and what it runs."""
    found = insights.workers(alias)
    now = timezone.now()
    rows = [
        [
            w.id,
            f"{w.hostname}:{w.pid}",
            "alive" if w.alive else "silent",
            ", ".join(w.queues),
            len(w.running),
            insights.in_words(now - w.last_heartbeat),
        ]
        for w in found
    ]
    text = table(["id", "worker", "", "queues", "runs", "last heartbeat"], rows, "No worker is registered.")
    return Answer({"workers": [asdict(w) for w in found]}, text)


def health(alias: str, options: dict[str, Any]) -> Answer:
    """0 when all is well, 1 when something needs a person: fit for a probe."""
    findings = insights.health(timedelta(seconds=options["max_wait"]), alias)
    trouble = any(finding.level == "trouble" for finding in findings)
    lines = [f"{finding.level}: {finding.text}" for finding in findings] or ["All is well."]
    data = {"ok": not trouble, "findings": [asdict(finding) for finding in findings]}
    return Answer(data, plain("\n".join(lines)), exit_code=int(trouble))


def schema_state(alias: str, options: dict[str, Any]) -> Answer:
    """Which SQL schema is installed and which this code needs; 1 when they do not fit."""
    data: dict[str, Any] = {"needed": schema.SCHEMA_VERSION, "installed": None, "problem": ""}
    with connections[alias].cursor() as cursor:
        try:
            schema.check_schema(cursor)
        except (SchemaMismatch, ServerTooOld) as error:
            data["problem"] = str(error)
            return Answer(data, str(error), exit_code=1)
        data["installed"] = functions.schema_version(cursor)
    return Answer(data, f"Schema version {data['installed']} is installed, which this code can use.")


def selection(options: dict[str, Any]) -> insights.Selection:
    """The jobs that the options --queue, --state, --task, --kind, --error, --batch and --search mean."""
    return insights.Selection(
        queue=options["queue"] or "",
        state=options["state"] or "",
        task=options["task"] or "",
        failure_kind=options["kind"] or "",
        fingerprint=options["error"] or "",
        batch=str(options["batch"] or ""),
        text=options["search"] or "",
    )


def _brief(job: Job) -> dict[str, Any]:
    names = ("id", "queue", "task", "state", "priority", "attempt", "max_attempts", "failure_kind")
    times = ("inserted_at", "scheduled_at", "claimed_at", "finished_at")
    return {name: getattr(job, name) for name in (*names, *times)}


def _when(job: Job) -> str:
    now = timezone.now()
    if job.state in FINAL:
        return "" if job.finished_at is None else f"{insights.in_words(now - job.finished_at)} ago"
    if job.state in RUNNING:
        return "" if job.claimed_at is None else f"for {insights.in_words(now - job.claimed_at)}"
    if job.scheduled_at > now:
        return f"in {insights.in_words(job.scheduled_at - now)}"
    return f"due for {insights.in_words(now - job.scheduled_at)}"


def _shown(value: Any) -> str:
    return as_json(value) if isinstance(value, dict | list) else str(value)


def _error_line(entry: dict[str, Any]) -> str:
    times = f" ×{entry['count']}" if entry["count"] > 1 else ""
    return f"{entry['at']} attempt {entry['attempt']} {entry['kind']}{times}: {entry['summary']}"
