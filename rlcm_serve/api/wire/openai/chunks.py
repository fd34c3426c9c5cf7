"""What a stream of `/v1/chat/completions` sends: chunks, as OpenAI's clients put them together."""

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
    """What a chunk adds to the message; what it leaves out stays as it is."""

    role: Annotated[
        Literal["assistant"] | None,
        Field(description="Of the first chunk.", examples=["assistant"]),
    ] = None
    content: Annotated[str | None, Field(description="The answer.", examples=["8"])] = None
    refusal: Annotated[
        str | None, Field(description="Said instead of an answer.", examples=[None])
    ] = None
    reasoning: Annotated[str | None, Field(description="More thinking.", examples=[" up"])] = None
    reasoning_content: Annotated[
        str | None, Field(description="The same by another name.", examples=[" up"])
    ] = None


class ChunkChoice(Wire):
    """What a chunk adds to the one choice."""

    index: Annotated[Literal[0], Field(description="The first, and the last.", examples=[0])] = 0
    delta: Annotated[
        ChunkDelta, Field(description="What is added.", examples=[{"reasoning": " up"}])
    ]
    finish_reason: Annotated[
        FinishReason | None,
        Field(description="Null until nothing more is added.", examples=[None]),
    ] = None


class ChatChunk(Wire):
    """A part of a chat completion."""

    id: Annotated[str, Field(description="Of the response.", examples=["chatcmpl-9f86d08188"])]
    object: Annotated[
        Literal["chat.completion.chunk"],
        Field(description="What this is.", examples=["chat.completion.chunk"]),
    ]
    created: Annotated[int, Field(description="When it began.", examples=[1790000000])]
    model: Annotated[str, Field(description="That answers.", examples=["embedded"])]
    choices: Annotated[
        list[ChunkChoice],
        Field(
            description="One; none in the chunk of the usage.",
            examples=[[{"index": 0, "delta": {"content": "8"}, "finish_reason": None}]],
        ),
    ]
    usage: Annotated[
        ChatUsage | None,
        Field(description="If include_usage asked for it: of the last chunk.", examples=[None]),
    ] = None
    rlcm: Annotated[
        RlcmBody | None,
        Field(description="Of the chunk that has the finish_reason.", examples=[None]),
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
