"""The filters beside the list of jobs: their entries come from counts, settings or a bounded look, never from the table.

They only say what was chosen; the list turns all of them together into one `insights.Selection`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib.admin import SimpleListFilter
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_stampeded import insights
from django_stampeded.states import FailureKind, State

ENTRIES = 50
LONGEST_ENTRY = 60


def counts_of(request: HttpRequest, alias: str) -> dict[str, dict[str, int]]:
    """Jobs by queue and state, read once for a request."""
    known: dict[str, dict[str, int]] | None = getattr(request, "_stampeded_counts", None)
    if known is None:
        known = insights.counts_by_queue(alias)
        request._stampeded_counts = known  # type: ignore[attr-defined]
    return known


class JobFilter(SimpleListFilter):
    """A choice of one value; a value that is not on offer, from a link, holds all the same."""

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        self.alias: str = model_admin.alias
        super().__init__(request, params, model, model_admin)

    def entries(self, request: HttpRequest) -> Iterator[tuple[str, object]]:
        """(value, words) of each entry."""
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        offered = list(self.entries(request))[:ENTRIES]
        chosen = self.value()
        if chosen and chosen not in {value for value, _words in offered}:
            offered.insert(0, (chosen, _short(chosen)))
        return offered

    def has_output(self) -> bool:
        return bool(self.lookup_choices)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset


class StateFilter(JobFilter):
    title = _("state")
    parameter_name = "state"

    def entries(self, request: HttpRequest) -> Iterator[tuple[str, object]]:
        counts = counts_of(request, self.alias)
        for state in State:
            yield state.value, f"{state.value} ({insights.total(counts, state=state)})"


class QueueFilter(JobFilter):
    title = _("queue")
    parameter_name = "queue"

    def entries(self, request: HttpRequest) -> Iterator[tuple[str, object]]:
        counts = counts_of(request, self.alias)
        largest = sorted(counts, key=lambda queue: (-sum(counts[queue].values()), queue))[:ENTRIES]
        for queue in sorted(largest):
            yield queue, f"{_short(queue)} ({sum(counts[queue].values())})"


class TaskFilter(JobFilter):
    title = _("task")
    parameter_name = "task"

    def entries(self, request: HttpRequest) -> Iterator[tuple[str, object]]:
        for task in insights.recent_tasks(self.alias):
            yield task, _short(task)


class TenantFilter(JobFilter):
    title = _("tenant")
    parameter_name = "tenant"

    def entries(self, request: HttpRequest) -> Iterator[tuple[str, object]]:
        for tenant in insights.recent_tenants(self.alias):
            yield tenant, _short(tenant)


class SinceFilter(JobFilter):
    """Also takes a moment in ISO 8601 from a link."""

    title = _("time")
    parameter_name = "since"

    def entries(self, request: HttpRequest) -> Iterator[tuple[str, object]]:
        yield "15m", _("last 15 minutes")
        yield "1h", _("last hour")
        yield "24h", _("last 24 hours")
        yield "7d", _("last 7 days")


class UntilFilter(JobFilter):
    """Chosen by a link; shown only while it is in force."""

    title = _("until")
    parameter_name = "until"

    def entries(self, request: HttpRequest) -> Iterator[tuple[str, object]]:
        return iter(())


class FailureKindFilter(JobFilter):
    title = _("failure")
    parameter_name = "failure_kind"

    def entries(self, request: HttpRequest) -> Iterator[tuple[str, object]]:
        for kind in FailureKind:
            yield kind.value, kind.value


class FingerprintFilter(JobFilter):
    """Chosen from the page of errors; shown only while it is in force."""

    title = _("same error")
    parameter_name = "fingerprint"

    def entries(self, request: HttpRequest) -> Iterator[tuple[str, object]]:
        return iter(())


class BatchFilter(JobFilter):
    """Chosen from a batch's page; shown only while it is in force."""

    title = _("batch")
    parameter_name = "batch"

    def entries(self, request: HttpRequest) -> Iterator[tuple[str, object]]:
        return iter(())


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_ENTRY else f"{text[:LONGEST_ENTRY]}…"
