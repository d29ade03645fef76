"""The list of jobs: what stands in a row, how it is narrowed, and how many there are without counting the table.

A job's own page is `job_page.py`, what its buttons do `operations.py`.
"""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import PAGE_VAR, ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_stampeded import insights
from django_stampeded.admin.enqueue_page import EnqueuePage
from django_stampeded.admin.errors_page import ErrorsPage
from django_stampeded.admin.filters import (
    BatchFilter,
    FailureKindFilter,
    FingerprintFilter,
    JobFilter,
    QueueFilter,
    SinceFilter,
    StateFilter,
    TaskFilter,
    TenantFilter,
    UntilFilter,
    counts_of,
)
from django_stampeded.admin.job_page import JobPage
from django_stampeded.admin.pages import FixedChangeList
from django_stampeded.models import Job
from django_stampeded.states import FINAL, RUNNING, WAITS_UNTIL


class JobChangeList(FixedChangeList):
    """One page of the jobs of one selection; the next one begins behind the last job of this one, however deep that is."""

    page: insights.Page

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        specs, self.has_filters, unknown, _duplicates, self.has_active_filters = self.get_filters(request)
        self.filter_specs = specs
        self.clear_all_filters_qs = self.get_query_string(new_params=unknown, remove=self.get_filters_params())
        if unknown:
            raise IncorrectLookupParameters
        chosen = {str(spec.parameter_name): spec.value() or "" for spec in cast("list[JobFilter]", specs)}
        self.selection = insights.Selection(**chosen, text=self.query)
        return Job.objects.using(self.alias).none()  # get_results reads the page

    def get_results(self, request: HttpRequest) -> None:
        counts = counts_of(request, self.alias)
        cursor = request.GET.get(PAGE_VAR, "")
        found = insights.page(self.selection, self.alias, cursor=cursor, size=self.list_per_page, counts=counts)
        self.page = found
        self.result_list = found.jobs
        more = bool(found.older or found.newer)
        self.result_count = len(found.jobs) + more if found.total is None else found.total
        self.full_result_count = insights.total(counts) if found.total is not None else self.result_count
        self.show_full_result_count = found.total is not None
        self.show_admin_actions = True
        self.can_show_all = self.multi_page = False

    @property
    def older_url(self) -> str:
        """The next page, empty where this is the last."""
        return self.get_query_string({PAGE_VAR: self.page.older}) if self.page.older else ""

    @property
    def newer_url(self) -> str:
        """The page before, empty where this is the first."""
        return self.get_query_string({PAGE_VAR: self.page.newer}) if self.page.newer else ""

    @property
    def note(self) -> str:
        """What the reader must know about the rows shown."""
        if self.page.searched is None:
            return ""
        words = gettext(
            "No index serves all of this, so that a page looks at %(count)d jobs: go on to the next one to look further."
        )
        said = words % {"count": self.page.searched}
        if self.selection.arguments and not insights.arguments_are_indexed(self.alias):
            advice = gettext("An index that finds arguments among all jobs is built by %(command)s.")
            said = f"{said} {advice % {'command': 'manage.py stampeded index-arguments'}}"
        return said


class JobAdmin(JobPage, ErrorsPage, EnqueuePage):
    """Jobs: list, search, pages, and what may be done to them."""

    change_list_template = "stampeded/admin/jobs.html"
    list_display = ("short_id", "task_name", "queue_name", "state_name", "attempts", "when", "failure", "enqueued")
    list_display_links = ("short_id",)
    list_filter = (
        StateFilter, QueueFilter, TaskFilter, TenantFilter, FailureKindFilter, SinceFilter, UntilFilter, FingerprintFilter,
        BatchFilter,
    )  # fmt: skip
    list_per_page = 50
    search_fields = ("id",)
    search_help_text = _("An id, argument:value, or a part of the task's name or of the error.")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return JobChangeList

    def get_urls(self) -> list[URLPattern]:
        own = [*self.error_urls(), *self.bulk_urls(), *self.enqueue_urls(), *self.edit_urls(), *self.operation_urls()]
        return [*own, *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        links = {"may_enqueue": self.allows(request, "enqueue_job"), "bulk_acts": self.bulk_acts(request)}
        return super().changelist_view(request, {**links, **(extra_context or {})})

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Job | None:
        job_id: UUID | None = insights.parse_id(object_id)
        return None if job_id is None else insights.find(job_id, using=self.alias)

    @admin.display(description=_("job"))
    def short_id(self, job: Job) -> str:
        # The end of a version 7 UUID is its random part: the beginning is the same for all jobs of an hour.
        return f"…{str(job.pk)[-12:]}"

    @admin.display(description=_("task"))
    def task_name(self, job: Job) -> str:
        return job.task

    @admin.display(description=_("queue"))
    def queue_name(self, job: Job) -> str:
        return job.queue

    @admin.display(description=_("state"))
    def state_name(self, job: Job) -> SafeString:
        return format_html('<span class="stampeded-state stampeded-state-{0}">{0}</span>', job.state)

    @admin.display(description=_("attempt"))
    def attempts(self, job: Job) -> str:
        return f"{job.attempt}/{job.max_attempts}"

    @admin.display(description=_("when"))
    def when(self, job: Job) -> str:
        now = timezone.now()
        if job.state in FINAL:
            return _ago(gettext("ended %(age)s ago"), now, job.finished_at)
        if job.state in RUNNING:
            return _ago(gettext("running for %(age)s"), now, job.claimed_at)
        if job.scheduled_at >= WAITS_UNTIL:
            return gettext("waits for other jobs")
        if job.scheduled_at > now:
            return gettext("due in %(age)s") % {"age": insights.in_words(job.scheduled_at - now)}
        return _ago(gettext("due for %(age)s"), now, job.scheduled_at)

    @admin.display(description=_("failure"))
    def failure(self, job: Job) -> str:
        return job.failure_kind or "—"

    @admin.display(description=_("enqueued at"))
    def enqueued(self, job: Job) -> Any:
        return job.inserted_at


def _ago(words: str, now: Any, since: Any) -> str:
    return "—" if since is None else words % {"age": insights.in_words(now - since)}
