"""The form of a schedule: what is wrong with a timing is said when it is saved, not when it should have run.

Secret-looking arguments are hidden in it too; left alone they stay as they are stored. Writing is `actions`' part.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms
from django.contrib.admin.widgets import AdminTextInputWidget
from django.db import connections
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_stampeded import insights, zones
from django_stampeded.admin.argument_fields import WHOLE, ArgumentsField, restored
from django_stampeded.columns import HIGHEST_PRIORITY, LOWEST_PRIORITY
from django_stampeded.conf import settings
from django_stampeded.exceptions import InvalidSchedule
from django_stampeded.models import Schedule
from django_stampeded.timing import LONGEST_INTERVAL, timing

LONGEST_JITTER = 30 * 86_400
COLUMNS = (
    "key", "task", "queue", "cron_expr", "interval_secs", "timezone", "dst_policy", "missed_policy", "overlap_policy",
    "jitter_secs", "tenant_id", "priority", "args",
)  # fmt: skip
TIMING = ("cron_expr", "interval_secs", "timezone", "dst_policy")


def _name(label: Any, **options: Any) -> forms.CharField:
    return forms.CharField(label=label, max_length=255, widget=AdminTextInputWidget, **{"strip": False, **options})


class ScheduleForm(forms.ModelForm):
    """A schedule to be made or changed."""

    alias = "default"

    key = _name(_("key"))
    task = _name(_("task"))
    queue = _name(_("queue"))
    cron_expr = _name(_("cron expression"), required=False, empty_value=None, strip=True)
    interval_secs = forms.IntegerField(label=_("interval (s)"), required=False, min_value=1, max_value=LONGEST_INTERVAL)
    timezone = _name(_("time zone"), initial="UTC", strip=True)
    dst_policy = forms.ChoiceField(
        label=_("DST policy"), required=False, choices=[("", _("the expression decides")), *Schedule.DstPolicy.choices]
    )
    missed_policy = forms.ChoiceField(label=_("missed runs"), choices=Schedule.MissedPolicy.choices)
    overlap_policy = forms.ChoiceField(label=_("overlapping runs"), choices=Schedule.OverlapPolicy.choices)
    jitter_secs = forms.IntegerField(label=_("jitter (s)"), initial=0, min_value=0, max_value=LONGEST_JITTER)
    tenant_id = _name(_("tenant"), required=False, empty_value=None)
    priority = forms.IntegerField(label=_("priority"), initial=0, min_value=LOWEST_PRIORITY, max_value=HIGHEST_PRIORITY)
    args = ArgumentsField(label=_("arguments"), required=False, initial=dict)

    class Meta:
        model = Schedule
        fields = COLUMNS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.redactor = insights.Redactor(settings.REDACT, WHOLE)
        self.before: dict[str, Any] = {}
        self.next_run_at: datetime | None = None
        self.warnings: list[str] = []
        self.instance._state.db = self.alias  # where the model's own checks look
        if not self.instance._state.adding:
            self.before = {name: getattr(self.instance, name) for name in COLUMNS}
            self.initial["args"] = self.redactor.value(self.instance.args)

    def clean_key(self) -> str:
        key = str(self.cleaned_data["key"])
        # The model's own check would look at the default database, which need not be this one.
        if self.instance._state.adding and Schedule.objects.using(self.alias).filter(pk=key).exists():
            raise forms.ValidationError(gettext("There is a schedule of this key already; change that one."))
        return key

    def clean_args(self) -> Any:
        return restored(self.redactor, self.cleaned_data["args"], self.before.get("args", {}))

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        if self.errors:
            return given
        try:
            when = timing(given["cron_expr"], given["interval_secs"], given["timezone"], given["dst_policy"] or None)
            zone = when.zone
            upcoming = when.upcoming(1, timezone.now())
        except InvalidSchedule as error:
            raise forms.ValidationError(str(error)) from None
        if not upcoming:
            raise forms.ValidationError(gettext("This never comes: give a time that does."))
        with connections[self.alias].cursor() as cursor:
            for sentence in zones.unknown_to_server(cursor, [zone.key]).values():
                self.add_error("timezone", sentence)
            self.warnings = list(zones.read_otherwise(cursor, [zone.key], timezone.now()).values())
        self.next_run_at = upcoming[0]
        return {**given, "cron_expr": when.cron_expr, "dst_policy": when.dst_policy}

    def validate_unique(self) -> None:
        """Done by clean_key, on the right database."""

    def changes(self) -> dict[str, Any]:
        """The columns to write: what differs from the stored row, and the next run where the timing does."""
        found = {name: self.cleaned_data[name] for name in COLUMNS if name != "key"}
        if self.before:
            found = {name: value for name, value in found.items() if value != self.before[name]}
        if any(name in found for name in TIMING):
            found["next_run_at"] = self.next_run_at
        return found
