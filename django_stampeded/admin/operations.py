"""What the admin's buttons and list actions do to jobs: permission, confirmation, the operator service, the message.

Every path is a POST and checks the permission on the server, whatever the page showed. What an act does is `actions`' part;
acts on everything that a list means are bulk operations (bulk.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext, ngettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from django_stampeded import insights
from django_stampeded.actions import JOB_ACTIONS, BulkReport, on_each
from django_stampeded.admin.pages import ReadingAdmin
from django_stampeded.models import Job
from django_stampeded.states import FINAL, RUNNING, WAITING

SKIPS_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing to do to a job.

    Args:
        name: its name in `actions.JOB_ACTIONS`.
        label: the button's words.
        permission: the codename that allows it.
        states: states in which the button is offered; the final word is the operator service's.
        asks: the parameter that it takes: ``reason``, ``to`` or ``priority``.
        grave: can't be undone by another button, so that it is confirmed first.
        letters: offered for dead letters only.
    """

    name: str
    label: Any
    permission: str
    states: frozenset[Any]
    asks: str = ""
    grave: bool = False
    letters: bool = False

    @property
    def opens(self) -> bool:
        """Whether the button opens a small form instead of acting at once."""
        return bool(self.asks) or self.grave

    @property
    def must_ask(self) -> bool:
        """Whether it can't be done before somebody has answered."""
        return self.grave or self.asks in {"to", "priority"}


OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation("retry", _("Retry"), "retry_job", FINAL | {"retryable"}),
        Operation("redrive", _("Back to its source queue"), "move_job", WAITING | FINAL, letters=True),
        Operation("run_now", _("Run now"), "run_job", WAITING),
        Operation("cancel", _("Cancel"), "cancel_job", WAITING | RUNNING, asks="reason"),
        Operation("discard", _("Discard"), "discard_job", WAITING | RUNNING, asks="reason"),
        Operation("move", _("Move"), "move_job", WAITING | FINAL, asks="to"),
        Operation("set_priority", _("Set priority"), "prioritise_job", WAITING, asks="priority"),
        Operation("delete", _("Delete"), "delete_job", WAITING | FINAL, grave=True),
    )
}


class JobOperations(ReadingAdmin):
    """The operations, as buttons of a job's page and as actions of the list."""

    actions = (
        "retry_jobs", "run_jobs_now", "cancel_jobs", "discard_jobs", "move_jobs", "set_priority_of_jobs", "delete_jobs",
    )  # fmt: skip

    def operation_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.operate_view)
        return [path("<path:object_id>/do/<slug:name>/", view, name="stampeded_job_operate")]

    def has_retry_permission(self, request: HttpRequest) -> bool:
        return self.allows(request, "retry_job")

    def has_run_permission(self, request: HttpRequest) -> bool:
        return self.allows(request, "run_job")

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return self.allows(request, "cancel_job")

    def has_discard_permission(self, request: HttpRequest) -> bool:
        return self.allows(request, "discard_job")

    def has_move_permission(self, request: HttpRequest) -> bool:
        return self.allows(request, "move_job")

    def has_prioritise_permission(self, request: HttpRequest) -> bool:
        return self.allows(request, "prioritise_job")

    def has_remove_permission(self, request: HttpRequest) -> bool:
        # Not "delete": that one would open Django's own delete page, which would go round the operator service.
        return self.allows(request, "delete_job")

    @admin.action(description=_("Retry selected jobs"), permissions=["retry"])
    def retry_jobs(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
        return self.act_on_many(request, "retry")

    @admin.action(description=_("Run selected jobs now"), permissions=["run"])
    def run_jobs_now(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
        return self.act_on_many(request, "run_now")

    @admin.action(description=_("Cancel selected jobs"), permissions=["cancel"])
    def cancel_jobs(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
        return self.act_on_many(request, "cancel")

    @admin.action(description=_("Discard selected jobs"), permissions=["discard"])
    def discard_jobs(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
        return self.act_on_many(request, "discard")

    @admin.action(description=_("Move selected jobs to another queue"), permissions=["move"])
    def move_jobs(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
        return self.act_on_many(request, "move")

    @admin.action(description=_("Set the priority of selected jobs"), permissions=["prioritise"])
    def set_priority_of_jobs(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
        return self.act_on_many(request, "set_priority")

    @admin.action(description=_("Delete selected jobs"), permissions=["remove"])
    def delete_jobs(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
        return self.act_on_many(request, "delete")

    def buttons(self, request: HttpRequest, job: Job) -> list[Operation]:
        """The operations to offer this user for this job."""
        return [
            operation
            for operation in OPERATIONS.values()
            if job.state in operation.states
            and (job.source_id or not operation.letters)
            and self.allows(request, operation.permission)
        ]

    def operate_view(self, request: HttpRequest, object_id: str, name: str) -> HttpResponse:
        """One operation on one job; a POST from the job's page."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        operation = OPERATIONS.get(name)
        if operation is None or not self.allows(request, operation.permission):
            raise PermissionDenied
        job = self.get_object(request, unquote(object_id))
        if job is None:
            return self.missing(request, gettext("This job"))
        outcome = JOB_ACTIONS[name](
            job.queue,
            job.pk,
            actor=self.actor(request),
            seen=request.POST.get("seen", ""),
            using=self.alias,
            **parameters(operation, request),
        )
        self.tell(request, operation, BulkReport.of([outcome]))
        if name == "delete" and outcome.done:
            return HttpResponseRedirect(self.url("changelist"))
        return HttpResponseRedirect(self.url("change", quote(job.pk)))

    def act_on_many(self, request: HttpRequest, name: str) -> HttpResponse | None:
        """One operation on the jobs ticked in the list; for all that the list means, the page that asks for that."""
        operation = OPERATIONS[name]
        if request.POST.get("select_across") == "1":
            meant = request.GET.copy()
            meant.pop("p", None)
            meant["act"] = name
            return HttpResponseRedirect(f"{self.url('bulk')}?{meant.urlencode()}")
        ticked = [job_id for text in request.POST.getlist(ACTION_CHECKBOX_NAME) if (job_id := insights.parse_id(text))]
        if operation.must_ask and request.POST.get("confirmed") != "yes":
            return self._confirmation(request, operation, ticked)
        pairs = list(Job.objects.using(self.alias).filter(pk__in=ticked).values_list("queue", "id"))
        given = parameters(operation, request)
        self.tell(request, operation, on_each(name, pairs, actor=self.actor(request), using=self.alias, **given))
        return None

    def check_list_action(self, request: HttpRequest) -> None:
        super().check_list_action(request)
        if any(insights.parse_id(text) is None for text in request.POST.getlist(ACTION_CHECKBOX_NAME)):
            raise SuspiciousOperation("A selected job's id is not a UUID.")

    def _confirmation(self, request: HttpRequest, operation: Operation, ticked: list[UUID]) -> TemplateResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": operation.label,
            "opts": self.opts,
            "operation": operation,
            "count": len(ticked),
            "ticked": ticked,
            "action": request.POST.get("action", ""),
            "checkbox": ACTION_CHECKBOX_NAME,
            "database": self.alias,
            "media": self.media,
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "stampeded/admin/confirm.html", context)

    def tell(self, request: HttpRequest, operation: Operation, report: BulkReport) -> None:
        """What became of it, as messages for the user."""
        if report.done:
            self.message_user(request, _DONE[operation.name] % {"count": report.done}, messages.SUCCESS)
        if not report.finished:
            words = gettext("There is more to do than fits one request: do it again to go on.")
            self.message_user(request, words, messages.WARNING)
        if report.skipped:
            count = ngettext("%(count)d job was skipped:", "%(count)d jobs were skipped:", report.skipped)
            rows = ((self.job_link(skip.id), skip.reason) for skip in report.skips[:SKIPS_SHOWN])
            listed = format_html_join("; ", "{} ({})", rows)
            more = "; …" if report.skipped > SKIPS_SHOWN else ""
            text = format_html("{} {}{}", count % {"count": report.skipped}, listed, more)
            self.message_user(request, text, messages.WARNING)

    def url(self, view: str, *arguments: Any) -> str:
        """The address of a page about jobs."""
        return reverse(f"admin:stampeded_job_{view}", args=arguments, current_app=self.admin_site.name)


def parameters(operation: Operation, request: HttpRequest) -> dict[str, Any]:
    """What a POST gives an operation besides the jobs. A priority that is no number stays text, which the service refuses."""
    if not operation.asks:
        return {}
    given = request.POST.get(operation.asks, "")
    if operation.asks != "priority":
        return {operation.asks: given}
    try:
        return {"priority": int(given[:20])}
    except ValueError:
        return {"priority": given}


_DONE = {
    "retry": ngettext_lazy("%(count)d job will be retried.", "%(count)d jobs will be retried.", "count"),
    "redrive": ngettext_lazy("%(count)d job is back in its queue.", "%(count)d jobs are back in their queues.", "count"),
    "run_now": ngettext_lazy("%(count)d job is due now.", "%(count)d jobs are due now.", "count"),
    "cancel": ngettext_lazy("%(count)d job was cancelled.", "%(count)d jobs were cancelled.", "count"),
    "discard": ngettext_lazy("%(count)d job was discarded.", "%(count)d jobs were discarded.", "count"),
    "move": ngettext_lazy("%(count)d job was moved.", "%(count)d jobs were moved.", "count"),
    "set_priority": ngettext_lazy("%(count)d job has the new priority.", "%(count)d jobs have the new priority.", "count"),
    "delete": ngettext_lazy("%(count)d job was deleted.", "%(count)d jobs were deleted.", "count"),
}
