"""How requests come to their end when the service is told to stop."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rlcm_serve.api.access import METRICS_PATH, is_open
from rlcm_serve.api.error_responses import OPENAI_PREFIX, document_of, response_of
from rlcm_serve.errors import NotReady


class Draining:
    """The requests under way, and whether more are taken. Belongs to one event loop."""

    def __init__(self) -> None:
        self.closed = False
        self._running: set[asyncio.Task[Any]] = set()
        self._cut: set[asyncio.Task[Any]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def running(self) -> int:
        """Requests under way."""
        return len(self._running)

    def close(self) -> None:
        """From now on every new request is refused."""
        self.closed = True

    async def idle(self) -> None:
        """Returns once no request is under way."""
        await self._idle.wait()

    def cut(self) -> None:
        """Ends what is under way; each request is told why in the way its client reads."""
        for task in self._running - self._cut:
            self._cut.add(task)
            task.cancel()

    def enter(self, task: asyncio.Task[Any]) -> None:
        """A request begins."""
        self._running.add(task)
        self._idle.clear()

    def leave(self, task: asyncio.Task[Any]) -> None:
        """A request has ended."""
        self._running.discard(task)
        self._cut.discard(task)
        if not self._running:
            self._idle.set()

    def was_cut(self, task: asyncio.Task[Any]) -> bool:
        """Whether it was `cut` that cancelled the request."""
        return task in self._cut


class DrainingMiddleware:
    """Refuses what comes after `draining.close`, and gives a last word to what `draining.cut` ends.

    Args:
        app: what is behind it.
        draining: told of every request.
    """

    def __init__(self, app: ASGIApp, draining: Draining) -> None:
        self._app = app
        self._draining = draining

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        task = asyncio.current_task()
        if scope["type"] != "http" or task is None:
            await self._app(scope, receive, send)
            return
        answer = _Answer(scope["path"], send, self._draining)
        # Answered to the last: what watches a service wants to see it go.
        if is_open(scope["path"]) or scope["path"] == METRICS_PATH:
            await self._app(scope, receive, answer.send)
        elif self._draining.closed:
            await response_of(scope["path"], NotReady("stopping"))(scope, receive, answer.send)
        else:
            await self._serve(task, answer, scope, receive)

    async def _serve(
        self, task: asyncio.Task[Any], answer: _Answer, scope: Scope, receive: Receive
    ) -> None:
        self._draining.enter(task)
        try:
            await self._app(scope, receive, answer.send)
        except asyncio.CancelledError:
            if not self._draining.was_cut(task):
                raise
            task.uncancel()
            await answer.end(scope, receive)
        finally:
            self._draining.leave(task)


class _Answer:
    """One response, of which it is known how far it has come."""

    def __init__(self, path: str, send: Send, draining: Draining) -> None:
        self._path = path
        self._send = send
        self._draining = draining
        self._media_type: str | None = None
        self._is_complete = False

    async def send(self, message: Message) -> None:
        """Passes the response on; a service that stops asks for the connection back."""
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            if self._draining.closed:
                headers["Connection"] = "close"
            self._media_type = headers.get("content-type", "")
        elif message["type"] == "http.response.body":
            self._is_complete = not message.get("more_body", False)
        await self._send(message)

    async def end(self, scope: Scope, receive: Receive) -> None:
        """Says that the service is stopping, in whatever form the response has begun.

        A stream that is not of events is left unfinished: its end would look like a whole one.
        """
        error = NotReady("stopping")
        if self._media_type is None:
            await response_of(self._path, error)(scope, receive, self.send)
        elif self._media_type.startswith("text/event-stream") and not self._is_complete:
            last = _last_event(self._path, error)
            await self.send({"type": "http.response.body", "body": last, "more_body": False})


def _last_event(path: str, error: NotReady) -> bytes:
    """The error as the last of a stream's events, after an end to whatever was being sent."""
    found = document_of(error)
    if path.startswith(OPENAI_PREFIX):
        return f"\n\ndata: {json.dumps(found.openai_error())}\n\n".encode()
    return f"\n\nevent: error\ndata: {json.dumps(found.document())}\n\n".encode()
