"""Circuit breakers: what each is of and how it stands, and buttons to trip and to reset it."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import F, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_stampeded.actions import reset_breaker, trip_breaker
from django_stampeded.admin.pages import ReadingAdmin
from django_stampeded.models import Breaker


class BreakerAdmin(ReadingAdmin):
    """The breakers, those that hold jobs back first."""

    list_display = ("key", "kind", "state", "reason", "failures", "opened_at", "retry_at", "openings")
    ordering = (F("opened_at").asc(nulls_last=True), "-updated_at", "kind", "key")
    fields = (
        "kind", "key", "state", "reason", "window_at", "failures", "successes", "openings", "opened_at", "retry_at", "queues",
        "wait_secs", "longest_wait_secs", "probes", "updated_at",
    )  # fmt: skip
    readonly_fields = fields
    actions = ("trip", "reset")

    def has_switch_permission(self, request: HttpRequest) -> bool:
        """Asked by Django for the actions below."""
        return self.allows(request, "switch_breaker")

    @admin.action(description=_("Trip: hold their jobs back until reset"), permissions=["switch"])
    def trip(self, request: HttpRequest, queryset: QuerySet[Breaker]) -> None:
        found = list(queryset)
        for breaker in found:
            trip_breaker(breaker.kind, breaker.key, actor=self.actor(request), using=self.alias)
        text = ngettext("%(count)d breaker is open now.", "%(count)d breakers are open now.", len(found))
        self.message_user(request, text % {"count": len(found)})

    @admin.action(description=_("Reset: let their jobs start again"), permissions=["switch"])
    def reset(self, request: HttpRequest, queryset: QuerySet[Breaker]) -> None:
        found = list(queryset)
        for breaker in found:
            reset_breaker(breaker.kind, breaker.key, actor=self.actor(request), using=self.alias)
        text = ngettext("%(count)d breaker is closed now.", "%(count)d breakers are closed now.", len(found))
        self.message_user(request, text % {"count": len(found)})
