"""The subcommands that change something, all through `actions`: the same acts, audit and sentences as in the admin.

What touches more than the jobs named one by one says how many and in which database, and wants a yes.
"""

from __future__ import annotations

import getpass
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError
from django.db import connections

from django_stampeded import actions, insights
from django_stampeded.conf import settings
from django_stampeded.management.console.printing import Answer, plain, table
from django_stampeded.management.console.reading import selection
from django_stampeded.models import ALL_QUEUES, Job, Schedule

BATCH = 500


def on_jobs(action: str) -> Callable[[str, dict[str, Any]], Answer]:
    """The subcommand that does this action to the jobs named, or with --all to those selected."""

    def run(alias: str, options: dict[str, Any]) -> Answer:
        extra = {name: options[name] for name in ("reason", "to") if options.get(name)}
        if not options["all"]:
            if not options["ids"]:
                raise CommandError("No job is named: give ids, or --all with the options that select jobs.")
            return _report(action, _on_named(action, alias, options, extra))
        if options["ids"]:
            raise CommandError("Both ids and --all are given: leave one of them out.")
        return _report(action, _on_selected(action, alias, options, extra))

    return run


def pause(alias: str, options: dict[str, Any]) -> Answer:
    """Stops claims from a queue, or from all."""
    return _switch(alias, options, "paused", lambda queue: actions.pause(
        queue, actor=whoever(), reason=options["reason"] or "", until=options["until"], using=alias
    ))  # fmt: skip


def resume(alias: str, options: dict[str, Any]) -> Answer:
    """Lets a queue be claimed from again, or ends the pause of all."""
    return _switch(alias, options, "resumed", lambda queue: actions.resume(queue, actor=whoever(), using=alias))


def cron(alias: str, options: dict[str, Any]) -> Answer:
    """Lists the schedules; runs, pauses or resumes one before that."""
    for key, paused in ((options["pause"], True), (options["resume"], False)):
        if key and not actions.pause_schedule(key, paused, actor=whoever(), using=alias):
            raise CommandError(f"There is no schedule “{plain(key)}” in database “{alias}”: see `stampeded cron`.")
    if options["run"] and actions.run_schedule(options["run"], actor=whoever(), using=alias) is None:
        raise CommandError(
            f"Schedule “{plain(options['run'])}” was not run: there is none in database “{alias}”, "
            "or another job holds its dedup scope; see `stampeded cron`."
        )
    found = list(Schedule.objects.using(alias).order_by("key")[: options["limit"]])
    names = ("key", "task", "queue", "cron_expr", "interval_secs", "timezone", "next_run_at", "last_run_at", "paused",
             "set_aside_reason")  # fmt: skip
    data = [{name: getattr(schedule, name) for name in names} for schedule in found]
    rows = [
        [s.key, s.task, s.queue, s.cron_expr or f"every {insights.in_words(s.interval_secs or 0)}", s.timezone,
         s.next_run_at.isoformat(timespec="seconds"), "paused" if s.paused else "", s.set_aside_reason]
        for s in found
    ]  # fmt: skip
    headings = ["key", "task", "queue", "runs", "zone", "next run", "", "set aside because"]
    return Answer({"schedules": data}, table(headings, rows, "There are no schedules."))


def prune(alias: str, options: dict[str, Any]) -> Answer:
    """Deletes finished jobs that are old enough."""
    completed = _age(options["completed_older_than"], settings.COMPLETED_RETENTION)
    failed = _age(options["failed_older_than"], settings.DISCARDED_RETENTION)
    _confirm(
        f"Delete completed jobs older than {insights.in_words(completed)} and discarded and cancelled ones older than "
        f"{insights.in_words(failed)}", alias, options,
    )  # fmt: skip
    pruned = actions.prune(completed, failed, actor=whoever(), using=alias)
    return Answer({"pruned": pruned}, f"{pruned} jobs pruned.")


def whoever() -> actions.Actor:
    """Who runs the command, for the audit."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):
        user = "unknown"
    return actions.Actor(f"{user}@{socket.gethostname()}", via="command")


def _on_named(action: str, alias: str, options: dict[str, Any], extra: dict[str, Any]) -> actions.BulkReport:
    if action == "delete":
        _confirm(f"Delete {len(options['ids'])} jobs", alias, options)
    found = dict(_queues_of(options["ids"], options["queue"], alias))
    pairs = [(found[job_id], job_id) for job_id in options["ids"] if job_id in found]
    report = actions.on_each(action, pairs, actor=whoever(), seconds=float("inf"), using=alias, **extra)
    for job_id in options["ids"]:
        if job_id not in found:
            report.add(actions.Outcome(options["queue"] or "", job_id, False, reason="there is no such job"))
    return report


def _queues_of(ids: list[UUID], queue: str | None, alias: str) -> list[tuple[UUID, str]]:
    jobs = Job.objects.using(alias).filter(pk__in=ids)
    return list((jobs.filter(queue=queue) if queue else jobs).values_list("id", "queue"))


def _on_selected(action: str, alias: str, options: dict[str, Any], extra: dict[str, Any]) -> actions.BulkReport:
    """Batch after batch until nothing is left that the action goes for; it may be stopped and started again."""
    chosen = selection(options)
    if chosen == insights.Selection():
        raise CommandError("--all alone would mean every job: add --queue, --state, --task, --kind, --error or --search.")
    meant = actions.group(action, chosen, extra)
    found = insights.number(meant, alias)
    number = f"{found.jobs}" if found.exact else f"more than {found.jobs}"
    _confirm(f"{action.replace('_', ' ').capitalize()} {number} jobs", alias, options)
    whole, position = actions.BulkReport(), ""
    while True:
        some = insights.portion(meant, alias, position=position, size=BATCH)
        whole.merge(actions.on_portion(action, some.jobs, actor=whoever(), using=alias, **_complete(action, extra)))
        position = some.position
        if not position:
            return whole


def _complete(action: str, extra: dict[str, Any]) -> dict[str, Any]:
    name = actions.PARAMETER_OF.get(action)
    return {name: extra.get(name, "")} if name else {}


def _report(action: str, report: actions.BulkReport) -> Answer:
    lines = [f"{action}: {report.done} done, {report.skipped} skipped."]
    lines += [f"  {skip.id} skipped: {skip.reason}" for skip in report.skips]
    data = {"action": action, **asdict(report)}
    return Answer(data, plain("\n".join(lines)), exit_code=int(report.skipped > 0))


def _switch(alias: str, options: dict[str, Any], done: str, act: Callable[[str], None]) -> Answer:
    if options["all"] == (options["queue"] is not None):
        raise CommandError("Name one queue, or give --all for all of them.")
    queue = ALL_QUEUES if options["all"] else options["queue"]
    try:
        act(queue)
    except ValueError as error:
        raise CommandError(str(error)) from None
    text = f"All queues are {done}." if options["all"] else f"Queue “{queue}” is {done}."
    return Answer({"queue": queue, done: True}, plain(text))


def _confirm(what: str, alias: str, options: dict[str, Any]) -> None:
    """Asks before anything that touches many jobs; refuses to guess the database where several could be meant."""
    candidates = sorted(name for name in connections if connections[name].vendor == "postgresql")
    if len(candidates) > 1 and not options["database"]:
        raise CommandError(
            f"Several PostgreSQL databases are configured ({', '.join(candidates)}): name the one meant with --database."
        )
    if options["yes"]:
        return
    name = connections[alias].settings_dict["NAME"]
    question = f"{what} in database “{alias}” ({name})?"
    if not sys.stdin.isatty():
        raise CommandError(f"{question} Nothing was done: add --yes to do it without being asked.")
    if input(f"{question} [y/N] ").strip().lower() not in {"y", "yes"}:
        raise CommandError("Nothing was done.")


def _age(given: timedelta | None, default: float) -> timedelta:
    return timedelta(seconds=default) if given is None else given
