"""Enqueueing a job from the admin: first the task, then a form made of what its function takes."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.utils import quote
from django.contrib.admin.widgets import AdminTextInputWidget
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_stampeded import actions, registry
from django_stampeded.admin.argument_fields import DateTimeInput, arguments_of, fields_of
from django_stampeded.admin.operations import JobOperations
from django_stampeded.columns import HIGHEST_PRIORITY, LOWEST_PRIORITY
from django_stampeded.exceptions import InvalidArguments, InvalidOption, StampededError
from django_stampeded.tasks import Task

OWN = "stampeded."


class EnqueueForm(forms.Form):
    """The arguments of one task, and the options of one job; what is left empty is as the task has it."""

    queue_name = forms.CharField(label=_("queue"), required=False, max_length=255, widget=AdminTextInputWidget)
    priority = forms.IntegerField(label=_("priority"), required=False, min_value=LOWEST_PRIORITY, max_value=HIGHEST_PRIORITY)
    run_after = forms.DateTimeField(label=_("not before"), required=False, widget=DateTimeInput(format="%Y-%m-%dT%H:%M"))
    tenant = forms.CharField(label=_("tenant"), required=False, max_length=255, widget=AdminTextInputWidget)

    def __init__(self, task: Task[..., Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.task = task
        assert task.signature is not None
        self.signature = task.signature
        self.option_names = list(self.fields)
        self.fields = {**fields_of(task.signature), **self.fields}

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        self.arguments: dict[str, Any] = {}
        if not self.errors:
            self.arguments = arguments_of(self.signature, given)
            try:
                actions.check_arguments(self.task.name, self.arguments)
            except InvalidArguments as error:
                raise forms.ValidationError(str(error)) from None
        return given

    @property
    def options(self) -> dict[str, Any]:
        """The options that were given."""
        given = {name: self.cleaned_data.get(name) for name in self.option_names}
        return {name: value for name, value in given.items() if value not in (None, "")}


class EnqueuePage(JobOperations):
    """Adds the page that enqueues a job to the jobs' pages."""

    def enqueue_urls(self) -> list[URLPattern]:
        return [path("enqueue/", self.admin_site.admin_view(self.enqueue_view), name="stampeded_job_enqueue")]

    def enqueue_view(self, request: HttpRequest) -> HttpResponse:
        """GET offers the tasks, or the form of `task`; POST enqueues one job of it."""
        if not self.allows(request, "enqueue_job"):
            raise PermissionDenied
        if request.method not in {"GET", "HEAD", "POST"}:
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        tasks = [each.name for each in registry.every() if each.func is not None and not each.name.startswith(OWN)]
        name = request.GET.get("task", "")
        task = registry.get(name) if name in tasks else None
        form, problem = None, ""
        if task is not None:
            try:
                form = EnqueueForm(task, request.POST if request.method == "POST" else None)
            except InvalidArguments as error:  # an annotation that can't be resolved
                problem = str(error)
        if form is not None and request.method == "POST" and form.is_valid() and (done := self._enqueue(request, form)):
            return done
        context = {
            **self.admin_site.each_context(request),
            "title": gettext("Enqueue a job"),
            "opts": self.opts,
            "tasks": tasks,
            "chosen": "" if task is None else task.name,  # a template would call the task itself
            "form": form,
            "problem": problem,
            "media": self.media,
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "stampeded/admin/enqueue.html", context)

    def _enqueue(self, request: HttpRequest, form: EnqueueForm) -> HttpResponse | None:
        try:
            job = actions.enqueue(
                form.task.name, form.arguments, actor=self.actor(request), options=form.options, using=self.alias
            )
        except (InvalidArguments, InvalidOption, StampededError) as error:
            form.add_error(None, str(error))
            return None
        words = gettext("Enqueued: job") if job.created else gettext("Not enqueued: its dedup scope is held by job")
        level = messages.SUCCESS if job.created else messages.WARNING
        self.message_user(request, format_html("{} {}", words, self.job_link(job.id)), level)
        return HttpResponseRedirect(self.url("change", quote(job.id)))
