"""`POST /aggregate`: votes on rollouts from any source. It needs no engine."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from rlcm_serve.api.access import MaySolve, keyed, require_solve, tenant_of
from rlcm_serve.api.aggregate import vote_on_array, vote_on_lines
from rlcm_serve.api.context import ContextOfApp
from rlcm_serve.api.media import JSON, NDJSON, media_type, unsupported
from rlcm_serve.api.server.threaded import Terms
from rlcm_serve.api.wire.aggregate import (
    ROLLOUTS_EXAMPLE,
    AggregateOptions,
    AggregateRequest,
    AggregateResponse,
    ResultBody,
    SummaryBody,
)
from rlcm_serve.api.wire.base import inline_schema

router = APIRouter(tags=["aggregate"])


def _lines(rows: list[dict[str, Any]], description: str) -> dict[str, Any]:
    example = "".join(f"{json.dumps(row)}\n" for row in rows)
    return {"schema": {"type": "string", "description": description, "examples": [example]}}


_REQUEST: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": inline_schema(AggregateRequest)},
            NDJSON: _lines(
                ROLLOUTS_EXAMPLE,
                "One rollout per line, as a JSON object with the same fields as in `rollouts`.",
            ),
        },
    }
}
_RESPONSE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The results, in the format of the request: one JSON object, or JSON lines.",
        "content": {
            NDJSON: _lines(
                [ResultBody.example(), {"summary": SummaryBody.example()}],
                "One result per line, then a last line with `summary` or with `error` and its "
                "response.",
            )
        },
    }
}


@router.post(
    "/aggregate",
    response_model=AggregateResponse,
    openapi_extra=_REQUEST,
    **keyed(require_solve, 408, 413, 415, 429, 503, 504, responses=_RESPONSE),
)
async def post_aggregate(
    request: Request,
    context: ContextOfApp,
    caller: MaySolve,
    options: Annotated[AggregateOptions, Query()],
) -> Response:
    r"""Votes on up to a million rollouts and returns one answer per problem.

    Answers of equal value, such as `0.5` and `\frac12`, are counted together.
    """
    kind, settings = media_type(request), context.settings
    terms = Terms(context.aggregations, tenant_of(caller), settings.aggregate_timeout_s)
    if kind == JSON:
        return vote_on_array(options, terms, settings.aggregate_compare_s)
    if kind == NDJSON:
        return vote_on_lines(options, terms, settings.aggregate_compare_s)
    raise unsupported(request, JSON, NDJSON)
