"""`/overview`: the state of the service, for operators."""

from __future__ import annotations

from fastapi import APIRouter, Security

from rlcm_serve.api.access import require_solve
from rlcm_serve.api.context import ContextOfApp
from rlcm_serve.api.error_responses import documented
from rlcm_serve.api.overview import overview
from rlcm_serve.api.wire.overview import OverviewBody

router = APIRouter(tags=["status"])


@router.get(
    "/overview", responses=documented(401, 403, 500), dependencies=[Security(require_solve)]
)
async def read_overview(context: ContextOfApp) -> OverviewBody:
    """Returns the state of the service: engine, queue, counters, certificates and jobs."""
    return await overview(context)
