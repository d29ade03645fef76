"""Two ledgers to read: what operators did, and which occurrences of schedules have fired."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from django_stampeded import actions, insights
from django_stampeded.admin.filters import ENTRIES, JobFilter
from django_stampeded.admin.pages import ReadingAdmin
from django_stampeded.conf import settings
from django_stampeded.models import AuditEntry, CronOccurrence, Schedule


def _having(queryset: QuerySet[Any], column: str, chosen: Any) -> QuerySet[Any]:
    """Those rows with what was chosen, if anything was; none where no row can hold it."""
    if not chosen:
        return queryset
    return queryset.none() if "\x00" in chosen else queryset.filter(**{column: chosen})


class ActionFilter(JobFilter):
    title = _("action")
    parameter_name = "action_taken"

    def entries(self, request: HttpRequest) -> Iterator[tuple[str, object]]:
        for name in actions.EVERY_ACTION:
            yield name, name

    def queryset(self, request: HttpRequest, queryset: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
        return _having(queryset, "action", self.value())


class ScheduleFilter(JobFilter):
    title = _("schedule")
    parameter_name = "schedule"

    def entries(self, request: HttpRequest) -> Iterator[tuple[str, object]]:
        for key in Schedule.objects.using(self.alias).order_by("pk").values_list("pk", flat=True)[:ENTRIES]:
            yield key, key

    def queryset(self, request: HttpRequest, queryset: QuerySet[CronOccurrence]) -> QuerySet[CronOccurrence]:
        return _having(queryset, "cron_key", self.value())


class AuditEntryAdmin(ReadingAdmin):
    """Who did what, newest first."""

    list_display = ("at", "actor", "action", "queue", "job", "details")
    list_filter = (ActionFilter,)
    search_fields = ("actor",)
    search_help_text = _("A user, a queue (both in full), or a job's id.")
    ordering = ("-id",)
    fields = ("at", "actor", "action", "queue", "job", "details")
    readonly_fields = fields

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[AuditEntry], search_term: str
    ) -> tuple[QuerySet[AuditEntry], bool]:
        term = search_term.strip()
        job_id = insights.parse_id(term)
        if job_id is not None:
            return queryset.filter(job_id=job_id), False
        if "\x00" in term:
            return queryset.none(), False
        return (queryset.filter(actor=term) | queryset.filter(queue=term)) if term else queryset, False

    @admin.display(description=_("job"))
    def job(self, entry: AuditEntry) -> SafeString | str:
        return self.job_link(entry.job_id)

    @admin.display(description=_("detail"))
    def details(self, entry: AuditEntry) -> str:
        return json.dumps(insights.Redactor(settings.REDACT).value(entry.detail), ensure_ascii=False)


class CronOccurrenceAdmin(ReadingAdmin):
    """Each firing of a schedule, newest first."""

    list_display = ("id", "schedule", "occurrence_token", "planned_at", "enqueued_at", "job", "skipped")
    list_filter = (ScheduleFilter,)
    ordering = ("-id",)
    fields = ("schedule", "occurrence_token", "planned_at", "enqueued_at", "job", "skipped")
    readonly_fields = fields

    @admin.display(description=_("schedule"))
    def schedule(self, occurrence: CronOccurrence) -> str:
        return occurrence.cron_key_id

    @admin.display(description=_("job"))
    def job(self, occurrence: CronOccurrence) -> SafeString | str:
        return self.job_link(occurrence.job_id)
