"""Makes Ray's HTTP proxies answer as the service's own HTTP server does.

Ray calls `middlewares` at the start of each proxy if the variable `CALLBACK` names it.
"""

from __future__ import annotations

import logging

from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import HTTP_PROTOCOLS, WS_PROTOCOLS

from rlcm_serve.api.server.draining import Answer
from rlcm_serve.api.server.http_protocol import LimitedProtocol
from rlcm_serve.api.server.middleware import REQUEST_ID, is_sane_id
from rlcm_serve.api.server.open_files import raise_limit
from rlcm_serve.errors import EngineDead, NotReady

RAYS_OWN = "/-/"
"""Paths that Ray's proxies answer themselves, for load balancers."""
_TO_RAY = frozenset({b"x-request-timeout-seconds", b"x-request-disconnect-disabled"})
"""Headers with which any client could tell Ray to ignore time limits and disconnects."""
_TO_ROUTERS = frozenset({b"x-request-id", b"x-session-id", b"serve-multiplexed-model-id"})
"""Headers that Ray decodes as they are."""

_log = logging.getLogger(__name__)


def middlewares() -> list[Middleware]:
    """Sets the limits on connections, and returns what goes around Ray's own application.

    Ray offers no option for the HTTP protocol of its proxies. uvicorn looks it up in a table by
    name, so the name `auto`, which Ray takes, stands for our protocol in this process.
    """
    raise_limit()
    HTTP_PROTOCOLS["auto"] = f"{LimitedProtocol.__module__}:{LimitedProtocol.__name__}"
    WS_PROTOCOLS["auto"] = None
    return [Middleware(ProxyMiddleware)]


class ProxyMiddleware:
    """Answers where Ray would answer with a bare status, or not at all.

    If a replica ends while it answers, the client gets a 503 or, in a stream of events, an error as
    the last event. If there is no replica, it gets a 503.

    Args:
        app: Ray's application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] != "http" or scope["path"].startswith(RAYS_OWN):
            await self._app(scope, receive, send)
            return
        scope = {**scope, "headers": [each for each in scope["headers"] if _may_pass(*each)]}
        response = _Response(Answer(scope["path"], send))
        try:
            await self._app(scope, receive, response.send)
        except Exception:  # noqa: BLE001 - it is logged, and the client gets a response
            _log.exception("unexpected error in Ray's proxy")
        if response.is_refused:
            error = NotReady("no replica can take this request")
            await response.answer.end(error, scope, receive)
        elif not response.answer.is_complete:
            lost = EngineDead("the replica that worked on this request has ended: ask again")
            await response.answer.end(lost, scope, receive)


class _Response:
    """A response on its way from a replica, or a refusal of Ray's own, which is held back."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.is_refused = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            # No error of the service is a plain text.
            is_plain = headers.get("content-type", "").startswith("text/plain")
            self.is_refused = message["status"] >= 400 and is_plain
            if REQUEST_ID in headers:  # Ray adds its own to that of the replica
                headers[REQUEST_ID] = headers[REQUEST_ID]
        if not self.is_refused:
            await self.answer.send(message)


def _may_pass(name: bytes, value: bytes) -> bool:
    name = name.lower().replace(b"_", b"-")
    if name in _TO_RAY:
        return False
    return name not in _TO_ROUTERS or is_sane_id(value.decode("latin-1"))
