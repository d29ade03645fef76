"""Limits of tenants, destinations and limit keys within queues: listed, added, changed and removed.

What a limit is of is given once; after that its numbers change. Each change goes through `actions.change_limit`.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_stampeded import actions
from django_stampeded.admin.pages import ReadingAdmin
from django_stampeded.columns import LARGEST_INTEGER
from django_stampeded.models import ALL_QUEUES, QueueLimit

NAMES = ("of_queue", "scope", "value")
"""Which limit it is; given once."""


class QueueLimitForm(forms.ModelForm):
    """A limit, with what it is of only when it is made."""

    alias = "default"

    of_queue = forms.CharField(label=_("queue"), max_length=255, strip=False)
    value = forms.CharField(
        label=_("named"),
        max_length=255,
        required=False,
        strip=False,
        empty_value=None,
        help_text=_("Left empty, the limit is of each that has none of its own."),
    )
    max_running = forms.IntegerField(label=_("max. running"), required=False, min_value=1, max_value=LARGEST_INTEGER)
    rate_limit = forms.IntegerField(label=_("starts"), required=False, min_value=1, max_value=LARGEST_INTEGER)
    rate_period_secs = forms.IntegerField(label=_("in so many seconds"), required=False, min_value=1, max_value=LARGEST_INTEGER)

    class Meta:
        model = QueueLimit
        fields = ("scope", "value", *actions.LIMITS)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if (cleaned.get("rate_limit") is None) != (cleaned.get("rate_period_secs") is None):
            self.add_error("rate_period_secs", gettext("A rate is so many starts in so many seconds: give both or neither."))
        elif not self.errors and cleaned.get("max_running") is None and cleaned.get("rate_limit") is None:
            raise forms.ValidationError(gettext("This would limit nothing: give a number, or delete the limit."))
        if self.instance._state.adding and not self.errors and self._is_taken(cleaned):
            raise forms.ValidationError(gettext("There is such a limit already; change that one."))
        return cleaned

    def clean_of_queue(self) -> str:
        name = str(self.cleaned_data["of_queue"])
        if name == ALL_QUEUES:
            raise forms.ValidationError(gettext("All queues together can only be paused; name one queue."))
        return name

    def validate_unique(self) -> None:
        """Done by clean, on the right database."""

    def _is_taken(self, cleaned: dict[str, Any]) -> bool:
        named = {"queue_id": cleaned["of_queue"], "scope": cleaned["scope"], "value": cleaned["value"]}
        return QueueLimit.objects.using(self.alias).filter(**named).exists()


class QueueLimitAdmin(ReadingAdmin):
    """The limits, by queue."""

    form = QueueLimitForm
    list_display = ("queue_name", "scope", "named", *actions.LIMITS)
    list_display_links = ("queue_name", "named")
    ordering = ("queue_id", "scope", "value", "id")
    fields = (*NAMES, *actions.LIMITS)
    actions = ()  # deleting those selected

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("stampeded.add_queuelimit")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("stampeded.change_queuelimit")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("stampeded.delete_queuelimit")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields if obj is None else ("queue_name", "scope", "named", *actions.LIMITS)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return () if obj is None else ("queue_name", "scope", "named")

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        if obj is not None:
            kwargs["form"] = _Numbers
        form: Any = super().get_form(request, obj, change, **kwargs)
        form.alias = self.alias
        return form

    def save_model(self, request: HttpRequest, obj: QueueLimit, form: Any, change: bool) -> None:
        given = form.cleaned_data
        if not change:
            obj.queue_id = given["of_queue"]
        numbers = {name: given[name] for name in actions.LIMITS if name in form.changed_data or not change}
        if numbers:
            self._write(request, obj, numbers)
        if not change:  # the messages and Django's own log want a key
            obj.pk = self._row(obj).values_list("pk", flat=True).get()

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        return [str(limit) for limit in objs], {self.opts.verbose_name_plural: len(objs)}, set(), []

    def delete_model(self, request: HttpRequest, obj: QueueLimit) -> None:
        self._write(request, obj, dict.fromkeys(actions.LIMITS))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[QueueLimit]) -> None:
        for limit in list(queryset):
            self.delete_model(request, limit)

    @admin.display(description=_("queue"))
    def queue_name(self, limit: QueueLimit) -> str:
        return limit.queue_id

    @admin.display(description=_("named"))
    def named(self, limit: QueueLimit) -> str:
        return gettext("each") if limit.value is None else limit.value

    def _row(self, limit: QueueLimit) -> QuerySet[QueueLimit]:
        return QueueLimit.objects.using(self.alias).filter(queue_id=limit.queue_id, scope=limit.scope, value=limit.value)

    def _write(self, request: HttpRequest, limit: QueueLimit, numbers: dict[str, int | None]) -> None:
        actions.change_limit(limit.queue_id, limit.scope, limit.value, numbers, actor=self.actor(request), using=self.alias)


class _Numbers(QueueLimitForm):
    """The numbers of a limit that stands."""

    of_queue = None  # type: ignore[assignment]
    value = None  # type: ignore[assignment]
