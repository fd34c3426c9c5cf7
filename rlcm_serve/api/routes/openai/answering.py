"""Answers a question that came in one of OpenAI's interfaces; all of them share this path."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from fastapi import Request, Response

from rlcm_serve.api.ask import LiveSolution, ask, while_connected
from rlcm_serve.api.context import Context
from rlcm_serve.api.error_responses import failed_in_stream
from rlcm_serve.api.event_stream import event_response, frame
from rlcm_serve.api.routes.openai.models import profile_of
from rlcm_serve.api.wire.headers import guarantee_header
from rlcm_serve.api.wire.openai.asked import OpenAIRequest
from rlcm_serve.api.wire.openai.writer import ResponseWriter, Sent
from rlcm_serve.core import Question, Solution
from rlcm_serve.errors import RequestRefused
from rlcm_serve.store.caller import Caller

Body = TypeVar("Body", bound=OpenAIRequest)


async def answer(
    body: Body,
    writer_of: Callable[[Body, Question], ResponseWriter],
    request: Request,
    context: Context,
    caller: Caller,
) -> Response:
    """The response to a request, whole or as a stream.

    Raises:
        RlcmError: as `ask`, with the names of fields in the request's interface.
    """
    profile = profile_of(context, body.model)
    with _in_terms_of(body):
        question = _under(profile, body.to_question(context.settings.default_alpha))
        writer = writer_of(body, question)
        asking = functools.partial(
            ask, context, caller, question, since=request.state.arrived, id_=writer.id
        )
        if not body.stream:
            solution = await while_connected(request, asking())
            write = functools.partial(writer.whole, solution)
            # With traces it may be megabytes.
            answered = await asyncio.to_thread(write) if body.return_trace else write()
            headers = guarantee_header(solution.guarantee)
            return Response(answered, media_type="application/json", headers=headers)
        is_live = question.samples == 1
        live = LiveSolution(functools.partial(asking, text=is_live))
        prepared = await live.start(request)
    frames = _frames(live, writer, list(writer.first(prepared)))
    headers = guarantee_header(prepared.terms.guarantee)
    return event_response(frames, context.settings.heartbeat_s, headers)


async def _frames(
    live: LiveSolution, writer: ResponseWriter, first: Iterable[Sent]
) -> AsyncGenerator[bytes]:
    """The stream of a question that has started, as it is sent."""
    try:
        yield _joined(first)
        async for events in live.events():
            yield _joined(sent for event in events for sent in writer.spoken(event))
        outcome = await live.outcome()
        if isinstance(outcome, Solution):
            for sent in await asyncio.to_thread(list, writer.last(outcome)):
                yield frame(*sent)
        else:  # the status is already sent: the stream reports the error
            yield frame(*writer.failure(failed_in_stream(outcome)))
    finally:
        live.cancel()


def _joined(events: Iterable[Sent]) -> bytes:
    return b"".join(frame(*sent) for sent in events)


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
def _in_terms_of(body: OpenAIRequest) -> Iterator[None]:
    """Renames the fields in refusals to their names in the request's interface."""
    try:
        yield
    except RequestRefused as error:
        raise body.in_its_terms(error) from error
