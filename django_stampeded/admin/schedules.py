"""Schedules: what runs when; making, changing, pausing and deleting them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect, JsonResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from django_stampeded import insights
from django_stampeded.actions import delete_schedule, pause_schedule, run_schedule, save_schedule
from django_stampeded.admin.job_page import pretty
from django_stampeded.admin.pages import ReadingAdmin, quote_name
from django_stampeded.admin.schedule_form import COLUMNS, ScheduleForm
from django_stampeded.conf import settings
from django_stampeded.exceptions import InvalidSchedule
from django_stampeded.models import Schedule
from django_stampeded.timing import Timing, timing


class ScheduleAdmin(ReadingAdmin):
    """Schedules. A change writes only the columns that it changes, so that it undoes nothing of the scheduler's."""

    form = ScheduleForm
    list_display = ("key", "task", "queue", "timing", "timezone", "next_run_at", "last_run_at", "running", "problem")
    ordering = ("key",)
    actions = ("run_schedules", "pause_schedules", "resume_schedules")
    readonly_fields = ("next_run_at", "last_run_at", "last_job", "running", "problem", "upcoming", "last_runs", "job_options")
    add_form_template = change_form_template = "stampeded/admin/schedule.html"

    class Media:
        js = ("stampeded/schedule.js",)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.preview_view)
        return [path("preview/", view, name="stampeded_schedule_preview"), *super().get_urls()]

    def preview_view(self, request: HttpRequest) -> HttpResponse:
        """The next times of the timing in the query, as JSON, or the sentence that saving it would be refused with."""
        if not (self.has_add_permission(request) or self.has_change_permission(request)):
            raise PermissionDenied
        if request.method not in {"GET", "HEAD"}:
            return HttpResponseNotAllowed(["GET", "HEAD"])
        try:
            when = timing_of(request.GET)
            times = insights.upcoming(when, timezone.now())
        except InvalidSchedule as error:
            return JsonResponse({"error": str(error)})
        return JsonResponse({"times": [{"at": time.text, "mark": time.mark} for time in times]})

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        schedule = kwargs.get("obj")
        may_write = self.has_add_permission(request) if schedule is None else self.has_change_permission(request, schedule)
        address = reverse("admin:stampeded_schedule_preview", current_app=self.admin_site.name)
        context["preview_url"] = address if may_write else ""
        context["runs_and_pauses"] = self._buttons(request, schedule) if schedule is not None else []
        return super().render_change_form(request, context, *args, **kwargs)

    def _buttons(self, request: HttpRequest, schedule: Schedule) -> list[tuple[str, str]]:
        """The list's actions, for this one schedule."""
        found = [("run_schedules", gettext("Run now"))] if self.has_run_permission(request) else []
        if self.has_pause_permission(request):
            paused = ("resume_schedules", gettext("Resume")) if schedule.paused else ("pause_schedules", gettext("Pause"))
            found.append(paused)
        return found

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Schedule], *args: Any, **more: Any
    ) -> HttpResponse | None:  # Django 6.1 says more than 5.2 does
        done = super().response_action(request, queryset, *args, **more)
        if request.POST.get("from_page") and isinstance(done, HttpResponseRedirect):
            key = quote_name(request.POST.get("_selected_action", ""))
            name = "admin:stampeded_schedule_change"
            return HttpResponseRedirect(reverse(name, args=[key], current_app=self.admin_site.name))
        return done

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
            times = insights.upcoming(schedule.timing, timezone.now(), schedule.next_run_at)
        except InvalidSchedule as error:
            return str(error)
        rows = ((time.text, f" — {time.mark}" if time.mark else "") for time in times)
        return format_html("<ul>{}</ul>", format_html_join("", "<li>{}{}</li>", rows))

    @admin.display(description=_("last runs"))
    def last_runs(self, schedule: Schedule) -> SafeString | str:
        runs = insights.last_runs(schedule.pk, self.alias)
        rows = (
            (
                run.at.astimezone(timezone.get_current_timezone()).isoformat(sep=" ", timespec="seconds"),
                self.job_link(run.job_id) if run.job_id else run.skipped,
                run.state,
            )
            for run in runs
        )
        return format_html("<ul>{}</ul>", format_html_join("", "<li>{} {} {}</li>", rows)) if runs else "—"

    @admin.display(description=_("last job"))
    def last_job(self, schedule: Schedule) -> SafeString | str:
        return self.job_link(schedule.last_job_id)

    @admin.display(description=_("arguments"))
    def arguments(self, schedule: Schedule) -> SafeString:
        return _json(schedule.args)

    @admin.display(description=_("options of its jobs"))
    def job_options(self, schedule: Schedule) -> SafeString:
        return _json(schedule.options)


def timing_of(given: Any) -> Timing:
    """The timing in the fields of a form that is being filled in. Raises InvalidSchedule with what is wrong."""
    seconds = given.get("interval_secs", "").strip()
    try:
        every = int(seconds[:20]) if seconds else None
    except ValueError:
        raise InvalidSchedule(gettext("An interval is a whole number of seconds.")) from None
    expression = given.get("cron_expr", "").strip() or None
    return timing(expression, every, given.get("timezone", "").strip(), given.get("dst_policy") or None)


def _json(value: Any) -> SafeString:
    return format_html("<pre>{}</pre>", pretty(insights.Redactor(settings.REDACT).value(value)))
