"""Schedules: what runs when, and pausing it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_stampeded import insights
from django_stampeded.actions import pause_schedule
from django_stampeded.admin.job_page import pretty
from django_stampeded.admin.pages import ReadingAdmin
from django_stampeded.conf import settings
from django_stampeded.models import Schedule


class ScheduleAdmin(ReadingAdmin):
    """Schedules to read, pause and resume."""

    list_display = ("key", "task", "queue", "timing", "timezone", "next_run_at", "last_run_at", "running", "problem")
    ordering = ("key",)
    actions = ("pause_schedules", "resume_schedules")
    fields = (
        "key", "task", "queue", "timing", "timezone", "dst_policy", "missed_policy", "overlap_policy", "jitter_secs",
        "next_run_at", "last_run_at", "last_job", "running", "problem", "tenant_id", "priority", "arguments", "job_options",
    )  # fmt: skip
    readonly_fields = fields

    def has_pause_permission(self, request: HttpRequest) -> bool:
        return self.allows(request, "change_schedule")

    @admin.action(description=_("Pause selected schedules"), permissions=["pause"])
    def pause_schedules(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        self._set_paused(request, queryset, True)

    @admin.action(description=_("Resume selected schedules"), permissions=["pause"])
    def resume_schedules(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        self._set_paused(request, queryset, False)

    def _set_paused(self, request: HttpRequest, queryset: QuerySet[Schedule], paused: bool) -> None:
        keys = list(queryset.order_by("pk").values_list("pk", flat=True))
        actor = self.actor(request)
        done = sum(pause_schedule(key, paused, actor=actor, using=self.alias) for key in keys)
        if paused:
            words = ngettext("%(count)d schedule was paused.", "%(count)d schedules were paused.", done)
        else:
            words = ngettext("%(count)d schedule was resumed.", "%(count)d schedules were resumed.", done)
        self.message_user(request, words % {"count": done}, messages.SUCCESS)

    @admin.display(description=_("runs"))
    def timing(self, schedule: Schedule) -> str:
        if schedule.cron_expr:
            return schedule.cron_expr
        return str(_("every %(length)s") % {"length": insights.in_words(schedule.interval_secs or 0)})

    @admin.display(description=_("active"), boolean=True)
    def running(self, schedule: Schedule) -> bool:
        return not schedule.paused

    @admin.display(description=_("set aside because"))
    def problem(self, schedule: Schedule) -> str:
        return schedule.set_aside_reason or "—"

    @admin.display(description=_("last job"))
    def last_job(self, schedule: Schedule) -> SafeString | str:
        return self.job_link(schedule.last_job_id)

    @admin.display(description=_("arguments"))
    def arguments(self, schedule: Schedule) -> SafeString:
        return _json(schedule.args)

    @admin.display(description=_("options of its jobs"))
    def job_options(self, schedule: Schedule) -> SafeString:
        return _json(schedule.options)


def _json(value: Any) -> SafeString:
    return format_html("<pre>{}</pre>", pretty(insights.Redactor(settings.REDACT).value(value)))
