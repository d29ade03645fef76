"""The list of jobs: what stands in a row, how it is narrowed, and how many there are without counting the table.

A job's own page is `job_page.py`, what its buttons do `operations.py`.
"""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import InvalidPage, Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import URLPattern
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_stampeded import insights
from django_stampeded.admin.errors_page import ErrorsPage
from django_stampeded.admin.filters import (
    FailureKindFilter,
    FingerprintFilter,
    JobFilter,
    QueueFilter,
    StateFilter,
    TaskFilter,
    counts_of,
)
from django_stampeded.admin.job_page import JobPage
from django_stampeded.admin.pages import REACH, FixedChangeList
from django_stampeded.models import Job
from django_stampeded.states import FINAL, RUNNING, WAITS_UNTIL


class KnownCountPaginator(Paginator):
    """Pages over rows whose number is known beforehand."""

    def __init__(self, rows: Any, per_page: int, known: int) -> None:
        super().__init__(rows, per_page)
        self.count = min(known, REACH)


class JobChangeList(FixedChangeList):
    """The jobs of one selection, newest first."""

    selected: insights.Selected

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        specs, self.has_filters, unknown, _duplicates, self.has_active_filters = self.get_filters(request)
        self.filter_specs = specs
        self.clear_all_filters_qs = self.get_query_string(new_params=unknown, remove=self.get_filters_params())
        if unknown:
            raise IncorrectLookupParameters
        chosen = {str(spec.parameter_name): spec.value() or "" for spec in cast("list[JobFilter]", specs)}
        selection = insights.Selection(**chosen, text=self.query)
        self.selected = insights.select(selection, self.alias, counts_of(request, self.alias))
        return self.selected.jobs

    def get_results(self, request: HttpRequest) -> None:
        pages = KnownCountPaginator(self.queryset, self.list_per_page, self.selected.total)
        self.paginator = pages
        self.result_count = self.selected.total
        self.full_result_count = insights.total(counts_of(request, self.alias))
        self.show_full_result_count = True
        self.show_admin_actions = True
        self.can_show_all = pages.count <= self.list_max_show_all
        self.multi_page = pages.count > self.list_per_page
        if self.show_all and self.can_show_all:
            self.result_list = self.queryset._clone()
            return
        try:
            self.result_list = pages.page(self.page_num).object_list
        except InvalidPage:
            raise IncorrectLookupParameters from None

    @property
    def note(self) -> str:
        """What the reader must know about the rows shown."""
        if self.selected.searched is not None:
            words = gettext("Looked for among the newest %(count)d jobs; choose a state or a queue to look further back.")
            return words % {"count": self.selected.searched}
        if self.selected.total > REACH:
            words = gettext("The newest %(count)d can be paged through; choose a state or a queue to look further back.")
            return words % {"count": REACH}
        return ""


class JobAdmin(JobPage, ErrorsPage):
    """Jobs: list, search, pages, and what may be done to them."""

    change_list_template = "stampeded/admin/jobs.html"
    list_display = ("short_id", "task_name", "queue_name", "state_name", "attempts", "when", "failure", "enqueued")
    list_display_links = ("short_id",)
    list_filter = (StateFilter, QueueFilter, TaskFilter, FailureKindFilter, FingerprintFilter)
    list_per_page = 50
    list_max_show_all = 200
    search_fields = ("id",)
    search_help_text = _("An id, argument=value, or a part of the task's name or of the error.")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return JobChangeList

    def get_urls(self) -> list[URLPattern]:
        return [*self.error_urls(), *self.operation_urls(), *super().get_urls()]

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
