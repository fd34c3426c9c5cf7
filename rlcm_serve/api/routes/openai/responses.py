"""`/v1/responses`."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, Response

from rlcm_serve.api.access import MaySolve, require_solve
from rlcm_serve.api.bodies import JsonRoute
from rlcm_serve.api.context import ContextOfApp
from rlcm_serve.api.idempotency.header import TAKES_KEY
from rlcm_serve.api.routes.openai.answering import answer
from rlcm_serve.api.routes.openai.documents import ANSWERED
from rlcm_serve.api.streams import event_stream
from rlcm_serve.api.wire.openai.responses.events import EVENTS
from rlcm_serve.api.wire.openai.responses.request import ResponseRequest
from rlcm_serve.api.wire.openai.responses.response import ResponseBody
from rlcm_serve.api.wire.openai.responses.writer import ResponsesWriter
from rlcm_serve.errors import NotFound

router = APIRouter(prefix="/v1", tags=["OpenAI"], route_class=JsonRoute)
_STREAM = event_stream(
    "The response as JSON. With `stream`: its events. The last event is `response.completed` or "
    "`response.incomplete`, or an `error` if the question fails.",
    EVENTS,
)


@router.post(
    "/responses",
    response_model=ResponseBody,
    responses=_STREAM | ANSWERED,
    dependencies=[TAKES_KEY],
)
async def create_response(
    body: ResponseRequest, request: Request, context: ContextOfApp, caller: MaySolve
) -> Response:
    """Answers a question, or the last message of a conversation, at the risk that the caller
    accepts.
    """
    return await answer(body, ResponsesWriter, request, context, caller)


@router.api_route(
    "/responses/{rest:path}",
    methods=["GET", "POST", "DELETE"],
    include_in_schema=False,
    dependencies=[Depends(require_solve)],
)
async def refuse_stored_responses(rest: str) -> Response:
    """What OpenAI does with responses that it has stored."""
    raise NotFound(
        "responses are not stored: send the whole conversation in `input` of POST /v1/responses"
    )
