"""How the service is: for load balancers, and for Prometheus."""

from __future__ import annotations

from typing import Any, get_args

from fastapi import APIRouter, Response

from rlcm_serve.api.context import ContextOfApp
from rlcm_serve.api.error_responses import documented
from rlcm_serve.api.status import status_of
from rlcm_serve.api.wire.overview import State
from rlcm_serve.errors import NotReady

router = APIRouter(tags=["status"])


@router.head("/health", include_in_schema=False)
@router.get("/health", response_class=Response, responses=documented(503))
async def health(context: ContextOfApp) -> Response:
    """Empty 200 while the service starts, serves or restarts its engine; 503 once it gave up."""
    await context.service.check_health()
    return Response()


_NOT_READY = documented(
    503,
    state={
        "type": "string",
        "enum": [state for state in get_args(State) if state != "ready"],
        "description": "As in /overview. failed: waiting is of no use, the engine was given up.",
        "examples": ["restarting"],
    },
    stage={
        "type": "string",
        "description": "The same in words.",
        "examples": ["the engine died: attempt 1 to restart it in 0.8 s"],
    },
)


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", response_class=Response, responses=_NOT_READY)
async def readyz(context: ContextOfApp) -> Response:
    """Empty 200 if questions can be answered; else 503 with what the service is doing instead."""
    standing = await status_of(context)
    if standing.state != "ready":
        raise NotReady(standing.detail, standing.state)
    return Response()


_PAGE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Prometheus' text format.",
        "content": {
            "text/plain": {
                "schema": {"type": "string", "description": "One line for each series."},
                "example": 'rlcm_tokens_total{kind="reasoning"} 81920.0\n',
            }
        },
    }
}


@router.get("/metrics", response_class=Response, responses=_PAGE | documented(401))
def metrics(context: ContextOfApp) -> Response:
    """Everything that Prometheus scrapes; needs a key unless `metrics_open` is set."""
    # Not a coroutine: counting the jobs reads the database, which must not hold up the event loop.
    page, media_type = context.metrics.page()
    return Response(page, media_type=media_type)
