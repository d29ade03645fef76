"""Schedules: what runs when; making, changing, pausing and deleting them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from django_stampeded import insights
from django_stampeded.actions import delete_schedule, pause_schedule, run_schedule, save_schedule
from django_stampeded.admin.job_page import pretty
from django_stampeded.admin.pages import ReadingAdmin
from django_stampeded.admin.schedule_form import COLUMNS, ScheduleForm
from django_stampeded.conf import settings
from django_stampeded.exceptions import InvalidSchedule
from django_stampeded.models import Schedule
from django_stampeded.timing import Timing

UPCOMING_SHOWN = 10


class ScheduleAdmin(ReadingAdmin):
    """Schedules. A change writes only the columns that it changes, so that it undoes nothing of the scheduler's."""

    form = ScheduleForm
    list_display = ("key", "task", "queue", "timing", "timezone", "next_run_at", "last_run_at", "running", "problem")
    ordering = ("key",)
    actions = ("run_schedules", "pause_schedules", "resume_schedules")
    readonly_fields = ("next_run_at", "last_run_at", "last_job", "running", "problem", "upcoming", "job_options")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("stampeded.add_schedule")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("stampeded.change_schedule")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("stampeded.delete_schedule")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return list(COLUMNS)
        # Who may only look sees the arguments with their secrets hidden; the form hides them by itself.
        shown = ["arguments" if name == "args" and not self.has_change_permission(request, obj) else name for name in COLUMNS]
        return [*shown, *self.readonly_fields]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return () if obj is None else ("key", "arguments", *self.readonly_fields)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        form.alias = self.alias
        return form

    def save_model(self, request: HttpRequest, obj: Schedule, form: Any, change: bool) -> None:
        for sentence in form.warnings:
            self.message_user(request, sentence, messages.WARNING)
        changes = form.changes()
        if changes or not change:
            save_schedule(obj.pk, changes, actor=self.actor(request), new=not change, using=self.alias)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        # Django's own would load the whole ledger of each to list it.
        return [str(schedule) for schedule in objs], {self.opts.verbose_name_plural: len(objs)}, set(), []

    def delete_model(self, request: HttpRequest, obj: Schedule) -> None:
        delete_schedule(obj.pk, actor=self.actor(request), using=self.alias)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        for key in list(queryset.values_list("pk", flat=True)):
            delete_schedule(key, actor=self.actor(request), using=self.alias)

    def has_pause_permission(self, request: HttpRequest) -> bool:
        return self.allows(request, "change_schedule")

    def has_run_permission(self, request: HttpRequest) -> bool:
        return self.allows(request, "run_schedule")

    @admin.action(description=_("Run selected schedules now"), permissions=["run"])
    def run_schedules(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        for key in list(queryset.order_by("pk").values_list("pk", flat=True)):
            job = run_schedule(key, actor=self.actor(request), using=self.alias)
            if job is None:
                words = gettext("Schedule “%(key)s” was not run: another job holds its dedup scope.") % {"key": key}
                self.message_user(request, words, messages.WARNING)
            else:
                words = gettext("Schedule “%(key)s” runs now: job") % {"key": key}
                self.message_user(request, format_html("{} {}", words, self.job_link(job)), messages.SUCCESS)

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

    @admin.display(description=_("next times"))
    def upcoming(self, schedule: Schedule) -> SafeString | str:
        try:
            when = Timing(schedule.cron_expr, schedule.interval_secs, schedule.timezone, schedule.dst_policy)
            moments = when.upcoming(UPCOMING_SHOWN, timezone.now(), schedule.next_run_at)
            local = [(moment.astimezone(when.zone).isoformat(sep=" ", timespec="seconds"),) for moment in moments]
        except InvalidSchedule as error:
            return str(error)
        return format_html("<ul>{}</ul>", format_html_join("", "<li>{}</li>", local))

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
