"""Checks API keys, and limits the size of requests and questions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, HTTPException, Request, Security
from fastapi.security import APIKeyHeader, HTTPBearer
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rlcm_serve.admission import Tenant
from rlcm_serve.api.error_responses import documented, response_of
from rlcm_serve.errors import AccessDenied, BodyTooLarge, NotReady, RequestRefused
from rlcm_serve.store.caller import ANYONE, STRANGER, Caller
from rlcm_serve.store.caller import Scope as AccessScope

if TYPE_CHECKING:
    from rlcm_serve.core import Question
    from rlcm_serve.settings import Settings
    from rlcm_serve.store.keys import Keys

MOST_HEADERS = 512
"""Headers of a request; each is looked at several times."""
LONGEST_QUERY = 8192
"""Bytes of a request's query, in which every parameter is checked."""
OPEN_PATHS = frozenset({"/", "/health", "/readyz", "/openapi.json"})
"""Open to anyone: their content is public, and load balancers have no keys."""
PAGE_PREFIX = "/page/"
"""Files of the page, which are public."""
METRICS_PATH = "/metrics"
UPLOAD_PATHS = frozenset({"/aggregate", "/calibrations", "/certificates"})
"""Routes that accept large bodies."""
LONGEST_SILENCE = 60.0
"""Maximum pause in seconds between two parts of a request body."""
PATIENCE = 30.0
"""Seconds for which the service waits for a body, all pauses together, plus the time that it may
take at `SLOWEST`."""
SLOWEST = 1024.0
"""Least bytes per second of a body that lasts longer."""
_HOW = (
    "send one as `Authorization: Bearer KEY` or `X-API-Key: KEY`; an operator creates one with "
    "`rlcm keys new`"
)

_bearer = HTTPBearer(
    scheme_name="API key", description="An API key, created with `rlcm keys new`.", auto_error=False
)
_header = APIKeyHeader(
    name="X-API-Key",
    scheme_name="API key header",
    description="An API key, created with `rlcm keys new`.",
    auto_error=False,
)


def is_open(path: str) -> bool:
    """Whether a path is served to anyone."""
    return path in OPEN_PATHS or path.startswith(PAGE_PREFIX)


class AccessMiddleware:
    """Checks the key of each request and counts its body while it is read.

    Accepted requests have their `Caller` in the request's state. Bodies and responses are streamed.
    If no key is needed, keys are ignored.

    Args:
        app: what is behind it.
        settings: the service's settings.
        keys: that open the service.
    """

    def __init__(self, app: ASGIApp, settings: Settings, keys: Keys) -> None:
        self._app = app
        self._settings = settings
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            _check_head(scope)
            caller = await self._caller_of(scope)
            limit = self._limit(scope["path"], caller)
            _check_announced_length(scope, limit)
        except (AccessDenied, BodyTooLarge, HTTPException, NotReady) as error:
            await response_of(scope["path"], error)(scope, receive, send)
            return
        scope.setdefault("state", {})["caller"] = caller
        body = _CountedBody(receive, send, limit)
        try:
            await self._app(scope, body.receive, body.send)
        except (BodyTooLarge, HTTPException):
            if body.refusal is None:
                raise
        if body.refusal is not None:
            await response_of(scope["path"], body.refusal)(scope, receive, send)

    async def _caller_of(self, scope: Scope) -> Caller:
        if not self._settings.keys_needed:
            return ANYONE
        path = scope["path"]
        if is_open(path) or (path == METRICS_PATH and self._settings.metrics_open):
            return STRANGER
        return await self._keys.caller_of(_shown_key(Headers(scope=scope)))

    def _limit(self, path: str, caller: Caller) -> int:
        is_upload = path in UPLOAD_PATHS
        limit = self._settings.max_upload_bytes if is_upload else self._settings.max_body_bytes
        own = caller.limits.max_body_bytes
        return limit if own is None else min(limit, own)


class _CountedBody:
    """The body of one request, counted and timed as it comes, and the way of its response."""

    def __init__(self, receive: Receive, send: Send, limit: int) -> None:
        self._receive = receive
        self._send = send
        self._left = self._limit = limit
        self._is_whole = False
        self._patience = PATIENCE
        self._has_answered = False
        self._refusal: BodyTooLarge | HTTPException | None = None

    @property
    def refusal(self) -> BodyTooLarge | HTTPException | None:
        """The error in the body, if the response has not started."""
        return None if self._has_answered else self._refusal

    async def receive(self) -> Message:
        """The next part of the body.

        Raises:
            BodyTooLarge: the parts together exceed the limit.
            HTTPException: 408, no part arrived in time, or the parts come too slowly.
        """
        if self._is_whole:  # what comes now is the end of the connection
            return await self._receive()
        began = time.monotonic()
        try:
            async with asyncio.timeout(min(LONGEST_SILENCE, self._patience)):
                message = await self._receive()
        except TimeoutError:
            detail = (
                f"the body arrives too slowly: send at least {SLOWEST:g} bytes per second, without "
                f"pauses over {LONGEST_SILENCE:g} s"
            )
            self._refusal = HTTPException(408, detail)
            raise self._refusal from None
        # Only time spent waiting counts: what the service is slow to read costs the client nothing.
        self._patience -= time.monotonic() - began
        if message["type"] == "http.request":
            self._is_whole = not message.get("more_body", False)
            self._left -= len(message.get("body", b""))
            self._patience += len(message.get("body", b"")) / SLOWEST
            if self._left < 0:
                self._refusal = BodyTooLarge(self._limit)
                raise self._refusal
        return message

    async def send(self, message: Message) -> None:
        """Sends the response, unless it only restates an error in the body.

        Code that reads the body may mistake its early end for another fault of the client.
        """
        if self.refusal is not None:
            return
        self._has_answered = True
        await self._send(message)


def _shown_key(headers: Headers) -> str:
    """The key in a request's headers; never from the URL, because URLs end up in logs."""
    shown = headers.getlist("authorization")
    if len(shown) > 1:
        raise AccessDenied(f"there are {len(shown)} Authorization headers: {_HOW}")
    if shown:
        scheme, _, key = shown[0].partition(" ")
        if scheme.lower() != "bearer":
            raise AccessDenied(f"the Authorization header's scheme is {scheme[:20]!r}: {_HOW}")
        return key.strip()
    if not headers.get("x-api-key"):
        raise AccessDenied(f"there is no API key: {_HOW}")
    return headers["x-api-key"].strip()


def _check_head(scope: Scope) -> None:
    """Refuses requests whose head would take long to read, or names what no database can hold."""
    if (found := len(scope["headers"])) > MOST_HEADERS:
        raise HTTPException(431, f"there are {found} headers: send at most {MOST_HEADERS}")
    if (found := len(scope.get("query_string", b""))) > LONGEST_QUERY:
        raise HTTPException(414, f"the query has {found} bytes: send at most {LONGEST_QUERY}")
    if "\0" in scope["path"] or b"%00" in scope.get("query_string", b""):
        raise HTTPException(400, "the address holds the character U+0000 (%00): remove it")


def _check_announced_length(scope: Scope, limit: int) -> None:
    announced = Headers(scope=scope).get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise BodyTooLarge(limit)


def _require(*scopes: AccessScope) -> Callable[..., Awaitable[Caller]]:
    async def check(  # were it no coroutine, a thread would run it
        request: Request,
        bearer: Annotated[Any, Security(_bearer)],
        header: Annotated[Any, Security(_header)],
    ) -> Caller:
        caller: Caller = request.state.caller
        require_any(caller, *scopes)
        return caller

    return check


def require_any(caller: Caller, *scopes: AccessScope) -> None:
    """Returns if the caller has one of these scopes.

    Raises:
        AccessDenied: it has none of them.
    """
    if not any(map(caller.may, scopes)):
        has = ", ".join(sorted(caller.scopes))
        raise AccessDenied(
            f"this needs a key with scope {' or '.join(scopes)}, and yours has {has}: operators "
            f"create it with `rlcm keys new --name NAME --scope {scopes[0]}`",
            known=True,
        )


require_solve = _require(AccessScope.SOLVE)
"""The caller, who may ask; for `Depends`."""
require_admin = _require(AccessScope.ADMIN)
"""The caller, who may change what the service does; for `Depends`."""
require_label = _require(AccessScope.LABEL, AccessScope.SOLVE)
"""The caller, who may label answers, at least its own; for `Depends`."""
require_overview = _require(AccessScope.SOLVE, AccessScope.METRICS)
"""The caller, who may read figures, at least its own; for `Depends`."""
require_metrics = _require(AccessScope.METRICS)
"""The caller, who may read the figures of all; for `Depends`."""
MaySolve = Annotated[Caller, Depends(require_solve)]
MayLabel = Annotated[Caller, Depends(require_label)]
MayReadMetrics = Annotated[Caller, Depends(require_metrics)]
MayAdminister = Annotated[Caller, Depends(require_admin)]
MayReadFigures = Annotated[Caller, Depends(require_overview)]


def keyed(
    check: Callable[..., Awaitable[Caller]],
    *statuses: int,
    responses: dict[int | str, dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """What the declaration of a route says if the route needs a key.

    Args:
        check: `require_solve` or `require_admin`.
        statuses: of error responses, besides 400, 401, 403, 421, 422 (a parameter or a body that
            the route does not take), 500 and 503 (the keys cannot be read).
        responses: those that are no errors, if they need a description.
    """
    errors = documented(*sorted({400, 401, 403, 421, 422, 500, 503, *statuses}))
    return {"dependencies": [Security(check)], "responses": (responses or {}) | errors}


def tenant_of(caller: Caller) -> Tenant:
    """The caller, as the queue knows it."""
    limits = caller.limits
    return Tenant(caller.key_id or "", limits.weight or 1.0, limits.max_running)


def cap_question(
    caller: Caller, settings: Settings, question: Question, budget: int | None = None
) -> Question:
    """Checks a question against the caller's limits; sets its time limit if it has none.

    Args:
        caller: who sent the request.
        settings: the service's settings.
        question: the question to check.
        budget: thinking tokens of a sample if the question does not say.

    Raises:
        RequestRefused: the question exceeds a limit; the message names it.
    """
    limits = caller.limits
    _cap_length("messages", len(question.messages), settings.max_messages)
    _cap_length("characters", question.characters, settings.max_prompt_chars)
    _cap("n", question.samples, settings.max_n, limits.max_n)
    tokens, by_default = question.max_tokens, ""
    if tokens is None:
        tokens, by_default = budget, " by default"
    _cap("max_tokens", tokens, settings.max_thinking_tokens, limits.max_tokens, by_default)
    _cap("timeout_s", question.timeout, settings.timeout_s, limits.timeout_s)
    if question.timeout is not None:
        return question
    own = limits.timeout_s
    longest = settings.timeout_s if own is None else min(settings.timeout_s, own)
    return replace(question, timeout=longest)


def _cap(
    field: str,
    asked: float | None,
    service: float | None,
    key: float | None,
    by_default: str = "",
) -> None:
    if asked is None:
        return
    for whose, most in (("this service", service), ("this key", key)):
        if most is not None and asked > most:
            remedy = f"give {field} of {most:.12g} or less" if by_default else "lower it"
            raise RequestRefused(
                field,
                f"{field} is {asked:.12g}{by_default}, and {whose} allows at most {most:.12g}: "
                f"{remedy}",
            )


def _cap_length(what: str, counted: int, most: int | None) -> None:
    if most is not None and counted > most:
        raise RequestRefused(
            "problem",
            f"the conversation has {counted} {what}, and this service allows at most {most}: "
            "shorten it",
        )
