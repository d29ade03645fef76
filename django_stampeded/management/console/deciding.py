"""`policy`, `limit`, `breakers` and `index-arguments`: what operators decide, shown and changed, through `actions`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import Any

from django.core.management.base import CommandError

from django_stampeded import actions, insights
from django_stampeded.management.console.acting import whoever
from django_stampeded.management.console.printing import Answer, plain, table
from django_stampeded.models import QueueLimit, QueuePolicy

_KEPT = ("completed", "discarded", "cancelled")


def policy(alias: str, options: dict[str, Any]) -> Answer:
    """The policies, or one of them; changes that one before, where told to."""
    changes = _limits(options)
    wait: timedelta | str | None = options["max_wait"]
    if wait is not None:
        changes["max_wait_secs"] = int(wait.total_seconds()) if isinstance(wait, timedelta) else None
    if options["fair"] is not None:
        changes["fair_tenants"] = options["fair"] == "yes"
    for state in _KEPT:
        kept: timedelta | str | None = options[f"keep_{state}"]
        if kept is not None:
            changes[f"keep_{state}_secs"] = int(kept.total_seconds()) if isinstance(kept, timedelta) else None
    if changes:
        if options["queue"] is None:
            raise CommandError("No queue is named: say whose policy is to change.")
        _do(actions.change_policy, options["queue"], changes, alias)
    found = QueuePolicy.objects.using(alias).order_by("queue")
    if options["queue"] is not None:
        found = found.filter(pk=options["queue"])
    data = [{name: getattr(row, name) for name in ("queue", *actions.POLICY, "paused_at", "paused_until")} for row in found]
    rows = [
        [row.queue, row.max_running, _rate(row), row.max_wait_secs, "yes" if row.fair_tenants else "",
         *(getattr(row, f"keep_{state}_secs") for state in _KEPT)]
        for row in found
    ]  # fmt: skip
    headings = ["queue", "max. running", "rate", "max. wait (s)", "fair", *(f"keep {state} (s)" for state in _KEPT)]
    return Answer({"policies": data}, table(headings, rows, "There is no policy."))


def limit(alias: str, options: dict[str, Any]) -> Answer:
    """The limits of tenants, destinations and keys in queues; changes one before, where told to."""
    changes: dict[str, Any] = dict.fromkeys(("max_running", "rate_limit", "rate_period_secs")) if options["remove"] else {}
    changes |= _limits(options)
    if changes:
        if options["queue"] is None or options["scope"] is None:
            raise CommandError("No limit is named: give the queue and tenant, destination or key.")
        _do(actions.change_limit, options["queue"], options["scope"], options["value"], changes, alias)
    found = QueueLimit.objects.using(alias).order_by("queue_id", "scope", "value")
    if options["queue"] is not None:
        found = found.filter(queue_id=options["queue"])
    names = ("queue_id", "scope", "value", "max_running", "rate_limit", "rate_period_secs")
    data = [{name.removesuffix("_id"): getattr(row, name) for name in names} for row in found]
    rows = [[row.queue_id, row.scope, row.value or "each", row.max_running, _rate(row)] for row in found]
    text = table(["queue", "of", "which", "max. running", "rate"], rows, "There is no limit.")
    return Answer({"limits": data}, text)


def breakers(alias: str, options: dict[str, Any]) -> Answer:
    """The circuit breakers; trips or resets one before, where told to."""
    act, kind, key = options["act"], options["kind"], options["key"]
    if act is not None and key is None:
        raise CommandError("No breaker is named: give destination or task, and which one.")
    if act == "trip":
        _do(partial(actions.trip_breaker, reason=options["reason"], until=options["until"]), kind, key, alias)
    elif act == "reset" and not _do(actions.reset_breaker, kind, key, alias):
        raise CommandError(f"There is no breaker of {kind} “{plain(key)}” in database “{alias}”: see `stampeded breakers`.")
    found = insights.breakers(alias, options["limit"])
    rows = [
        [b.kind, b.key, b.state, b.failures, b.openings, b.retry_in or ("" if b.state == "closed" else "now" if b.retry_at else
         "when reset"), b.reason] for b in found
    ]  # fmt: skip
    headings = ["of", "named", "state", "failures", "openings", "next probe in", "because"]
    data = [asdict(breaker) for breaker in found]
    return Answer({"breakers": data}, table(headings, rows, "No breaker has had anything to do."))


def index_arguments(alias: str, options: dict[str, Any]) -> Answer:
    """Builds the index that serves searches by an argument, or removes it."""
    _do(actions.drop_arguments_index if options["remove"] else actions.index_arguments, alias)
    indexed = insights.arguments_are_indexed(alias)
    return Answer({"indexed": indexed}, "Arguments are indexed." if indexed else "Arguments are not indexed.")


def _limits(options: dict[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if options["max_running"] is not None:
        changes["max_running"] = None if options["max_running"] == "none" else options["max_running"]
    if options["rate"] is not None:
        changes["rate_limit"], changes["rate_period_secs"] = (None, None) if options["rate"] == "none" else options["rate"]
    return changes


def _do(act: Any, *arguments: Any) -> Any:
    *given, alias = arguments
    try:
        return act(*given, actor=whoever(), using=alias)
    except ValueError as error:
        raise CommandError(str(error)) from None


def _rate(row: QueuePolicy | QueueLimit) -> str:
    return "" if row.rate_limit is None else f"{row.rate_limit} in {row.rate_period_secs} s"
