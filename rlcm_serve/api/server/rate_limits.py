"""Limits of keys on requests and tokens per minute: refused requests, and headers that say more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rlcm_serve.admission import Rates
from rlcm_serve.api.error_responses import response_of
from rlcm_serve.errors import RateLimited

if TYPE_CHECKING:
    from rlcm_serve.api.context import Context
    from rlcm_serve.settings import Settings
    from rlcm_serve.store.caller import Caller

LIMITED_PATHS = frozenset({"/solve", "/v1/chat/completions", "/v1/responses", "/aggregate"})
"""Routes whose requests cost something; each request counts as one, whatever comes of it."""


class RateLimitMiddleware:
    """Counts the requests of each key before their bodies are read. Callers without keys pass.

    Args:
        app: what is behind it.
        context: of the server.
    """

    def __init__(self, app: ASGIApp, context: Context) -> None:
        self._app = app
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        is_limited = scope["type"] == "http" and scope["method"] == "POST"
        if not is_limited or scope["path"] not in LIMITED_PATHS:
            await self._app(scope, receive, send)
            return
        caller: Caller = scope["state"]["caller"]
        rates = rates_of(caller, self._context.settings)
        key_id = caller.key_id
        if key_id is None or rates == Rates():
            await self._app(scope, receive, send)
            return
        limits = self._context.rates

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(limits.headers(key_id, rates))
            await send(message)

        try:
            await limits.enter(key_id, rates)
        except RateLimited as error:
            await response_of(scope["path"], error)(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)


def rates_of(caller: Caller, settings: Settings) -> Rates:
    """The limits of a caller's key: its own or those of the service, whichever are smaller."""
    limits = caller.limits
    return Rates(
        requests=_smaller(limits.requests_per_minute, settings.requests_per_minute),
        tokens=_smaller(limits.tokens_per_minute, settings.tokens_per_minute),
    )


def _smaller(one: int | None, other: int | None) -> int | None:
    return min((limit for limit in (one, other) if limit is not None), default=None)
