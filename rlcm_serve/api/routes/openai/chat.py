"""`/v1/chat/completions`."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, Response

from rlcm_serve.api.access import MaySolve, require_solve
from rlcm_serve.api.bodies import JsonRoute
from rlcm_serve.api.context import ContextOfApp
from rlcm_serve.api.idempotency.header import TAKES_KEY
from rlcm_serve.api.routes.openai.answering import answer
from rlcm_serve.api.routes.openai.documents import ANSWERED
from rlcm_serve.api.streams import data_stream
from rlcm_serve.api.wire.openai.chat.chunks import DONE, ChatChunk, ChatWriter
from rlcm_serve.api.wire.openai.chat.request import ChatRequest
from rlcm_serve.api.wire.openai.chat.response import ChatCompletion
from rlcm_serve.api.wire.openai.models import ErrorResponse
from rlcm_serve.errors import NotFound

router = APIRouter(prefix="/v1", tags=["OpenAI"], route_class=JsonRoute)
_STREAM = data_stream(
    "The completion as JSON. With `stream`: its chunks as server-sent events. The last event is "
    "`[DONE]`, or an `error` if the question fails.",
    ChatChunk,
    ErrorResponse,
    last=DONE,
)


@router.post(
    "/chat/completions",
    response_model=ChatCompletion,
    responses=_STREAM | ANSWERED,
    dependencies=[TAKES_KEY],
)
async def create_chat_completion(
    body: ChatRequest, request: Request, context: ContextOfApp, caller: MaySolve
) -> Response:
    """Answers the last message of a conversation at the risk that the caller accepts."""
    return await answer(body, ChatWriter, request, context, caller)


@router.post("/completions", include_in_schema=False, dependencies=[Depends(require_solve)])
async def refuse_completions() -> Response:
    """OpenAI's older interface, which continues texts."""
    raise NotFound("/v1/completions is not served: use /v1/chat/completions, with the same model")
