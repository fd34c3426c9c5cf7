"""How running requests end when the service stops."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rlcm_serve.api.access import METRICS_PATH, is_open
from rlcm_serve.api.error_responses import OPENAI_PREFIX, document_of, response_of
from rlcm_serve.api.event_stream import frame
from rlcm_serve.api.wire.openai.responses.events import ErrorEvent
from rlcm_serve.errors import NotReady, RlcmError

RESPONSES_PATH = "/v1/responses"
_NUMBERED = b'"sequence_number":'
"""In each event of `RESPONSES_PATH` once; in a text the quotes would be escaped."""


class Draining:
    """The running requests, and whether new ones are accepted. Belongs to one event loop."""

    def __init__(self) -> None:
        self.closed = False
        self._running: set[asyncio.Task[Any]] = set()
        self._cut: set[asyncio.Task[Any]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def running(self) -> int:
        """Number of running requests."""
        return len(self._running)

    def close(self) -> None:
        """Refuses all new requests from now on."""
        self.closed = True

    async def idle(self) -> None:
        """Returns once no request is running."""
        await self._idle.wait()

    def cut(self) -> None:
        """Ends running requests; each client gets the reason in the format of its response."""
        for task in self._running - self._cut:
            self._cut.add(task)
            task.cancel()

    def enter(self, task: asyncio.Task[Any]) -> None:
        """Registers a request that begins."""
        self._running.add(task)
        self._idle.clear()

    def leave(self, task: asyncio.Task[Any]) -> None:
        """Removes a request that has ended."""
        self._running.discard(task)
        self._cut.discard(task)
        if not self._running:
            self._idle.set()

    def was_cut(self, task: asyncio.Task[Any]) -> bool:
        """Whether `cut` cancelled the request."""
        return task in self._cut


class DrainingMiddleware:
    """Refuses requests after `draining.close` and completes responses that `draining.cut` ends.

    Args:
        app: the application behind this middleware.
        draining: keeps track of the requests.
    """

    def __init__(self, app: ASGIApp, draining: Draining) -> None:
        self._app = app
        self._draining = draining

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        task = asyncio.current_task()
        if scope["type"] != "http" or task is None:
            await self._app(scope, receive, send)
            return
        answer = Answer(scope["path"], send, lambda: self._draining.closed)
        # Answered until the end, so that monitoring sees the service stop.
        if is_open(scope["path"]) or scope["path"] == METRICS_PATH:
            await self._app(scope, receive, answer.send)
        elif self._draining.closed:
            await response_of(scope["path"], NotReady("stopping"))(scope, receive, answer.send)
        else:
            await self._serve(task, answer, scope, receive)

    async def _serve(
        self, task: asyncio.Task[Any], answer: Answer, scope: Scope, receive: Receive
    ) -> None:
        self._draining.enter(task)
        try:
            await self._app(scope, receive, answer.send)
        except asyncio.CancelledError:
            if not self._draining.was_cut(task):
                raise
            task.uncancel()
            await answer.end(NotReady("stopping"), scope, receive)
        finally:
            self._draining.leave(task)


class Answer:
    """One response and how much of it has been sent.

    Args:
        path: of the request.
        send: sends the response.
        is_last: whether the connection is to be closed after this response.
    """

    def __init__(self, path: str, send: Send, is_last: Callable[[], bool] = lambda: False) -> None:
        self._path = path
        self._send = send
        self._is_last = is_last
        self._media_type: str | None = None
        self._n_numbered = 0
        self.is_complete = False

    async def send(self, message: Message) -> None:
        """Passes the response on."""
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            if self._is_last():
                headers["Connection"] = "close"
            self._media_type = headers.get("content-type", "")
        elif message["type"] == "http.response.body":
            self._n_numbered += message.get("body", b"").count(_NUMBERED)
            self.is_complete = not message.get("more_body", False)
        await self._send(message)

    async def end(self, error: RlcmError, scope: Scope, receive: Receive) -> None:
        """Ends a response that is not complete with an error, in the format of the response.

        A stream other than events stays unfinished: a proper end would make it look complete.
        """
        if self._media_type is None:
            await response_of(self._path, error)(scope, receive, self.send)
        elif self._media_type.startswith("text/event-stream") and not self.is_complete:
            last = _last_event(self._path, error, self._n_numbered)
            await self.send({"type": "http.response.body", "body": last, "more_body": False})


def _last_event(path: str, error: RlcmError, number: int) -> bytes:
    """The error as the last event of a stream; the newlines end an incomplete event.

    Args:
        path: of the request.
        error: why the stream ends.
        number: of the event, where events are numbered.
    """
    found = document_of(error)
    if path == RESPONSES_PATH:
        event = ErrorEvent.of(found, number)
        last = frame(event.model_dump_json(), event.type)
    elif path.startswith(OPENAI_PREFIX):
        last = frame(json.dumps(found.openai_error()))
    else:
        last = frame(found.to_json(), "error")
    return b"\n\n" + last
