import asyncio
import json
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rlcm_serve.api.server.draining import Draining, DrainingMiddleware


class Waiting:
    """An app that begins its response, if it is to, and then waits for ever."""

    def __init__(self, media_type: str | None = None, written: bytes = b"") -> None:
        self.media_type = media_type
        self.written = written
        self.is_waiting = asyncio.Event()
        self.was_cancelled = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.media_type is not None:
            headers = [(b"content-type", self.media_type.encode())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": self.written, "more_body": True})
        self.is_waiting.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise


async def empty(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def request(
    app: ASGIApp, draining: Draining, path: str = "/solve", sent: list[Message] | None = None
) -> list[Message]:
    """One request through the middleware; what was sent in answer."""
    sent = [] if sent is None else sent

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "headers": []}
    await DrainingMiddleware(app, draining)(scope, receive, send)
    return sent


async def cut(app: Waiting, path: str = "/solve") -> list[Message]:
    """A request that `Draining.cut` ends; returns what its client got."""
    draining = Draining()
    serving = asyncio.create_task(request(app, draining, path))
    await app.is_waiting.wait()
    assert draining.running == 1
    draining.close()
    draining.cut()
    draining.cut()  # twice is as good as once
    async with asyncio.timeout(5):
        sent = await serving
        await draining.idle()
    assert app.was_cancelled
    assert draining.running == 0
    assert serving.cancelling() == 0
    return sent


def headers_of(sent: list[Message]) -> dict[str, str]:
    return {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}


async def test_requests_pass_while_the_service_runs() -> None:
    sent = await request(empty, Draining())
    assert sent[0]["status"] == 200
    assert "connection" not in headers_of(sent)


async def test_new_requests_are_refused_once_it_stops() -> None:
    draining = Draining()
    draining.close()
    sent = await request(empty, draining)
    assert sent[0]["status"] == 503
    headers = headers_of(sent)
    assert headers["connection"] == "close"
    assert int(headers["retry-after"]) > 0
    body = json.loads(sent[1]["body"])
    assert body["type"] == "urn:rlcm:problem:not-ready"
    assert body["detail"] == "the service is not ready: stopping"


@pytest.mark.parametrize("path", ["/health", "/readyz", "/metrics", "/openapi.json"])
async def test_what_watches_the_service_is_answered_to_the_last(path: str) -> None:
    draining = Draining()
    draining.close()
    sent = await request(empty, draining, path)
    assert sent[0]["status"] == 200
    assert headers_of(sent)["connection"] == "close"
    async with asyncio.timeout(1):
        await draining.idle()


async def test_idle_waits_for_the_last_request() -> None:
    draining = Draining()
    apps = Waiting(), Waiting()
    serving = [asyncio.create_task(request(app, draining)) for app in apps]
    for app in apps:
        await app.is_waiting.wait()
    idle = asyncio.create_task(draining.idle())
    serving[0].cancel()
    await asyncio.wait({serving[0]})
    await asyncio.sleep(0)
    assert not idle.done()
    serving[1].cancel()
    async with asyncio.timeout(5):
        await idle


async def test_a_request_without_a_response_yet_ends_with_503() -> None:
    sent = await cut(Waiting())
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[0]["status"] == 503
    assert headers_of(sent)["connection"] == "close"
    assert json.loads(sent[1]["body"])["stage"] == "stopping"


async def test_a_stream_of_events_ends_with_an_error_event() -> None:
    sent = await cut(Waiting("text/event-stream; charset=utf-8", b"event: checkpoint\ndata: {}"))
    assert sent[-1]["more_body"] is False
    text = b"".join(message.get("body", b"") for message in sent).decode()
    *_, last, end = text.split("\n\n")
    event, data = last.split("\n")
    assert (event, end) == ("event: error", "")
    assert json.loads(data.removeprefix("data: "))["type"] == "urn:rlcm:problem:not-ready"


async def test_a_stream_for_openai_clients_ends_in_their_envelope() -> None:
    sent = await cut(Waiting("text/event-stream"), "/v1/chat/completions")
    data = sent[-1]["body"].decode().strip()
    assert data.startswith("data: ")
    assert json.loads(data.removeprefix("data: "))["error"]["code"] == "not_ready"


async def test_a_stream_of_numbered_events_ends_with_the_next_one() -> None:
    begun = b'event: response.created\ndata: {"sequence_number":0,"type":"response.created"}\n\n'
    text = rb'event: x\ndata: {"sequence_number":1,"delta":"{\"sequence_number\":7}"}'
    sent = await cut(Waiting("text/event-stream", begun + text), "/v1/responses")
    event, data = sent[-1]["body"].decode().strip().split("\n")
    assert event == "event: error"
    found = json.loads(data.removeprefix("data: "))
    assert (found["type"], found["sequence_number"]) == ("error", 2)
    assert (found["code"], found["error"]["code"]) == ("not_ready", "not_ready")


async def test_another_stream_is_left_without_an_end() -> None:
    sent = await cut(Waiting("application/x-ndjson", b"{}\n"))
    assert sent[-1] == {"type": "http.response.body", "body": b"{}\n", "more_body": True}


async def test_a_request_cancelled_elsewhere_stays_cancelled() -> None:
    app, draining, sent = Waiting(), Draining(), list[Any]()
    serving = asyncio.create_task(request(app, draining, sent=sent))
    await app.is_waiting.wait()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert (sent, draining.running) == ([], 0)


async def test_scopes_other_than_http_pass() -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    draining = Draining()
    draining.close()
    await DrainingMiddleware(app, draining)({"type": "lifespan"}, None, None)  # type: ignore[arg-type]
    assert seen == ["lifespan"]
