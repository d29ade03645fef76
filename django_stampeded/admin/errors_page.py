"""The page of errors: failed jobs grouped by what went wrong, each group to retry or discard as one."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext

from django_stampeded import actions, insights
from django_stampeded.admin.operations import OPERATIONS, JobOperations

FOR_A_GROUP = ("retry", "discard")


class ErrorsPage(JobOperations):
    """Adds the page of errors to the jobs' pages."""

    def error_urls(self) -> list[URLPattern]:
        return [path("errors/", self.admin_site.admin_view(self.errors_view), name="stampeded_job_errors")]

    def errors_view(self, request: HttpRequest) -> HttpResponse:
        """GET shows the groups; POST does `operation` to all jobs of `fingerprint`."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method == "POST":
            return self._act_on_group(request)
        if request.method not in {"GET", "HEAD"}:
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        found = insights.error_clusters(using=self.alias)
        context: dict[str, Any] = {
            **self.admin_site.each_context(request),
            "title": gettext("Errors"),
            "opts": self.opts,
            "found": found,
            "buttons": [OPERATIONS[name] for name in FOR_A_GROUP if self.allows(request, OPERATIONS[name].permission)],
            "media": self.media,
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "stampeded/admin/errors.html", context)

    def _act_on_group(self, request: HttpRequest) -> HttpResponse:
        name = request.POST.get("operation", "")
        if name not in FOR_A_GROUP or not self.allows(request, OPERATIONS[name].permission):
            raise PermissionDenied
        fingerprint = request.POST.get("fingerprint", "")
        if fingerprint:
            selected = insights.select(insights.Selection(fingerprint=fingerprint), self.alias)
            self.operate_on(request, name, selected.jobs.filter(actions.ELIGIBLE[name]))
        return HttpResponseRedirect(self._url("errors"))
