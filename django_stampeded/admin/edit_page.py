"""Mending a job's arguments: checked by its task's signature, saved and retried in one step, secrets hidden all the while."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_stampeded import actions, insights, registry
from django_stampeded.actions import BulkReport
from django_stampeded.admin.argument_fields import WHOLE, ArgumentsField, restored
from django_stampeded.admin.operations import OPERATIONS, JobOperations
from django_stampeded.conf import settings
from django_stampeded.exceptions import InvalidArguments
from django_stampeded.models import Job
from django_stampeded.states import RUNNING


class EditForm(forms.Form):
    """All arguments of a job, as one JSON object."""

    args = ArgumentsField(label=_("arguments"), required=False, widget=forms.Textarea(attrs={"rows": 16, "cols": 80}))

    def __init__(self, job: Job, data: Any = None) -> None:
        self.job = job
        self.redactor = insights.Redactor(settings.REDACT, WHOLE)
        super().__init__(data, initial={"args": self.redactor.value(job.args)})

    def clean_args(self) -> dict[str, Any]:
        given: dict[str, Any] = restored(self.redactor, self.cleaned_data["args"], self.job.args)
        try:
            actions.check_arguments(self.job.task, given)
        except InvalidArguments as error:
            raise forms.ValidationError(str(error)) from None
        return given


class EditPage(JobOperations):
    """Adds the page that edits a job's arguments."""

    def edit_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.edit_view)
        return [path("<path:object_id>/edit/", view, name="stampeded_job_edit")]

    def may_edit(self, request: HttpRequest, job: Job) -> bool:
        """Whether to offer it: saving also retries, so that both permissions are needed."""
        return job.state not in RUNNING and self.allows(request, "edit_job") and self.allows(request, "retry_job")

    def edit_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """GET shows the form; POST saves the arguments and retries the job."""
        if not (self.allows(request, "edit_job") and self.allows(request, "retry_job")):
            raise PermissionDenied
        if request.method not in {"GET", "HEAD", "POST"}:
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        job = self.get_object(request, unquote(object_id))
        if job is None:
            return self.missing(request, gettext("This job"))
        form = EditForm(job, request.POST if request.method == "POST" else None)
        if form.is_valid():
            return self._save(request, job, form.cleaned_data["args"])
        task = registry.get(job.task)
        context = {
            **self.admin_site.each_context(request),
            "title": gettext("Edit arguments and retry"),
            "opts": self.opts,
            "job": job,
            "form": form,
            "seen": request.POST.get("seen") or actions.mark(job),
            "parameters": list(task.signature.named) if task is not None and task.signature is not None else [],
            "media": self.media,
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "stampeded/admin/edit.html", context)

    def _save(self, request: HttpRequest, job: Job, args: dict[str, Any]) -> HttpResponse:
        seen = request.POST.get("seen", "")
        outcome = actions.edit_and_retry(job.queue, job.pk, args, actor=self.actor(request), seen=seen, using=self.alias)
        self.tell(request, OPERATIONS["retry"], BulkReport.of([outcome]))
        return HttpResponseRedirect(self.url("change", quote(job.pk)))
