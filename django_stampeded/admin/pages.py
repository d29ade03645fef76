"""What all our admin pages have in common: they read the right database, only read, and never count a large table.

Lists keep one fixed order that an index serves, and accept no filter that they did not declare themselves: Django would
let a URL filter by any column, which is slow on a large table and would spell out arguments that are hidden on the page.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast
from uuid import UUID

from django.contrib import messages
from django.contrib.admin import ModelAdmin, ShowFacets
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import quote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied, SuspiciousOperation, ValidationError
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext

from django_stampeded.actions import Actor
from django_stampeded.conf import settings

REACH = 50_000
_DOTS = "_2E"  # our own addition to the admin's quoting: a path of nothing but dots never reaches the server


class BoundedPaginator(Paginator):
    """Pages over at most REACH rows, and counts no further than that."""

    @cached_property
    def count(self) -> int:
        rows = cast("QuerySet[Any]", self.object_list)
        return rows[:REACH].count()


class FixedChangeList(ChangeList):
    """A list in the order of its admin class, whatever the URL asks for; its links survive any name."""

    @property
    def alias(self) -> str:
        """The database that the list is read from."""
        return cast(ReadingAdmin, self.model_admin).alias

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        return list(self.model_admin.get_ordering(request))

    def url_for_result(self, result: Model) -> str:
        opts = self.opts
        return reverse(
            f"admin:{opts.app_label}_{opts.model_name}_change",
            args=[quote_name(result.pk)],
            current_app=self.model_admin.admin_site.name,
        )


class ReadingAdmin(ModelAdmin):
    """A page to look at: no adding, changing or deleting unless a subclass allows it."""

    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = ShowFacets.NEVER  # they would count the table for every entry of every filter
    sortable_by = ()
    actions: Any = None
    heading: Any = ""  # of the list; the models' name when empty
    list_select_related = False

    class Media:
        css = {"all": ("stampeded/admin.css",)}

    @property
    def alias(self) -> str:
        """The database that this page shows."""
        return settings.DATABASE

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).using(self.alias)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return FixedChangeList

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        return None if "\x00" in object_id else super().get_object(request, object_id, from_field)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method == "POST":
            self.check_list_action(request)
        title = {"title": capfirst(self.heading or self.opts.verbose_name_plural)}
        return super().changelist_view(request, {**title, **(extra_context or {})})

    def check_list_action(self, request: HttpRequest) -> None:
        """Refuses an action that the user was not offered, and keys that can be none, which are forged."""
        wanted = {name for name in request.POST.getlist("action") if name}
        if not self.has_view_permission(request) or not wanted <= self.get_actions(request).keys():
            raise PermissionDenied
        if not all(self._can_be_key(text) for text in request.POST.getlist(ACTION_CHECKBOX_NAME)):
            raise SuspiciousOperation("What is selected is no key of this list.")

    def _can_be_key(self, text: str) -> bool:
        try:
            self.opts.pk.to_python(text)
        except ValidationError:
            return False
        return "\x00" not in text

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return super().change_view(request, unquote_dots(object_id), form_url, extra_context)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().history_view(request, unquote_dots(object_id), extra_context)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        return lookup in {getattr(declared, "parameter_name", None) for declared in self.list_filter}

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def allows(self, request: HttpRequest, permission: str) -> bool:
        """Whether the user may look at this page and has this permission of ours besides."""
        return self.has_view_permission(request) and request.user.has_perm(f"stampeded.{permission}")

    def actor(self, request: HttpRequest) -> Actor:
        """The user, for the audit."""
        return Actor(request.user.get_username(), via="admin")

    def missing(self, request: HttpRequest, what: str) -> HttpResponse:
        """The answer where what was asked for is gone: back to the list, with a word about it."""
        words = gettext("%(what)s is not there any more; it may have been pruned or deleted.")
        self.message_user(request, words % {"what": what}, messages.WARNING)
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"
        return HttpResponseRedirect(reverse(name, current_app=self.admin_site.name))

    def link(self, view: str, text: object, *arguments: object, query: str = "") -> SafeString | str:
        """A link to a page of this site; plain text where the site does not have that page."""
        return link_to(self.admin_site.name, view, text, *arguments, query=query)

    def job_link(self, job_id: UUID | None) -> SafeString | str:
        """A link to a job's page."""
        return self.link("job_change", job_id, quote(job_id)) if job_id else "—"


def link_to(site: str, view: str, text: object, *arguments: object, query: str = "") -> SafeString | str:
    """A link to one of our pages on the site of that name; plain text where the site does not have that page."""
    try:
        url = reverse(f"admin:stampeded_{view}", args=arguments, current_app=site)
    except NoReverseMatch:
        return str(text)
    return format_html('<a href="{}{}">{}</a>', url, query, text)


def quote_name(name: object) -> str:
    """A primary key as one segment of a path, also one made of dots."""
    text = str(name)
    return _DOTS * len(text) if text and not text.strip(".") else str(quote(text))


def unquote_dots(segment: str) -> str:
    """Undoes what `quote_name` does beyond the admin's own quoting, which must not have been undone yet."""
    return "." * (len(segment) // len(_DOTS)) if segment and not segment.replace(_DOTS, "") else segment
