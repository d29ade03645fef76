"""Workers: which are alive, what they take jobs from and what each one runs now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from django_stampeded import actions, insights
from django_stampeded.admin.job_page import pretty
from django_stampeded.admin.pages import FixedChangeList, ReadingAdmin
from django_stampeded.conf import settings
from django_stampeded.models import Worker

JOBS_SHOWN = 10


class WorkerChangeList(FixedChangeList):
    """Workers with the jobs that they hold, which one statement gets for the whole page."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        attach_running(self.result_list, self.alias)


class WorkerAdmin(ReadingAdmin):
    """The workers. One is started where it runs, and can be asked to stop from here."""

    change_form_template = "stampeded/admin/worker.html"
    actions = ("stop_workers",)

    list_display = ("name", "is_alive", "served", "running_jobs", "notifications", "beat", "started_at", "stop_requested_at")
    ordering = ("-last_heartbeat", "-id")
    fields = (
        "id", "name", "is_alive", "served", "running_jobs", "started_at", "last_heartbeat", "stop_requested_at", "details",
    )  # fmt: skip
    readonly_fields = fields

    def get_urls(self) -> list[URLPattern]:
        stop = self.admin_site.admin_view(self.stop_view)
        return [path("<uuid:worker_id>/stop/", stop, name="stampeded_worker_stop"), *super().get_urls()]

    def has_stop_permission(self, request: HttpRequest) -> bool:
        return self.allows(request, "stop_worker")

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        context = {"may_stop": self.has_stop_permission(request), **(extra_context or {})}
        return super().change_view(request, object_id, form_url, context)

    def stop_view(self, request: HttpRequest, worker_id: UUID) -> HttpResponse:
        """Asks one worker to stop."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.has_stop_permission(request):
            raise PermissionDenied
        self._ask_to_stop(request, [worker_id])
        return HttpResponseRedirect(reverse("admin:stampeded_worker_changelist", current_app=self.admin_site.name))

    @admin.action(description=_("Ask selected workers to stop"), permissions=["stop"])
    def stop_workers(self, request: HttpRequest, queryset: QuerySet[Worker]) -> None:
        self._ask_to_stop(request, list(queryset.order_by("pk").values_list("pk", flat=True)))

    def _ask_to_stop(self, request: HttpRequest, ids: Sequence[UUID]) -> None:
        asked = sum(actions.stop_worker(each, actor=self.actor(request), using=self.alias) for each in ids)
        words = ngettext(
            "%(count)d worker is asked to stop: it claims no more and ends when its jobs have.",
            "%(count)d workers are asked to stop: they claim no more and end when their jobs have.",
            asked,
        )
        self.message_user(request, words % {"count": asked}, messages.SUCCESS if asked else messages.WARNING)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return WorkerChangeList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Worker]:
        return insights.with_liveness(super().get_queryset(request))

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Worker | None:
        worker: Worker | None = super().get_object(request, object_id, from_field)
        if worker is not None:
            attach_running([worker], self.alias)
        return worker

    @admin.display(description=_("worker"))
    def name(self, worker: Worker) -> str:
        return f"{worker.hostname}:{worker.pid}"

    @admin.display(description=_("alive"), boolean=True)
    def is_alive(self, worker: Any) -> bool:
        return bool(worker.alive)

    @admin.display(description=_("queues"))
    def served(self, worker: Worker) -> str:
        return ", ".join(worker.queues) or "—"

    @admin.display(description=_("notifications"))
    def notifications(self, worker: Worker) -> str:
        return insights.notifications_of(worker) or "—"

    @admin.display(description=_("runs"))
    def running_jobs(self, worker: Any) -> SafeString | str:
        if not worker.running:
            return "—"
        shown = ((self.link("job_change", job.task, job.id),) for job in worker.running[:JOBS_SHOWN])
        more = len(worker.running) - JOBS_SHOWN
        rest = gettext("and %(count)d more") % {"count": more} if more > 0 else ""
        return format_html("{} {}", format_html_join(", ", "{}", shown), rest)

    @admin.display(description=_("last heartbeat"))
    def beat(self, worker: Worker) -> str:
        return gettext("%(age)s ago") % {"age": insights.in_words(timezone.now() - worker.last_heartbeat)}

    @admin.display(description=_("metadata"))
    def details(self, worker: Worker) -> SafeString:
        return format_html("<pre>{}</pre>", pretty(insights.Redactor(settings.REDACT).value(worker.metadata)))


def attach_running(workers: list[Any], alias: str) -> None:
    """Notes on each worker the jobs that it holds."""
    held = insights.running_by_worker([worker.pk for worker in workers], alias)
    for worker in workers:
        worker.running = held.get(worker.pk, [])
