"""Which requests to vLLM's server are ours.

vLLM attaches plugins after its own routes, so a route of the same path would never be reached. Ours
are taken out before vLLM routes a request, and go to our whole application, with all its checks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rlcm_serve.api.access import METRICS_PATH
from rlcm_serve.api.error_responses import response_of

ROUTES = (
    "/solve",
    "/aggregate",
    "/certificates",
    "/rehearsals",
    "/answers",
    "/feedback",
    "/audit",
    "/monitoring",
)
"""Ours, with everything below them."""
SHARED = ("/v1/chat/completions", "/v1/responses")
"""Ours where a request names a risk (`alpha`); vLLM answers it otherwise."""
METRICS = "/rlcm/metrics"
"""Where our metrics are, as vLLM has its own at `/metrics`."""
MISSING = ("/calibrations", "/overview", "/page")
"""Of `rlcm serve`, and not here."""


class Dispatch:
    """Passes each request to our application or to vLLM's.

    Attributes:
        app: ours; None until it can answer.
    """

    def __init__(self) -> None:
        self.app: FastAPI | None = None

    def in_front_of(self, vllm: ASGIApp) -> ASGIApp:
        """The middleware around vLLM's application."""

        async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or self.app is None:
                await vllm(scope, receive, send)
                return
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            # Our checks go by the path, so ours has no prefix.
            own = {**scope, "path": METRICS_PATH if path == METRICS else path, "root_path": ""}
            if path in SHARED and scope["method"] == "POST":
                body, receive = await _read_ahead(receive)
                if _names_risk(body):
                    await self.app(own, receive, send)
                else:
                    await vllm(scope, receive, send)
            elif path == METRICS or _is_below(path, ROUTES):
                await self.app(own, receive, send)
            elif _is_below(path, MISSING):
                error = HTTPException(404, f"{path} is not in `vllm serve`: use `rlcm serve`")
                await response_of(path, error)(scope, receive, send)
            else:
                await vllm(scope, receive, send)

        return dispatch


def _is_below(path: str, roots: Sequence[str]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in roots)


async def _read_ahead(receive: Receive) -> tuple[bytes, Receive]:
    """The whole body, which vLLM holds in memory as well, and a `receive` that gives it again."""
    messages: list[Message] = []
    while not messages or messages[-1].get("more_body", False):
        messages.append(await receive())
    replay = iter(messages)

    async def again() -> Message:
        return next(replay, None) or await receive()

    return b"".join(message.get("body", b"") for message in messages), again


def _names_risk(body: bytes) -> bool:
    """Whether the body is JSON with `alpha`."""
    try:
        asked: Any = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(asked, dict) and asked.get("alpha") is not None
