"""Wire types of the chunks that `/v1/chat/completions` streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.openai.answer_text import AnswerStream
from rlcm_serve.api.wire.openai.request import ChatRequest
from rlcm_serve.api.wire.openai.response import (
    AnswerMessage,
    ChatUsage,
    FinishReason,
    RlcmBody,
    finish_reason_of,
)
from rlcm_serve.core import Guarantee, Question, Solution
from rlcm_serve.events import Event, TokenEvent


class ChunkDelta(Wire):
    """What a chunk adds to the message. Fields that are missing do not change."""

    role: Literal["assistant"] | None = Field(default=None, examples=["assistant"])
    """Author of the message; only in the first chunk."""
    content: str | None = Field(default=None, examples=["8"])
    """Further text of the answer."""
    refusal: str | None = Field(default=None, examples=[None])
    """A sentence that explains the abstention, in place of an answer."""
    reasoning: str | None = Field(default=None, examples=[" up"])
    """Further text of the thinking."""
    reasoning_content: str | None = Field(default=None, examples=[" up"])
    """The same as `reasoning`, for clients that read this name."""


class ChunkChoice(Wire):
    """What a chunk adds to the response."""

    index: Literal[0] = Field(default=0, examples=[0])
    """Always 0: there is one choice."""
    delta: ChunkDelta = Field(examples=[{"reasoning": " up"}])
    """What is added to the message."""
    finish_reason: FinishReason | None = Field(default=None, examples=[None])
    """Why the response ended; null until it ends."""


class ChatChunk(Wire):
    """A chunk of a streamed chat completion."""

    id: str = Field(examples=["chatcmpl-9f86d08188"])
    """Id of the response, the same in every chunk."""
    object: Literal["chat.completion.chunk"] = Field(examples=["chat.completion.chunk"])
    """Type of the object."""
    created: int = Field(examples=[1790000000])
    """When the response began, in seconds since 1970 (UTC)."""
    model: str = Field(examples=["embedded"])
    """Name of the model."""
    system_fingerprint: str | None = Field(default=None, examples=["4552eb6e69a7"])
    """Id of the certificate that covers the answer; null without a guarantee."""
    choices: list[ChunkChoice] = Field(examples=[[ChunkChoice.example(delta={"content": "8"})]])
    """One choice; empty in the chunk that has the usage."""
    usage: ChatUsage | None = Field(default=None, examples=[None])
    """Tokens of the question, in the last chunk if `include_usage` is true."""
    rlcm: RlcmBody | None = Field(default=None, examples=[None])
    """The guarantee and the details of the answer, in the chunk that has the `finish_reason`."""


class ChunkWriter:
    """Writes the chunks of one response.

    Args:
        response_id: the same for all of them.
        created: when the response began, in seconds since 1970.
        model: that answers.
        guarantee: that covers the answer.
        include_usage: whether a chunk with the usage ends them.
    """

    def __init__(
        self,
        response_id: str,
        created: int,
        model: str,
        guarantee: Guarantee | None,
        include_usage: bool,
    ) -> None:
        self._same = {
            "id": response_id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
            "system_fingerprint": None if guarantee is None else guarantee.certificate,
        }
        self._include_usage = include_usage
        self._id = response_id

    def first(self) -> str:
        """The first chunk, which carries the role."""
        return self._chunk(ChunkDelta(role="assistant"))

    def thinking(self, text: str) -> str:
        """A chunk with more of the thinking."""
        return self._chunk(ChunkDelta(reasoning=text, reasoning_content=text))

    def spoken(self, event: Event, answer: AnswerStream) -> str | None:
        """A chunk with the text of an event: more of the thinking, or of the answer; or None."""
        if isinstance(event, TokenEvent) and not event.is_answer:
            return self.thinking(event.text)
        text = answer.take(event)
        return self._chunk(ChunkDelta(content=text)) if text else None

    def last(
        self, answer: AnswerStream, body: ChatRequest, question: Question, solution: Solution
    ) -> Iterator[str]:
        """The last chunks: the rest of the message, the finish reason, and the usage if it was
        requested.
        """
        message = AnswerMessage.of(body, question, solution)
        if question.samples > 1 and message.reasoning is not None:
            yield self.thinking(message.reasoning)
        if message.content is not None:
            if rest := answer.rest(message.content):
                yield self._chunk(ChunkDelta(content=rest))
        else:
            yield self._chunk(ChunkDelta(refusal=message.refusal))
        rlcm = RlcmBody.of(self._id, body, question, solution)
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
    """The JSON of the fields that were set: in a delta, null and a missing field differ."""
    return ChatChunk.model_validate(fields).model_dump_json(exclude_unset=True)
