"""The page of errors: failed jobs grouped by what went wrong, each group to retry or discard by a bulk operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
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
            "clusters": [(cluster, sparkline(cluster.trend)) for cluster in found.clusters],
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
        selection = insights.Selection(fingerprint=fingerprint)
        if fingerprint and selection.storable:
            begun = actions.start(name, selection, actor=self.actor(request), parameters={"reason": ""}, using=self.alias)
            url = reverse("admin:stampeded_bulkoperation_change", args=[begun.pk], current_app=self.admin_site.name)
            return HttpResponseRedirect(url)
        return HttpResponseRedirect(self.url("errors"))


WIDTH, HEIGHT = 96, 20


def sparkline(values: Sequence[int]) -> SafeString:
    """A small picture of numbers, which a strict policy lets through: nothing but attributes."""
    most = max([*values, 1])
    step = WIDTH / max(len(values) - 1, 1)
    points = " ".join(
        f"{number * step:.1f},{HEIGHT - 1 - value / most * (HEIGHT - 2):.1f}" for number, value in enumerate(values)
    )
    return format_html(
        '<svg class="stampeded-spark" width="{0}" height="{1}" viewBox="0 0 {0} {1}" role="img" aria-label="{2}">'
        '<polyline points="{3}" fill="none" stroke="currentColor" stroke-width="1.5"/></svg>',
        WIDTH, HEIGHT, ", ".join(map(str, values)), points,
    )  # fmt: skip
