"""Brings requests to an application in the test's process, through Ray's proxy and a replica.

With the variable TEST_THROUGH_RAY, the tests of the HTTP interface around a scripted engine
ask in this way (make test-ray). The replica relays requests and responses part by part.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from ray import serve
from starlette.types import ASGIApp, Receive, Scope, Send

from rlcm_serve.api.server.http_server import HttpServer, listen
from rlcm_serve.ray.cluster import ENVIRONMENT, cluster
from rlcm_serve.settings import Settings
from tests.served import free_port

PORT = b"x-relay-port"
PROXY: list[int] = []
"""The port of Ray's proxy, once it is up."""


async def relay(scope: Scope, receive: Receive, send: Send) -> None:
    """The application of the replica."""
    if scope["type"] == "lifespan":
        for step in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{step}.complete"})
        return
    headers = scope["headers"]
    port = int(next(value for name, value in headers if name == PORT))
    query = f"?{scope['query_string'].decode()}" if scope["query_string"] else ""
    path = scope.get("raw_path", scope["path"].encode()).decode()
    whole = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError("the client has left")
            yield message.get("body", b"")
            if not message.get("more_body", False):
                whole.set()
                return

    async def until_gone() -> None:
        await whole.wait()
        while (await receive())["type"] != "http.disconnect":
            pass

    async def respond() -> None:
        transport = httpx.AsyncHTTPTransport()
        request = httpx.Request(
            scope["method"],
            httpx.URL(f"http://127.0.0.1:{port}", raw_path=f"{path}{query}".encode()),
            headers=[(name, value) for name, value in headers if name != PORT],
            content=body() if has_body(headers) else None,
        )
        if not has_body(headers):
            whole.set()
        response = await transport.handle_async_request(request)
        start = {"status": response.status_code, "headers": response.headers.raw}
        await send({"type": "http.response.start", **start})
        async for part in response.stream:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        await transport.aclose()

    tasks = {asyncio.create_task(respond()), asyncio.create_task(until_gone())}
    done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    for task in done:
        task.result()


def build_relay() -> ASGIApp:
    return relay


def has_body(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in headers)


@contextmanager
def relaying(state: Path) -> Iterator[None]:
    """Ray's proxy and one replica that relays."""
    os.environ.update(ENVIRONMENT)
    settings = Settings(state=state, port=free_port())
    with cluster(settings):
        quiet = {"enable_access_log": False}
        options = {"max_ongoing_requests": 1000, "logging_config": quiet}
        ingress = serve.ingress(build_relay)()
        serve.run(serve.deployment(ingress, name="relay", **options).bind(), name="relay")
        PROXY[:] = [settings.port]
        yield


class ThroughRay(httpx.AsyncBaseTransport):
    """Sends requests to Ray's proxy, for an application that listens in the running event loop."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._inner = httpx.AsyncHTTPTransport()
        self._server: HttpServer | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._server is None:
            self._start()
        request.headers[PORT.decode()] = str(self._port)
        request.url = request.url.copy_with(host="127.0.0.1", port=PROXY[0])
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()
        if self._server is not None:
            self._server.should_exit = True
            await self._serving

    def _start(self) -> None:
        async def without_lifespan(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "lifespan":
                await self._app(scope, receive, send)
                return
            for step in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{step}.complete"})

        async def at_once() -> None: ...

        (listening,) = listen("127.0.0.1", 0)
        self._port = listening.getsockname()[1]
        self._server = HttpServer(lambda fail: without_lifespan, at_once)
        self._serving = asyncio.create_task(self._server.serve([listening]))


def client_of(app: ASGIApp) -> httpx.AsyncClient:
    transport = ThroughRay(app)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=120)
