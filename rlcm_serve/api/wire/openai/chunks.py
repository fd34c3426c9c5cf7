"""Wire types of the chunks that `/v1/chat/completions` streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.openai.request import ChatRequest
from rlcm_serve.api.wire.openai.response import (
    AnswerMessage,
    ChatUsage,
    FinishReason,
    RlcmBody,
    finish_reason_of,
)
from rlcm_serve.core import Question, Solution


class ChunkDelta(Wire):
    """What a chunk adds to the message. Fields that are missing do not change."""

    role: Annotated[
        Literal["assistant"] | None,
        Field(
            description="Author of the message; only in the first chunk.", examples=["assistant"]
        ),
    ] = None
    content: Annotated[str | None, Field(description="The answer.", examples=["8"])] = None
    refusal: Annotated[
        str | None,
        Field(
            description="A sentence that explains the abstention, in place of an answer.",
            examples=[None],
        ),
    ] = None
    reasoning: Annotated[
        str | None, Field(description="Further text of the thinking.", examples=[" up"])
    ] = None
    reasoning_content: Annotated[
        str | None,
        Field(
            description="The same as `reasoning`, for clients that read this name.",
            examples=[" up"],
        ),
    ] = None


class ChunkChoice(Wire):
    """What a chunk adds to the response."""

    index: Annotated[
        Literal[0], Field(description="Always 0: there is one choice.", examples=[0])
    ] = 0
    delta: Annotated[
        ChunkDelta,
        Field(description="What is added to the message.", examples=[{"reasoning": " up"}]),
    ]
    finish_reason: Annotated[
        FinishReason | None,
        Field(description="Why the response ended; null until it ends.", examples=[None]),
    ] = None


class ChatChunk(Wire):
    """A chunk of a streamed chat completion."""

    id: Annotated[
        str,
        Field(
            description="Id of the response, the same in every chunk.",
            examples=["chatcmpl-9f86d08188"],
        ),
    ]
    object: Annotated[
        Literal["chat.completion.chunk"],
        Field(description="Type of the object.", examples=["chat.completion.chunk"]),
    ]
    created: Annotated[
        int,
        Field(
            description="When the response began, in seconds since 1970 (UTC).",
            examples=[1790000000],
        ),
    ]
    model: Annotated[str, Field(description="Name of the model.", examples=["embedded"])]
    choices: Annotated[
        list[ChunkChoice],
        Field(
            description="One choice; empty in the chunk that has the usage.",
            examples=[[{"index": 0, "delta": {"content": "8"}, "finish_reason": None}]],
        ),
    ]
    usage: Annotated[
        ChatUsage | None,
        Field(
            description="Tokens of the question, in the last chunk if `include_usage` is true.",
            examples=[None],
        ),
    ] = None
    rlcm: Annotated[
        RlcmBody | None,
        Field(
            description="The guarantee and the details of the answer, in the chunk that has the"
            " `finish_reason`.",
            examples=[None],
        ),
    ] = None


class ChunkWriter:
    """Writes the chunks of one response.

    Args:
        response_id: the same for all of them.
        created: when the response began, in seconds since 1970.
        model: that answers.
        include_usage: whether a chunk with the usage ends them.
    """

    def __init__(self, response_id: str, created: int, model: str, include_usage: bool) -> None:
        self._same = {
            "id": response_id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
        }
        self._include_usage = include_usage

    def first(self) -> str:
        """The chunk that says who speaks."""
        return self._chunk(ChunkDelta(role="assistant"))

    def thinking(self, text: str) -> str:
        """A chunk with more of the thinking."""
        return self._chunk(ChunkDelta(reasoning=text, reasoning_content=text))

    def last(self, body: ChatRequest, question: Question, solution: Solution) -> Iterator[str]:
        """What follows once the solution is known: what of the message was not sent yet, the end,
        and the usage if it was asked for.
        """
        message = AnswerMessage.of(question, solution)
        if question.samples > 1 and message.reasoning is not None:
            yield self.thinking(message.reasoning)
        if message.content is not None:
            yield self._chunk(ChunkDelta(content=message.content))
        else:
            yield self._chunk(ChunkDelta(refusal=message.refusal))
        rlcm = RlcmBody.of(body, question, solution)
        yield self._chunk(ChunkDelta(), finish_reason_of(solution), rlcm)
        if self._include_usage:
            usage = ChatUsage.from_solution(solution)
            yield _text({**self._same, "choices": [], "usage": usage})

    def _chunk(
        self,
        delta: ChunkDelta,
        finish_reason: FinishReason | None = None,
        rlcm: RlcmBody | None = None,
    ) -> str:
        choice = ChunkChoice(index=0, delta=delta, finish_reason=finish_reason)
        fields: dict[str, Any] = {**self._same, "choices": [choice]}
        if self._include_usage:
            fields["usage"] = None
        if rlcm is not None:
            fields["rlcm"] = rlcm
        return _text(fields)


def _text(fields: Mapping[str, Any]) -> str:
    """Only what was set: in a delta null would not mean the same as nothing."""
    return ChatChunk.model_validate(fields).model_dump_json(exclude_unset=True)
