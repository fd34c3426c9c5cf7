"""Observes every request: an access log line, metrics, a span, and an id that connects them."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rlcm_serve.api.error_responses import failed_in_stream, response_of
from rlcm_serve.telemetry import logs
from rlcm_serve.telemetry.logs import Exchange
from rlcm_serve.telemetry.request_metrics import ServedRequest

if TYPE_CHECKING:
    from rlcm_serve.api.context import Context

REQUEST_ID = "X-Request-ID"
NO_ROUTE = "(none)"
"""Replaces the route's template for unknown paths, of which callers can invent any number."""
QUIET_ROUTES = frozenset({"/health", "/readyz", "/metrics", "/overview", "/page/{path:path}"})
"""Routes that machines request often; their access lines have level debug."""
CLIENT_GONE = 499
"""The recorded status if a client disconnects before its response begins."""
_SANE_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_LONGEST_PATH = 200

access_log = logging.getLogger("rlcm_serve.access")
logger = logging.getLogger(__name__)


class ObservingMiddleware:
    """Records every request, whatever its outcome, without buffering streams.

    As the outermost middleware it also handles uncaught errors: the client gets a 500 without
    details, and the traceback goes to the log only.

    Args:
        app: the application behind this middleware.
        context: holds the metrics and the tracing.
        clock: monotonic, in seconds.
    """

    def __init__(
        self, app: ASGIApp, context: Context, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._app = app
        self._clock = clock
        self._metrics = context.metrics.requests
        self._tracing = context.tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        with self._tracing.request(headers) as span, _exchange(headers, span.trace_id) as exchange:
            passage = Passage(receive, send, exchange.request_id, self._clock)
            self._metrics.began()
            try:
                await self._serve(scope, passage)
            finally:
                served = passage.served(scope)
                self._metrics.ended(served)
                span.ended(served.method, served.route, served.status)
                _log_access(scope, passage, served, exchange)

    async def _serve(self, scope: Scope, passage: Passage) -> None:
        try:
            await self._app(scope, passage.receive, passage.send)
        except Exception as error:
            if passage.status is None:
                logger.exception("unexpected error")
                await response_of(scope["path"], error)(scope, passage.receive, passage.send)
            else:
                failed_in_stream(error)
                # The server closes the connection: the client sees an incomplete response.


class Passage:
    """Passes one request and its response through, and measures them."""

    def __init__(
        self, receive: Receive, send: Send, request_id: str, clock: Callable[[], float]
    ) -> None:
        self._receive = receive
        self._send = send
        self._request_id = request_id
        self._clock = clock
        self._began = clock()
        self._ended: float | None = None
        self._is_event_stream = False
        self.status: int | None = None
        self.first_event: float | None = None
        self.bytes_in = 0
        self.bytes_out = 0
        self.client_gone = False

    async def receive(self) -> Message:
        """The next part of the request."""
        message = await self._receive()
        if message["type"] == "http.request":
            self.bytes_in += len(message.get("body", b""))
        elif self._ended is None:
            # After the response, the same message is normal: it means no more input.
            self.client_gone = True
        return message

    async def send(self, message: Message) -> None:
        """Passes the next part of the response on and adds the request's id to its headers."""
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers[REQUEST_ID] = self._request_id
            self.status = message["status"]
            self._is_event_stream = headers.get("content-type", "").startswith("text/event-stream")
        try:
            await self._send(message)
        except OSError:
            # ASGI servers raise this once the client has disconnected.
            self.client_gone = True
            raise
        if message["type"] == "http.response.body":
            self._sent(message)

    def served(self, scope: Scope) -> ServedRequest:
        """The figures for the metrics, once the request has ended."""
        ended = self._clock() if self._ended is None else self._ended
        return ServedRequest(
            route=_route_of(scope),
            method=scope["method"],
            status=self.status or (CLIENT_GONE if self.client_gone else 500),
            seconds=ended - self._began,
            first_event=self.first_event,
            client_gone=self.client_gone,
        )

    def _sent(self, message: Mapping[str, Any]) -> None:
        body = message.get("body", b"")
        self.bytes_out += len(body)
        is_event = self._is_event_stream and body and not body.startswith(b":")
        if is_event and self.first_event is None:
            self.first_event = self._clock() - self._began
        if not message.get("more_body", False):
            self._ended = self._clock()


def is_sane_id(shown: str) -> bool:
    """Whether a request's id may stand in logs and headers."""
    return _SANE_ID.fullmatch(shown) is not None


@contextmanager
def _exchange(headers: Headers, trace_id: str | None) -> Iterator[Exchange]:
    """Adds the request's id to all log lines; a client's own id is used if it is well-formed."""
    shown = headers.get(REQUEST_ID, "")
    request_id = shown if is_sane_id(shown) else uuid.uuid4().hex
    exchange = Exchange(request_id, trace_id)
    token = logs.current.set(exchange)
    try:
        yield exchange
    finally:
        logs.current.reset(token)


def _route_of(scope: Scope) -> str:
    """The template of the request's route, even if the request ended before routing."""
    route = scope.get("route")
    if route is None and "app" in scope:
        for candidate in scope["app"].routes:
            if candidate.matches(scope)[0] is not Match.NONE:
                route = candidate
                break
    return getattr(route, "path", NO_ROUTE)


def _log_access(scope: Scope, passage: Passage, served: ServedRequest, exchange: Exchange) -> None:
    """Logs one line per request, without its query and headers."""
    # An error after the beginning of a stream cannot change the status any more.
    failed_later = "error_status" in exchange.fields
    level = logging.WARNING if served.status >= 500 or failed_later else logging.INFO
    if served.route in QUIET_ROUTES and served.status != 500:
        level = logging.DEBUG
    caller = scope.get("state", {}).get("caller")
    client = scope.get("client")
    fields = {
        "method": served.method,
        "path": scope["path"][:_LONGEST_PATH],
        "route": served.route,
        "status": served.status,
        "seconds": round(served.seconds, 4),
        "bytes_in": passage.bytes_in,
        "bytes_out": passage.bytes_out,
        "client": client[0] if client else None,
        "client_gone": served.client_gone,
        "key": getattr(caller, "key_id", None),
        **exchange.fields,
    }
    if served.first_event is not None:
        fields["first_event_seconds"] = round(served.first_event, 4)
    message = f"{served.method} {served.route} {served.status}"
    if failed_later:
        message += f", then {exchange.fields['error']}"
    access_log.log(level, "%s", message, extra=fields)
