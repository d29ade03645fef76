"""A job's own page: its state and why it is not running, arguments, errors, what operators did, and the buttons.

It shows what `insights.facts` tells, with secrets hidden there already; it is no form, since nothing of a job is edited.
"""

from __future__ import annotations

import json
from typing import Any

from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.utils.translation import gettext

from django_stampeded import actions, insights
from django_stampeded.admin.bulk import BulkPage
from django_stampeded.admin.edit_page import EditPage
from django_stampeded.models import Job
from django_stampeded.states import FINAL


class JobPage(EditPage, BulkPage):
    """Replaces the admin's change form by a page to look at, with buttons."""

    class Media:
        js = ("stampeded/live.js",)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method not in {"GET", "HEAD"}:
            return HttpResponseNotAllowed(["GET", "HEAD"])
        job = self.get_object(request, unquote(object_id))
        if job is None:
            return self.missing(request, gettext("This job"))
        if "live" in request.GET:
            return self._live(request, job)
        context = {
            **self.admin_site.each_context(request),
            **self._facts_context(job),
            "title": job.task,
            "opts": self.opts,
            "job": job,
            "seen": actions.mark(job),
            "buttons": self.buttons(request, job),
            "history": insights.acts_on(job.pk, using=self.alias),
            "may_edit": self.may_edit(request, job),
            "media": self.media,
            **(extra_context or {}),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "stampeded/admin/job.html", context)

    def _live(self, request: HttpRequest, job: Job) -> HttpResponse:
        """The part of the page that changes while somebody looks at it."""
        facts = insights.facts(job, using=self.alias)
        context = {"facts": facts, "ended": job.state in FINAL, **_checkpoint_context(job)}
        return TemplateResponse(request, "stampeded/admin/job_live.html", context)

    def _facts_context(self, job: Job) -> dict[str, Any]:
        facts = insights.facts(job, using=self.alias)
        return {
            "facts": facts,
            "ended": job.state in FINAL,
            "timeline": insights.timeline(facts),
            "kin": self._kin(insights.relations(job, using=self.alias)),
            "cluster": f"{self.url('changelist')}?fingerprint={facts.fingerprint}" if facts.fingerprint else "",
            "arguments": pretty(facts.args),
            "meta": pretty(facts.meta) if facts.meta else "",
            **_checkpoint_context(job),
            "rows": self._rows(facts),
        }

    def _kin(self, found: insights.Relations) -> list[tuple[Any, ...]]:
        """(label, link, task, state) of each job that belongs with this one, and its batch."""
        named = [
            *((gettext("Waits for"), each) for each in found.parents),
            *((gettext("Waited for by"), each) for each in found.children),
            *((gettext("Dead letter"), each) for each in found.letters),
            *([(gettext("Dead letter of"), found.source)] if found.source else []),
        ]
        kin: list[tuple[Any, ...]] = [(label, self.job_link(each.id), each.task, each.state) for label, each in named]
        if found.batch_id:
            batch = self.link("batch_change", found.batch_name or found.batch_id, quote(found.batch_id))
            kin.append((gettext("Batch"), batch, "", ""))
        return kin

    def _rows(self, facts: insights.JobFacts) -> list[tuple[str, Any]]:
        """The plain facts, in the order of a job's life; what has not happened is left out."""
        worker = facts.worker or facts.claimed_by
        rows: list[tuple[str, Any]] = [
            (gettext("Id"), facts.id),
            (gettext("Queue"), facts.queue),
            (gettext("Tenant"), facts.tenant_id),
            (gettext("Priority"), facts.priority),
            (gettext("Destination"), facts.destination),
            (gettext("Attempt"), _of(facts.attempt, facts.max_attempts)),
            (gettext("Interruptions"), _of(facts.interruptions, facts.max_interruptions)),
            (gettext("Deferrals"), _of(facts.deferrals, facts.max_deferrals)),
            (gettext("Enqueued at"), facts.inserted_at),
            (gettext("Scheduled at"), facts.scheduled_at),
            (gettext("Claimed at"), facts.claimed_at),
            (gettext("Worker"), worker),
            (gettext("Last sign of life"), facts.heartbeat_at),
            (gettext("Finished at"), facts.finished_at),
            (gettext("Expires after (s)"), facts.expire_seconds),
            (gettext("Failure"), facts.failure_kind),
            (gettext("Dedup scope"), facts.dedup_scope),
            (gettext("Dedup period"), facts.dedup_period),
            (gettext("Dead-letter queue"), facts.dead_letter_queue),
        ]
        if facts.source_id:
            rows.append((gettext("Source queue"), facts.source_queue))
            rows.append((gettext("Attempts at the source"), facts.source_attempts))
        return [(label, value) for label, value in rows if value is not None and value != ""]


def pretty(value: Any) -> str:
    """JSON for people to read."""
    return json.dumps(value, indent=2, ensure_ascii=False, cls=DjangoJSONEncoder)


def _checkpoint_context(job: Job) -> dict[str, Any]:
    stored = insights.checkpoint_of(job)
    rows = [
        (step.name, step.finished, *("" if part is None else pretty(part) for part in (step.cursor, step.result)))
        for step in stored.steps
    ]
    return {
        "steps": rows,
        "steps_left_out": stored.left_out,
        "checkpoint": "" if stored.plain is None else pretty(stored.plain),
    }


def _of(number: int, most: int) -> str:
    return gettext("%(number)d of %(most)d") % {"number": number, "most": most}
