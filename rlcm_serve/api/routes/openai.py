"""`/v1`: the part of OpenAI's API that this service supports."""

from __future__ import annotations

import asyncio
import functools
import json
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request, Response

from rlcm_serve.api.access import MaySolve, require_solve
from rlcm_serve.api.ask import LiveSolution, ask, while_connected
from rlcm_serve.api.bodies import JsonRoute
from rlcm_serve.api.context import Context, ContextOfApp
from rlcm_serve.api.error_responses import MEANING, document_of, report_unexpected
from rlcm_serve.api.event_stream import event_response, frame
from rlcm_serve.api.idempotency.header import TAKES_KEY
from rlcm_serve.api.streams import data_stream
from rlcm_serve.api.wire.headers import guarantee_header
from rlcm_serve.api.wire.openai.answer_text import AnswerStream
from rlcm_serve.api.wire.openai.chunks import ChatChunk, ChunkWriter
from rlcm_serve.api.wire.openai.models import ErrorResponse, ModelCard, ModelList
from rlcm_serve.api.wire.openai.request import ChatRequest
from rlcm_serve.api.wire.openai.response import ChatCompletion
from rlcm_serve.core import Question, Solution
from rlcm_serve.errors import ModelNotFound, NotFound, RequestRefused
from rlcm_serve.evidence.records import new_id
from rlcm_serve.profiles.profile import DEFAULT_NAME

router = APIRouter(prefix="/v1", tags=["OpenAI"], route_class=JsonRoute)
ModelName = Annotated[
    str,
    Path(
        description="Id of the model, as given to `rlcm serve --model`.",
        examples=["embedded"],
    ),
]


def _documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Error responses with these statuses, in OpenAI's envelope."""
    phrases: dict[int | str, str] = {status: MEANING[status] for status in statuses}
    phrases["4XX"] = "The request is invalid in another way"  # replaces FastAPI's own 422
    return {
        status: {"model": ErrorResponse, "description": phrase}
        for status, phrase in phrases.items()
    }


_DONE = "[DONE]"
_STREAM = data_stream(
    "The completion as JSON. With `stream`: its chunks as server-sent events. The last event is "
    "`[DONE]`, or an `error` if the question fails.",
    ChatChunk,
    ErrorResponse,
    last=_DONE,
)


@router.post(
    "/chat/completions",
    response_model=ChatCompletion,
    responses=_STREAM
    | _documented(400, 401, 403, 404, 409, 413, 415, 421, 422, 429, 500, 503, 504),
    dependencies=[TAKES_KEY],
)
async def create_chat_completion(
    body: ChatRequest, request: Request, context: ContextOfApp, caller: MaySolve
) -> Response:
    """Answers the last message of a conversation at the risk that the caller accepts."""
    profile = _profile_of(context, body.model)
    response_id, created = new_id(), int(time.time())
    with _in_terms_of(body):
        question = _under(profile, body.to_question(context.settings.default_alpha))
        asking = functools.partial(
            ask, context, caller, question, since=request.state.arrived, id_=response_id
        )
        if not body.stream:
            solution = await while_connected(request, asking())

            def write() -> str:
                answered = ChatCompletion.of(response_id, created, body, question, solution)
                return answered.model_dump_json()

            # With traces it may be megabytes.
            answered = await asyncio.to_thread(write) if body.return_trace else write()
            headers = guarantee_header(solution.guarantee)
            return Response(answered, media_type="application/json", headers=headers)
        is_live = question.samples == 1
        live = LiveSolution(functools.partial(asking, text=is_live))
        prepared = await live.start(request)
    guarantee = prepared.terms.guarantee
    writer = ChunkWriter(response_id, created, body.model, guarantee, body.include_usage)
    # What the model writes by itself need not follow a schema, and is not the answer then.
    is_own = prepared.generation.schema is None
    answer = AnswerStream(prepared.terms.policy if is_own else None, body.stops)
    chunks = _chunks(live, writer, answer, body, question)
    return event_response(chunks, context.settings.heartbeat_s, guarantee_header(guarantee))


async def _chunks(
    live: LiveSolution,
    writer: ChunkWriter,
    answer: AnswerStream,
    body: ChatRequest,
    question: Question,
) -> AsyncGenerator[bytes]:
    """The chunks of a question that has started; a complete stream ends with `[DONE]`.

    With one sample, its thinking is streamed as it is generated, and so is its answer's text. With
    several, only the thinking of the sample that gives the answer is sent, before the answer.
    """
    try:
        yield frame(writer.first())
        async for events in live.events():
            spoken = [chunk for one in events if (chunk := writer.spoken(one, answer))]
            yield b"".join(map(frame, spoken))
        outcome = await live.outcome()
        if isinstance(outcome, Solution):
            for chunk in await asyncio.to_thread(
                list, writer.last(answer, body, question, outcome)
            ):
                yield frame(chunk)
            yield frame(_DONE)
        else:  # the status is already sent: the stream reports the error
            report_unexpected(outcome)
            yield frame(json.dumps(document_of(outcome).openai_error()))
    finally:
        live.cancel()


@router.post("/responses", include_in_schema=False, dependencies=[Depends(require_solve)])
@router.post("/completions", include_in_schema=False, dependencies=[Depends(require_solve)])
async def refuse_other_interfaces(request: Request) -> Response:
    """OpenAI's other interfaces to a model, which keep state or continue texts."""
    raise NotFound(
        f"{request.url.path} is not served: use /v1/chat/completions, with the same model"
    )


_MODELS = _documented(401, 403, 404, 421, 500, 503)


@router.get("/models", responses=_MODELS, dependencies=[Depends(require_solve)])
async def list_models(context: ContextOfApp) -> ModelList:
    """Lists the model that is served: alone, and with each of its prompt profiles."""
    return ModelList(data=[ModelCard(id=name) for name in _models(context)])


@router.get("/models/{model:path}", responses=_MODELS, dependencies=[Depends(require_solve)])
async def retrieve_model(model: ModelName, context: ContextOfApp) -> ModelCard:
    """Describes the model that is served."""
    _profile_of(context, model)
    return ModelCard(id=model)


def _models(context: Context) -> dict[str, str | None]:
    """The names that a request may give as its model, each with the profile that it stands for.

    Raises:
        NotReady, EngineDead: no model is being served.
    """
    names, identities = context.model_names, context.service.solver.guarantees.identities
    profiles = [one.profile.name for one in identities if one.profile.name != DEFAULT_NAME]
    plain = dict.fromkeys(names)
    return plain | {
        under: profile
        for name, profile in product(names, profiles)
        if (under := f"{name}:{profile}") not in plain
    }


def _profile_of(context: Context, asked: str) -> str | None:
    """The profile that a model's name ends in; None for the name alone.

    Raises:
        ModelNotFound: the request names another model or profile.
        NotReady, EngineDead: no model is being served.
    """
    models = _models(context)
    if asked not in models:
        raise ModelNotFound(asked, list(models))
    return models[asked]


def _under(profile: str | None, question: Question) -> Question:
    """The question under the profile that its model's name ends in.

    Raises:
        RequestRefused: the question names another one.
    """
    if profile is None or question.profile in (None, profile):
        return replace(question, profile=profile or question.profile)
    raise RequestRefused(
        "profile",
        f"profile is {question.profile!r}, but the model's name ends in {profile!r}: give one",
    )


@contextmanager
def _in_terms_of(body: ChatRequest) -> Iterator[None]:
    """Renames the fields in refusals to their names in OpenAI's API."""
    try:
        yield
    except RequestRefused as error:
        raise body.in_its_terms(error) from error
