"""The proxy's middleware around applications that act as Ray's proxy does."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import HTTP_PROTOCOLS, WS_PROTOCOLS

from rlcm_serve.api.server.http_protocol import LimitedProtocol
from rlcm_serve.ray.proxy import ProxyMiddleware, middlewares


def proxy(*parts: dict[str, Any], error: Exception | None = None) -> ASGIApp:
    """An application that sends these messages and stops there."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for part in parts:
            await send(part)
        if error is not None:
            raise error

    return app


def start(status: int, kind: bytes, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    named = [(b"content-type", kind), *headers]
    return {"type": "http.response.start", "status": status, "headers": named}


def body(content: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": content, "more_body": more}


async def told(app: ASGIApp, path: str = "/solve") -> httpx.Response:
    transport = httpx.ASGITransport(ProxyMiddleware(app), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.post(path, json={})


@pytest.mark.parametrize("error", [None, RuntimeError("lost")])
async def test_a_response_that_never_came_is_a_503(error: Exception | None) -> None:
    response = await told(proxy(error=error))
    assert response.status_code == 503
    assert response.json()["type"] == "urn:rlcm:problem:engine-dead"
    assert int(response.headers["retry-after"]) > 0


async def test_openai_clients_get_it_in_their_form() -> None:
    response = await told(proxy(), "/v1/chat/completions")
    assert response.json()["error"]["code"] == "engine_dead"


async def test_a_stream_that_breaks_off_ends_with_an_error() -> None:
    begun = start(200, b"text/event-stream; charset=utf-8"), body(b"event: start\ndata: {}", True)
    events = (await told(proxy(*begun))).text.split("\n\n")
    assert events[0] == "event: start\ndata: {}"
    assert events[1].startswith('event: error\ndata: {"type": "urn:rlcm:problem:engine-dead"')


@pytest.mark.parametrize("status", [404, 503])
async def test_a_refusal_of_rays_own_is_a_503_of_the_service(status: int) -> None:
    response = await told(proxy(start(status, b"text/plain"), body(b"Path '/' not found")))
    assert response.status_code == 503
    assert response.json()["type"] == "urn:rlcm:problem:not-ready"


async def test_what_a_replica_says_passes_as_it_is() -> None:
    said = start(404, b"application/problem+json", (b"x-request-id", b"a"), (b"x-request-id", b"b"))
    response = await told(proxy(said, body(b"{}")))
    assert (response.status_code, response.content) == (404, b"{}")
    assert response.headers.get_list("x-request-id") == ["a"]


async def test_headers_that_steer_ray_are_dropped_and_others_pass() -> None:
    seen: list[tuple[bytes, bytes]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.extend(scope["headers"])
        for part in (start(200, b"text/plain"), body(b"")):
            await send(part)

    sent = {
        "X-Request-Disconnect-Disabled": "?1",
        "X-Request-Timeout-Seconds": "1",
        "X-Request-ID": "fine",
        "X-Session-ID": "caf\xe9",
        "X-Other": "caf\xe9",
    }
    transport = httpx.ASGITransport(ProxyMiddleware(app))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        coded = {name: value.encode("latin-1") for name, value in sent.items()}
        await client.get("/health", headers=coded)
    names = {name.lower() for name, _ in seen}
    assert {b"x-request-id", b"x-other"} <= names
    assert not {name for name in names if name.startswith((b"x-request-d", b"x-request-t", b"x-s"))}


def test_uvicorn_takes_the_services_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in (HTTP_PROTOCOLS, WS_PROTOCOLS):
        monkeypatch.setitem(table, "auto", table["auto"])
    assert [one.cls for one in middlewares()] == [ProxyMiddleware]
    config = uvicorn.Config(proxy())
    config.load()
    assert config.http_protocol_class is LimitedProtocol
    assert config.ws_protocol_class is None
