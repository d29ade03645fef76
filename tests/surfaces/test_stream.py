"""The overview's stream under ASGI: the same news as the polled address, to whom it may go, and none under WSGI."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.db import connection, connections
from django.test import AsyncClient, Client, RequestFactory
from django.urls import reverse

from django_stampeded.admin import stream

PATIENCE = 60


def streamed_to(user: Any) -> list[dict[str, Any]]:
    """The pieces of news that a user's stream brings until it ends."""

    async def read() -> list[dict[str, Any]]:
        client = AsyncClient()
        await client.aforce_login(user)
        response = await client.get(reverse("admin:stampeded_stream"))
        assert response.status_code == 200 and response["Content-Type"] == "text/event-stream"
        assert "no-store" in response["Cache-Control"]
        chunks = [chunk async for chunk in response.streaming_content]  # type: ignore[attr-defined]
        return [json.loads(chunk.removeprefix(b"data: ")) for chunk in chunks]

    return async_to_sync(read)()


@pytest.mark.django_db(transaction=True)
def test_the_stream_brings_what_the_polled_address_sends(
    make_user: Any, root: Client, make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "LASTS", 0.0)
    make_job(queue="mail")
    polled = json.loads(root.get(reverse("admin:stampeded_live")).content)
    found = streamed_to(make_user("ann", superuser=True))
    assert len(found) == 1 and found[0]["sections"].keys() == polled["sections"].keys()
    assert "mail" in found[0]["sections"]["queues"]
    assert list(streamed_to(make_user("viewer", "view_worker"))[0]["sections"]) == ["workers"]


@pytest.mark.django_db
def test_who_may_see_nothing_gets_no_stream_and_wsgi_has_none(client_of: Any, root: Client, make_user: Any) -> None:
    address = reverse("admin:stampeded_stream")
    assert Client().get(address).status_code == 302
    assert client_of("nobody").get(address).status_code == 403
    assert (root.get(address).status_code, root.post(address).status_code) == (204, 405)
    index = reverse("admin:app_list", args=["stampeded"])
    assert "data-stream" not in root.get(index).content.decode()

    async def under_asgi() -> tuple[int, str]:
        client = AsyncClient()
        await client.aforce_login(await make_nobody())
        refused = await client.get(address)
        await client.aforce_login(superuser)
        return refused.status_code, (await client.get(index)).content.decode()

    async def make_nobody() -> Any:
        return nobody

    superuser, nobody = make_user("boss", superuser=True), make_user("none")
    status, page = async_to_sync(under_asgi)()
    assert status == 403 and f'data-stream="{address}"' in page


@pytest.mark.django_db(transaction=True)
def test_a_stream_ends_by_itself_and_when_its_reader_goes(root: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_stampeded.admin.overview.EVERY_MS", 10)
    cookie = f"{settings.SESSION_COOKIE_NAME}={root.cookies[settings.SESSION_COOKIE_NAME].value}"
    path = reverse("admin:stampeded_stream")
    headers = [(b"host", b"localhost"), (b"cookie", cookie.encode())]
    scope = {"type": "http", "method": "GET", "path": path, "headers": headers, "query_string": b"", "http_version": "1.1"}

    async def read(goes: bool) -> int:
        application = ApplicationCommunicator(get_asgi_application(), scope)
        await application.send_input({"type": "http.request", "body": b""})
        assert (await application.receive_output(PATIENCE))["status"] == 200
        pieces = 0
        while (await application.receive_output(PATIENCE)).get("more_body"):
            pieces += 1
            if goes and pieces == 2:
                await application.send_input({"type": "http.disconnect"})
                break
        await asyncio.wait_for(application.wait(PATIENCE), PATIENCE)
        return pieces

    assert async_to_sync(read)(True) == 2
    monkeypatch.setattr(stream, "LASTS", 0.0)
    assert async_to_sync(read)(False) == 1


@pytest.mark.django_db(transaction=True)
def test_between_its_news_a_stream_holds_no_connection_not_even_a_persistent_one(
    make_user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", None)
    request = RequestFactory().get(reverse("admin:stampeded_stream"))
    request.user = make_user("root", superuser=True)

    def idle_after_news() -> bool:
        assert stream._news(request, "en", UTC)["sections"]
        return connections["default"].connection is None

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(idle_after_news).result(PATIENCE)
