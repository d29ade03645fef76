"""Batches: how far each one is and how it ended. Nothing to do here: a batch is its jobs'."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_stampeded import insights
from django_stampeded.admin.job_page import pretty
from django_stampeded.admin.pages import FixedChangeList, ReadingAdmin, quote_name
from django_stampeded.conf import settings
from django_stampeded.models import Batch
from django_stampeded.states import State

JOBS_SHOWN = 20


class BatchChangeList(FixedChangeList):
    """Batches with how far they are, which one statement gets for the whole page."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        attach_status(self.result_list, self.alias)


class BatchAdmin(ReadingAdmin):
    """The newest first."""

    list_display = ("name", "standing", "progress", "jobs", "created_at", "finished_at")
    ordering = ("-id",)
    fields = (
        "id", "name", "standing", "progress", "states", "newest", "parent", "callbacks", "problem", "information", "created_at",
        "sealed_at", "failed_at", "finished_at",
    )  # fmt: skip
    readonly_fields = fields

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        may = request.user.has_perm("stampeded.view_job")
        return tuple(name for name in self.fields if may or name != "newest")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return BatchChangeList

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Batch | None:
        batch: Batch | None = super().get_object(request, object_id, from_field)
        if batch is not None:
            attach_status([batch], self.alias)
        return batch

    @admin.display(description=_("stands"))
    def standing(self, batch: Any) -> str:
        if batch.finished_at is not None:
            return gettext("completed") if batch.succeeded else gettext("ended with failures")
        if batch.sealed_at is None:
            return gettext("open: jobs may join")
        return gettext("running, with failures") if batch.failed_at is not None else gettext("running")

    @admin.display(description=_("progress"))
    def progress(self, batch: Any) -> SafeString:
        percent = batch.status.percent
        return format_html('<progress max="100" value="{}" aria-label="{}%"></progress> {}%', percent, percent, percent)

    @admin.display(description=_("jobs"))
    def jobs(self, batch: Any) -> str:
        return f"{batch.status.ended}/{batch.status.jobs}"

    @admin.display(description=_("jobs"))
    def states(self, batch: Any) -> SafeString | str:
        counts = batch.status.counts
        number = ((self._listed(batch, f"{state.value}: {counts[state]}", state),) for state in State if counts.get(state))
        return format_html_join(", ", "{}", number) or "—"

    @admin.display(description=_("newest jobs"))
    def newest(self, batch: Batch) -> SafeString | str:
        found = insights.page(insights.Selection(batch=str(batch.pk)), self.alias, size=JOBS_SHOWN)
        rows = ((self.link("job_change", job.task, quote_name(job.pk)), job.state) for job in found.jobs)
        listed = format_html_join("", "<li>{} {}</li>", rows)
        return format_html("<ul>{}</ul>{}", listed, self._listed(batch, gettext("All its jobs"))) if found.jobs else "—"

    def _listed(self, batch: Batch, text: str, state: str = "") -> SafeString | str:
        """A link to the list of the batch's jobs, or of those in one state."""
        parts = {"batch": str(batch.pk), **({"state": state} if state else {})}
        return self.link("job_changelist", text, query=f"?{urlencode(parts)}")

    @admin.display(description=_("parent batch"))
    def parent(self, batch: Batch) -> SafeString | str:
        return self.link("batch_change", batch.parent_id, batch.parent_id) if batch.parent_id else "—"

    @admin.display(description=_("callbacks"))
    def callbacks(self, batch: Batch) -> SafeString | str:
        jobs = {"on_complete": batch.on_complete, "on_success": batch.on_success, "on_failure": batch.on_failure}
        given = {event: job for event, job in jobs.items() if job}
        return _json(given) if given else "—"

    @admin.display(description=_("error of a callback"))
    def problem(self, batch: Batch) -> str:
        return batch.callback_error or "—"

    @admin.display(description=_("meta"))
    def information(self, batch: Batch) -> SafeString:
        return _json(batch.meta)


def _json(value: Any) -> SafeString:
    return format_html("<pre>{}</pre>", pretty(insights.Redactor(settings.REDACT).value(value)))


def attach_status(batches: list[Any], alias: str) -> None:
    """Notes on each batch where it stands."""
    for batch, status in zip(batches, insights.batch_statuses(batches, alias), strict=True):
        batch.status = status
