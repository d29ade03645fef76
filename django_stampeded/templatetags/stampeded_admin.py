"""The overview for the app's index, which Django renders by itself on any admin site, and links that no name can break."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django import template
from django.template import RequestContext
from django.utils.safestring import SafeString

from django_stampeded.admin.overview import context_for
from django_stampeded.admin.pages import link_to

register = template.Library()


@register.simple_tag(takes_context=True)
def stampeded_overview(context: RequestContext) -> dict[str, Any]:
    """What the overview shows to this user."""
    return context_for(context["request"])


@register.simple_tag(takes_context=True)
def stampeded_link(context: RequestContext, view: str, text: object, *arguments: object, **query: str) -> SafeString | str:
    """A link to one of our pages on this site; plain text where the site doesn't have that page."""
    site = getattr(context["request"], "current_app", "admin")
    return link_to(site, view, text, *arguments, query=f"?{urlencode(query)}" if query else "")
