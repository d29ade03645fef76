"""The overview as a stream of server-sent events, for pages that are served by ASGI: the same news as its polled address.

A stream ends by itself after LASTS seconds, and the page asks its polled address and then for another one: so whoever is logged
out, or may see less, is told so. Between two pieces of news a stream holds no database connection, and its thread idles.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from datetime import tzinfo
from typing import Any

from asgiref.sync import sync_to_async
from django.core.exceptions import PermissionDenied
from django.core.serializers.json import DjangoJSONEncoder
from django.db import DatabaseError, close_old_connections, connections
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, StreamingHttpResponse
from django.utils import timezone, translation
from django.utils.timezone import get_current_timezone
from django.utils.translation import get_language

from django_stampeded.admin import overview

LASTS = 60.0


def stream_view(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
    """The stream; under WSGI nothing, which tells a browser not to ask again."""
    if request.method != "GET":
        return HttpResponseNotAllowed(["GET"])
    if not overview.visible(request):
        raise PermissionDenied
    if not overview.streams(request):
        return HttpResponse(status=204)
    response = StreamingHttpResponse(_events(request, get_language(), get_current_timezone()), content_type="text/event-stream")
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response


async def _events(request: HttpRequest, language: str | None, zone: tzinfo) -> AsyncIterator[str]:
    until = time.monotonic() + LASTS
    while True:
        try:
            found = await sync_to_async(_news)(request, language, zone)
        except DatabaseError:
            return  # the page asks again, and says so if there is no answer
        yield f"data: {json.dumps(found, cls=DjangoJSONEncoder)}\n\n"
        if time.monotonic() >= until:
            return
        await asyncio.sleep(overview.EVERY_MS / 1000)


def _news(request: HttpRequest, language: str | None, zone: tzinfo) -> dict[str, Any]:
    """The news in the language and zone of the request, whose middleware may have taken both back by now."""
    close_old_connections()
    try:
        with translation.override(language), timezone.override(zone):
            return overview.news(request)
    finally:
        _let_go()


def _let_go() -> None:
    """Closes this thread's connections, persistent ones too: each stream has a thread, and so would hold one while it idles."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()
