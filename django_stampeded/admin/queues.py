"""Queues: depth, age and workers of each, pausing and resuming, and the limits that operators set.

The table on top shows every queue there is; the list below it only those with a policy row.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_stampeded import actions, insights
from django_stampeded.admin.overview import live_view
from django_stampeded.admin.pages import ReadingAdmin
from django_stampeded.admin.stream import stream_view
from django_stampeded.columns import LARGEST_INTEGER
from django_stampeded.models import ALL_QUEUES, QueuePolicy
from django_stampeded.states import State

QUEUES_SHOWN = 200
EDITED = ("queue", *actions.POLICY)


class QueuePolicyForm(forms.ModelForm):
    """The limits of a queue; its name only when the policy is made."""

    alias = "default"

    queue = forms.CharField(label=_("queue"), max_length=255, strip=False)
    max_running = forms.IntegerField(label=_("max. running"), required=False, min_value=1, max_value=LARGEST_INTEGER)
    max_wait_secs = forms.IntegerField(label=_("max. wait (s)"), required=False, min_value=1, max_value=LARGEST_INTEGER)
    rate_limit = forms.IntegerField(label=_("starts"), required=False, min_value=1, max_value=LARGEST_INTEGER)
    rate_period_secs = forms.IntegerField(label=_("in so many seconds"), required=False, min_value=1, max_value=LARGEST_INTEGER)
    fair_tenants = forms.BooleanField(label=_("fair shares of tenants"), required=False)

    class Meta:
        model = QueuePolicy
        fields = EDITED

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if (cleaned.get("rate_limit") is None) != (cleaned.get("rate_period_secs") is None):
            self.add_error("rate_period_secs", gettext("A rate is so many starts in so many seconds: give both or neither."))
        return cleaned

    def clean_queue(self) -> str:
        name = str(self.cleaned_data["queue"])
        if name == ALL_QUEUES:
            raise forms.ValidationError(gettext("All queues together can only be paused; name one queue."))
        # The model's own check would look at the default database, which need not be this one.
        if self.instance._state.adding and QueuePolicy.objects.using(self.alias).filter(pk=name).exists():
            raise forms.ValidationError(gettext("This queue has a policy already; change that one."))
        return name

    def validate_unique(self) -> None:
        """Done by clean_queue, on the right database."""


class PolicyInListForm(QueuePolicyForm):
    """What of a policy can be edited in the list."""

    queue = None  # type: ignore[assignment]
    max_wait_secs = None  # type: ignore[assignment]


class QueuePolicyAdmin(ReadingAdmin):
    """The queues."""

    change_list_template = "stampeded/admin/queues.html"
    heading = _("queues")
    form = QueuePolicyForm
    list_display = ("queue", "max_running", "rate_limit", "rate_period_secs", "fair_tenants", "verdict", "reason", "paused_at")
    list_editable = ("max_running", "rate_limit", "rate_period_secs", "fair_tenants")
    ordering = ("queue",)
    fields = (
        *EDITED, "verdict", "reason", "decided_at", "paused_at", "paused_reason", "paused_until",
    )  # fmt: skip
    readonly_fields = ("verdict", "reason", "decided_at", "paused_at", "paused_reason", "paused_until")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("stampeded.add_queuepolicy")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("stampeded.change_queuepolicy")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return self.readonly_fields if obj is None else ("queue", *self.readonly_fields)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        form.alias = self.alias
        return form

    def get_changelist_form(self, request: HttpRequest, **kwargs: Any) -> Any:
        return PolicyInListForm

    def save_model(self, request: HttpRequest, obj: QueuePolicy, form: Any, change: bool) -> None:
        decided = {name: form.cleaned_data[name] for name in actions.POLICY if name in form.changed_data or not change}
        actions.change_policy(obj.queue, decided, actor=self.actor(request), using=self.alias)

    def get_urls(self) -> list[URLPattern]:
        switch = self.admin_site.admin_view(self.switch_view)
        return [
            path("pause/", switch, {"pausing": True}, name="stampeded_queue_pause"),
            path("live/", self.admin_site.admin_view(self.live_view), name="stampeded_live"),
            path("stream/", self.admin_site.admin_view(self.stream_view), name="stampeded_stream"),
            path("resume/", switch, {"pausing": False}, name="stampeded_queue_resume"),
            *super().get_urls(),
        ]

    def live_view(self, request: HttpRequest) -> HttpResponse:
        """What the overview polls; it stands among the queues' addresses since the app's index can't have any."""
        request.current_app = self.admin_site.name
        return live_view(request)

    def stream_view(self, request: HttpRequest) -> HttpResponseBase:
        """The same as a stream."""
        request.current_app = self.admin_site.name
        return stream_view(request)

    def switch_view(self, request: HttpRequest, pausing: bool) -> HttpResponse:
        """Pauses or resumes the queue named in the POST; a name in the body needs no quoting."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.allows(request, "pause_queue"):
            raise PermissionDenied
        queue = request.POST.get("queue", "")
        try:
            if pausing:
                reason = request.POST.get("reason", "")
                actions.pause(queue, actor=self.actor(request), reason=reason, using=self.alias)
                done = gettext("Queue “%(queue)s” is paused.")
            else:
                actions.resume(queue, actor=self.actor(request), using=self.alias)
                done = gettext("Queue “%(queue)s” is resumed.")
        except ValueError as error:
            self.message_user(request, str(error), messages.ERROR)
        else:
            self.message_user(request, done % {"queue": queue}, messages.SUCCESS)
        return HttpResponseRedirect(reverse("admin:stampeded_queuepolicy_changelist", current_app=self.admin_site.name))

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        context: dict[str, Any] = {**(extra_context or {})}
        if self.has_view_permission(request):
            found = insights.queues(self.alias)
            busiest = sorted(found, key=lambda queue: (-(queue.waiting + queue.running), queue.queue))[:QUEUES_SHOWN]
            context["queues"] = sorted(busiest, key=lambda queue: queue.queue)
            context["left_out"] = len(found) - len(busiest)
            context["states"] = list(State)
            context["may_pause"] = self.allows(request, "pause_queue")
        return super().changelist_view(request, context)
