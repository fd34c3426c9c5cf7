"""`/overview`, `/health`, `/readyz` and `/metrics`: for operators, balancers and Prometheus."""

from __future__ import annotations

from functools import partial
from typing import Any, get_args

from fastapi import APIRouter, Request, Response

from rlcm_serve.api.access import MayReadFigures, keyed, require_any, require_overview
from rlcm_serve.api.context import ContextOfApp
from rlcm_serve.api.error_responses import documented
from rlcm_serve.api.overview import overview
from rlcm_serve.api.status import status_of
from rlcm_serve.api.wire.overview import OverviewBody, State
from rlcm_serve.errors import NotReady
from rlcm_serve.store.caller import Scope

router = APIRouter(tags=["status"])


@router.get("/overview", **keyed(require_overview))
async def read_overview(context: ContextOfApp, caller: MayReadFigures) -> OverviewBody:
    """Returns the state of the service: engine, queue, counters, certificates and jobs.

    A key without the scopes `metrics` and `admin` gets the figures of its own questions and jobs.
    """
    return await overview(context, caller)


@router.head("/health", include_in_schema=False)
@router.get("/health", response_class=Response, responses=documented(503))
async def health(context: ContextOfApp) -> Response:
    """Empty 200 while the service starts, runs or restarts its engine; 503 after it gave up."""
    await context.service.check_health()
    return Response()


_NOT_READY = documented(
    503,
    state={
        "type": "string",
        "enum": [*(state for state in get_args(State) if state != "ready"), "degraded"],
        "description": "State of the service, as in `/overview`. `failed`: the engine could not be "
        "started again, so only a restart of the service helps. `degraded`: the database cannot be "
        "used; questions are answered only where no key is needed.",
        "examples": ["restarting"],
    },
    stage={
        "type": "string",
        "description": "The state in words, for example the current stage of a start.",
        "examples": ["restarting the engine: attempt 1 of 10 begins in 0.8 s"],
    },
)


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", response_class=Response, responses=_NOT_READY)
async def readyz(context: ContextOfApp) -> Response:
    """Empty 200 if questions can be answered now; otherwise 503 with the current state."""
    status = await status_of(context)
    if status.state != "ready":
        raise NotReady(status.detail, status.state)
    if fault := await context.database.health.fault():
        raise NotReady(fault, "degraded")
    return Response()


_PAGE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Metrics in Prometheus' text format.",
        "content": {
            "text/plain": {
                "schema": {"type": "string", "description": "One line per time series."},
                "example": 'rlcm_tokens_total{kind="reasoning"} 81920.0\n',
            }
        },
    }
}


@router.get("/metrics", response_class=Response, responses=_PAGE | documented(401, 403, 503))
async def metrics(request: Request, context: ContextOfApp) -> Response:
    """Metrics for Prometheus. A key with scope `metrics` or `admin` is needed, unless the setting
    `metrics_open` is on.
    """
    if not context.settings.metrics_open:
        require_any(request.state.caller, Scope.METRICS)
    # A database that is silent must not keep the rest of the page beyond Prometheus' patience.
    has_database = await context.database.health.fault() is None
    read = context.database.threads.read
    page, media_type = await read(partial(context.metrics.page, has_database=has_database))
    return Response(page, media_type=media_type)
