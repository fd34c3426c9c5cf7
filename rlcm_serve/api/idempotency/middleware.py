"""Answers a repeated question with the first response to it.

The work goes on if the client disconnects: its repeat then gets the answer. Only answers are kept.
After an error the same key may be used again. Once a guarantee is no longer given, nothing that was
answered before is repeated: whoever withdrew it does not stand by it any more.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rlcm_serve.api.error_responses import response_of
from rlcm_serve.api.idempotency.header import REPLAYED, digest_of, key_in, place_of
from rlcm_serve.api.idempotency.kept import KeptResponses, Place, Response
from rlcm_serve.errors import KeyReused, NotReady, RequestRefused, StillRunning

if TYPE_CHECKING:
    from rlcm_serve.api.context import Context

_END = b"\n\n"


@dataclass(frozen=True, slots=True)
class _Stream:
    """Which events of a route's streams are kept: what a client needs to have the answer.

    Attributes:
        last: how the last event of a complete stream begins; one of these.
        kept: how events that are kept begin; empty keeps all.
        dropped: what events that are dropped contain.
    """

    last: tuple[bytes, ...]
    kept: tuple[bytes, ...] = (b"",)
    dropped: bytes = b"\x00"

    def keeps(self, event: bytes) -> bool:
        return event.startswith(self.kept) and self.dropped not in event


ROUTES = {
    "/solve": _Stream((b"event: done\n",), (b"event: start\n", b"event: done\n")),
    # Quotation marks inside a text are escaped, so no text contains this.
    "/v1/chat/completions": _Stream((b"data: [DONE]",), (b"data: ",), b'"delta":{"reasoning":'),
    "/v1/responses": _Stream(
        (b"event: response.completed\n", b"event: response.incomplete\n"),
        (b"event: response.",),
        b"event: response.reasoning_text.delta\n",
    ),
}
"""Where questions are asked. `/calibrations` has its own way, which survives a restart."""


class IdempotencyMiddleware:
    """Runs requests with an `Idempotency-Key` once. It stands behind the check of API keys.

    Args:
        app: what is behind it.
        context: has the limits and the metrics.
    """

    def __init__(self, app: ASGIApp, context: Context) -> None:
        self._app = app
        self._context = context
        self._given: frozenset[str] = frozenset()
        settings = context.settings
        self._kept = KeptResponses(
            settings.idempotency_s,
            settings.idempotency_bytes,
            context.metrics.requests.with_key,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        is_question = scope["type"] == "http" and scope["method"] == "POST"
        if not is_question or scope["path"] not in ROUTES:
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        try:
            key = key_in(Headers(scope=scope))
            if key is None:
                await self._app(scope, receive, send)
                return
            body = await _body(receive)
            if body is None:  # the client has disconnected
                return
            caller_id = scope["state"]["caller"].key_id
            place = Place(caller_id, place_of(caller_id, path, key))
            self._forget_withdrawn()
            kept = self._kept.begin(place, digest_of(body))
        except (RequestRefused, KeyReused, StillRunning) as error:
            await response_of(path, error)(scope, receive, send)
            return
        if kept is None:
            await self._run(scope, receive, send, place, body)
        else:
            headers = [*kept.headers, (REPLAYED, b"true")]
            await send({"type": "http.response.start", "status": kept.status, "headers": headers})
            await send({"type": "http.response.body", "body": kept.body})

    def _forget_withdrawn(self) -> None:
        """Forgets all responses once one of the certificates no longer gives its guarantee."""
        try:
            given = self._context.service.guarantees.given
        except NotReady:  # nothing was answered yet
            return
        if self._given - given:
            self._kept.forget()
        self._given = given

    async def _run(
        self, scope: Scope, receive: Receive, send: Send, place: Place, body: bytes
    ) -> None:
        answer = _Answer(ROUTES[scope["path"]], send)
        watching = asyncio.create_task(answer.watch(receive))
        try:
            await self._app(scope, _once(body), answer.send)
        finally:
            watching.cancel()
            self._forget_withdrawn()
            self._kept.end(place, answer.kept)


class _Answer:
    """One response on its way to a client that may leave; the work does not notice that."""

    def __init__(self, stream: _Stream, send: Send) -> None:
        self._stream = stream
        self._send = send
        self._client_gone = False
        self._start: Message | None = None
        self._is_event_stream = self._is_complete = False
        self._parts: list[bytes] = []

    async def watch(self, receive: Receive) -> None:
        """Notes that the client disconnects."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._client_gone = True

    async def send(self, message: Message) -> None:
        """Notes a part of the response and passes it on to a client that is still there."""
        if message["type"] == "http.response.start":
            kind = Headers(raw=message["headers"]).get("content-type", "")
            self._is_event_stream = kind.startswith("text/event-stream")
            self._start = {**message, "headers": list(message["headers"])}
        elif message["type"] == "http.response.body":
            self._note(message.get("body", b""), more=message.get("more_body", False))
        if not self._client_gone:
            try:
                await self._send(message)
            except OSError:  # ASGI servers raise this once the client has disconnected
                self._client_gone = True

    def _note(self, body: bytes, *, more: bool) -> None:
        if self._start is None or self._start["status"] != 200:
            return
        if not self._is_event_stream:
            self._parts.append(body)
            self._is_complete = not more
            return
        for event in body.split(_END):
            self._is_complete = self._is_complete or event.startswith(self._stream.last)
            if event and self._stream.keeps(event):
                self._parts.append(event + _END)

    @property
    def kept(self) -> Response | None:
        """What is kept for repeats; None if this is no answer."""
        if self._start is None or not self._is_complete:
            return None
        headers = tuple((name, value) for name, value in self._start["headers"])
        return Response(self._start["status"], headers, b"".join(self._parts))


async def _body(receive: Receive) -> bytes | None:
    """The whole body; None if the client disconnects before its end."""
    parts: list[bytes] = []
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


def _once(body: bytes) -> Receive:
    """Gives the body, and never says that the client has disconnected."""
    parts = [body]

    async def receive() -> Message:
        if not parts:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": parts.pop(), "more_body": False}

    return receive
