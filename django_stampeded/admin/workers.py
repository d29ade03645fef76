"""Workers: which are alive, what they take jobs from and what each one runs now."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_stampeded import insights
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
    """Nothing to do here: a worker is started and stopped where it runs."""

    list_display = ("name", "is_alive", "served", "running_jobs", "notifications", "beat", "started_at")
    ordering = ("-last_heartbeat", "-id")
    fields = ("id", "name", "is_alive", "served", "running_jobs", "started_at", "last_heartbeat", "details")
    readonly_fields = fields

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
