"""Acts on everything that a list of jobs means: how many they are, the yes, the progress, and the Stop button.

What is done, and in which steps, is `actions.bulk_operations`' part.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_stampeded import actions, insights
from django_stampeded.admin.operations import OPERATIONS, JobOperations, Operation, parameters
from django_stampeded.admin.pages import FixedChangeList, ReadingAdmin
from django_stampeded.columns import is_name, is_priority
from django_stampeded.conf import settings
from django_stampeded.models import BulkOperation

HERE_SECONDS = 15.0
_PART_OF = {"q": "text"}  # the list's own name for its search


def selection_of(given: Any) -> insights.Selection:
    """The selection that the list's parameters mean."""
    return insights.Selection.stored({_PART_OF.get(name, name): value for name, value in given.items()})


class BulkPage(JobOperations):
    """Adds the page that asks for a bulk operation to the jobs' pages."""

    def bulk_urls(self) -> list[URLPattern]:
        return [path("bulk/", self.admin_site.admin_view(self.bulk_view), name="stampeded_job_bulk")]

    def bulk_acts(self, request: HttpRequest) -> list[dict[str, Any]]:
        """What this user may do to everything that the list at hand means: words and addresses."""
        meant = request.GET.copy()
        meant.pop("p", None)
        acts = []
        for name in actions.GOES_FOR:
            if self.allows(request, OPERATIONS[name].permission):
                meant["act"] = name
                acts.append({"label": OPERATIONS[name].label, "url": f"{self.url('bulk')}?{meant.urlencode()}"})
        return acts

    def bulk_view(self, request: HttpRequest) -> HttpResponse:
        """GET counts the jobs and asks; POST with the same address starts the operation."""
        operation = OPERATIONS.get(request.GET.get("act", ""))
        if operation is None or operation.name not in actions.GOES_FOR or not self.allows(request, operation.permission):
            raise PermissionDenied
        if request.method not in {"GET", "HEAD", "POST"}:
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        selection = selection_of(request.GET)
        if request.method == "POST":
            return self._start(request, operation, selection)
        return self._ask(request, operation, selection, {"to": "", "priority": 0})

    def _start(self, request: HttpRequest, operation: Operation, selection: insights.Selection) -> HttpResponse:
        given = parameters(operation, request)
        if problem := _problem(given) or ("" if selection.storable else gettext("No job can be meant by this: correct it.")):
            self.message_user(request, problem, messages.ERROR)
            return self._ask(request, operation, selection, given)
        begun = actions.start(operation.name, selection, actor=self.actor(request), parameters=given, using=self.alias)
        url = reverse("admin:stampeded_bulkoperation_change", args=[begun.pk], current_app=self.admin_site.name)
        return HttpResponseRedirect(url)

    def _ask(
        self, request: HttpRequest, operation: Operation, selection: insights.Selection, given: dict[str, Any]
    ) -> HttpResponse:
        asked = {"to": "", "priority": 0} if _problem(given) else given
        context = {
            **self.admin_site.each_context(request),
            "title": operation.label,
            "opts": self.opts,
            "operation": operation,
            "number": actions.expected(operation.name, selection, asked, self.alias),
            "parts": list(selection.as_parts().items()),
            "states": actions.GOES_FOR[operation.name],
            "database": self.alias,
            "queue": settings.BULK_QUEUE or settings.DEFAULT_QUEUE,
            "address": request.get_full_path(),
            "media": self.media,
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "stampeded/admin/bulk_confirm.html", context)


def _problem(given: dict[str, Any]) -> str:
    """What is wrong with the parameters of an act on many; each job's own refusal would say it too, many times over."""
    if "priority" in given and not is_priority(given["priority"]):
        return gettext("A priority is a whole number from -32768 to 32767.")
    if "to" in given and not is_name(given["to"]):
        return gettext("A queue's name has 1 to 255 characters.")
    return ""


class BulkOperationChangeList(FixedChangeList):
    """Bulk operations with whether anything still does them, which one statement gets for the whole page."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        lost = insights.abandoned(self.result_list, self.alias)
        for operation in self.result_list:
            operation.lost = operation.pk in lost


class BulkOperationAdmin(ReadingAdmin):
    """Bulk operations: the latest ones, and each with its progress. Who may see jobs may see these."""

    list_display = ("created_at", "act", "actor", "selected", "progress", "standing")
    list_display_links = ("created_at", "act")
    ordering = ("-created_at",)

    class Media:
        js = ("stampeded/live.js",)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("stampeded.view_job")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.step_view)
        return [path("<uuid:operation_id>/do/<slug:step>/", view, name="stampeded_bulkoperation_step"), *super().get_urls()]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return BulkOperationChangeList

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> BulkOperation | None:
        wanted = insights.parse_id(object_id)
        return None if wanted is None else BulkOperation.objects.using(self.alias).filter(pk=wanted).first()

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method not in {"GET", "HEAD"}:
            return HttpResponseNotAllowed(["GET", "HEAD"])
        operation = self.get_object(request, object_id)
        if operation is None:
            return self.missing(request, gettext("This bulk operation"))
        known = OPERATIONS.get(operation.action)
        job = insights.find(operation.job_id, operation.queue, self.alias) if operation.job_id else None
        lost = bool(insights.abandoned([operation], self.alias))
        context = {
            **self.admin_site.each_context(request),
            "title": str(known.label if known else operation.action),
            "opts": self.opts,
            "operation": operation,
            "parts": list(operation.selection.items()),
            "given": list(operation.parameters.items()),
            "skips": [(self.job_link(insights.parse_id(skip["id"])), skip["reason"]) for skip in operation.skips],
            "job": self.job_link(operation.job_id),
            "lost": lost,
            "why": insights.facts(job, self.alias).why if job is not None and not (operation.ended or lost) else [],
            "may_act": known is not None and self.allows(request, known.permission),
            "media": self.media,
        }
        request.current_app = self.admin_site.name
        part = "bulk_live" if "live" in request.GET else "bulk"
        return TemplateResponse(request, f"stampeded/admin/{part}.html", context)

    def step_view(self, request: HttpRequest, operation_id: UUID, step: str) -> HttpResponse:
        """POST `stop` stops an operation, `here` does a part of it in this request, `again` gives it to a worker again.

        All need the act's own permission.
        """
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        operation = self.get_object(request, str(operation_id))
        known = OPERATIONS.get(operation.action) if operation else None
        if step not in {"stop", "here", "again"} or (operation and not (known and self.allows(request, known.permission))):
            raise PermissionDenied
        if not self.has_view_permission(request):
            raise PermissionDenied
        if operation is None:
            return self.missing(request, gettext("This bulk operation"))
        self._take(request, step, operation)
        name = "admin:stampeded_bulkoperation_change"
        return HttpResponseRedirect(reverse(name, args=[operation.pk], current_app=self.admin_site.name))

    def _take(self, request: HttpRequest, step: str, operation: BulkOperation) -> None:
        if step == "here":
            actions.carry_on(operation.pk, seconds=HERE_SECONDS, using=self.alias)
            return
        if step == "again":
            done = actions.give_again(operation.pk, actor=self.actor(request), using=self.alias)
            words = gettext("A worker goes on with it.") if done else gettext("It has ended, or a job goes on with it already.")
        else:
            done = actions.stop(operation.pk, actor=self.actor(request), using=self.alias)
            words = gettext("It is stopped; what was done stays done.") if done else gettext("It had ended already.")
        self.message_user(request, words, messages.SUCCESS if done else messages.WARNING)

    @admin.display(description=_("action"))
    def act(self, operation: BulkOperation) -> str:
        known = OPERATIONS.get(operation.action)
        return str(known.label) if known else operation.action

    @admin.display(description=_("state"))
    def standing(self, operation: Any) -> str:
        return gettext("nothing does it any more") if operation.lost else str(operation.get_state_display())

    @admin.display(description=_("selection"))
    def selected(self, operation: BulkOperation) -> str:
        return ", ".join(f"{name}: {value}" for name, value in operation.selection.items()) or gettext("all jobs")

    @admin.display(description=_("jobs"))
    def progress(self, operation: BulkOperation) -> SafeString | str:
        number = f"{operation.expected}" if operation.exact else gettext("over %(number)d") % {"number": operation.expected}
        return gettext("%(done)d of %(number)s") % {"done": operation.done + operation.skipped, "number": number}
