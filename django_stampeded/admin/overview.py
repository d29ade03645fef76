"""The overview on the app's index: which of its sections a user may see, its charts as tables, and the address that it polls.

What is shown comes from `insights.overview`. The page is complete without a script; overview.js replaces each section by
what the address sends and draws the charts. Nothing of it is markup made in the browser, so hostile names stay text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.template.loader import render_to_string
from django.urls import NoReverseMatch, reverse
from django.utils.timezone import get_current_timezone_name
from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_lazy as _

from django_stampeded import insights
from django_stampeded.conf import settings
from django_stampeded.states import State

SECTIONS = {
    "health": "view_queuepolicy",
    "figures": "view_queuepolicy",
    "charts": "view_queuepolicy",
    "queues": "view_queuepolicy",
    "breakers": "view_breaker",
    "failures": "view_job",
    "running": "view_job",
    "tenants": "view_job",
    "workers": "view_worker",
    "schedules": "view_schedule",
}
"""Each section, in its order on the page, with the permission that it asks for."""

EVERY_MS = 3_000
ROWS = 10


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart: its name for the script, its heading, what its lines are called, and its numbers as rows of a table."""

    name: str
    title: Any
    lines: Sequence[str]
    rows: Sequence[tuple[datetime, Sequence[float | None]]]


TITLES = {
    "depth": _("Jobs that wait"),
    "throughput": _("Jobs completed a second"),
    "oldest": _("Seconds that the oldest due job has waited"),
    "failures": _("Failures a minute"),
}


def visible(request: HttpRequest) -> list[str]:
    """The sections that this user may see."""
    return [name for name, permission in SECTIONS.items() if request.user.has_perm(f"stampeded.{permission}")]


def context_for(request: HttpRequest) -> dict[str, Any]:
    """What the templates of the overview are rendered with."""
    shown = visible(request)
    found = insights.overview(str(settings.DATABASE)) if shown else insights.Overview()
    return {
        "overview": found,
        "sections": shown,
        "states": list(State),
        "charts": _charts(found.charts, "failures" in shown),
        "drawing": _drawing(found.charts if "charts" in shown else insights.Charts(), "failures" in shown),
        "live_address": _address(request, "live"),
        "stream_address": _address(request, "stream") if streams(request) else "",
        "every_ms": EVERY_MS,
    }


def streams(request: HttpRequest) -> bool:
    """Whether news can be streamed to this page: under WSGI each stream would occupy a thread."""
    return isinstance(request, ASGIRequest)


def _address(request: HttpRequest, name: str) -> str:
    """One of the overview's addresses; empty on a site that doesn't have it."""
    try:
        return reverse(f"admin:stampeded_{name}", current_app=getattr(request, "current_app", None))
    except NoReverseMatch:
        return ""


def live_view(request: HttpRequest) -> HttpResponse:
    """The sections as they are now, and the charts' numbers."""
    if request.method not in {"GET", "HEAD"}:
        return HttpResponseNotAllowed(["GET", "HEAD"])
    if not visible(request):
        raise PermissionDenied
    response = JsonResponse(news(request))
    response["Cache-Control"] = "no-store"
    return response


def news(request: HttpRequest) -> dict[str, Any]:
    """What the script puts in place of what stands there."""
    context = context_for(request)
    parts = {
        name: render_to_string(f"stampeded/admin/overview/{name}.html", context, request=request)
        for name in context["sections"]
    }
    return {"sections": parts, "drawing": context["drawing"]}


def _lines(found: insights.Charts, name: str) -> list[str]:
    names = found.failure_kinds if name == "failures" else found.queues
    return [each or gettext("all queues") for each in names]


def _shown(with_failures: bool) -> list[str]:
    return [name for name in TITLES if with_failures or name != "failures"]


def _charts(found: insights.Charts, with_failures: bool) -> list[Chart]:
    step = max(1, len(found.times) // ROWS)
    places = list(range(len(found.times) - 1, -1, -step))[:ROWS]
    times = {place: datetime.fromtimestamp(found.times[place], tz=UTC) for place in places}
    return [
        Chart(
            name,
            TITLES[name],
            _lines(found, name),
            [(times[place], [line[place] for line in getattr(found, name)]) for place in places],
        )
        for name in _shown(with_failures)
    ]


def _drawing(found: insights.Charts, with_failures: bool) -> dict[str, Any]:
    """What the script draws."""
    return {
        "times": found.times,
        "zone": get_current_timezone_name(),
        "language": get_language() or "en",
        "charts": {name: {"lines": _lines(found, name), "values": getattr(found, name)} for name in _shown(with_failures)},
        "words": {
            "live": gettext("Live"),
            "lost": gettext("The connection is lost; trying again"),
            "ended": gettext("You are logged out, or may not see this any more: reload the page"),
            "time": gettext("Time"),
        },
    }
