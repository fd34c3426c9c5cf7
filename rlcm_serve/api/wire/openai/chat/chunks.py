"""The chunks that `/v1/chat/completions` streams, and what writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from rlcm_serve.api.error_responses import ErrorDocument
from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.openai.chat.request import ChatRequest
from rlcm_serve.api.wire.openai.chat.response import (
    AnswerMessage,
    ChatCompletion,
    ChatUsage,
    Choice,
)
from rlcm_serve.api.wire.openai.outcome import FinishReason, Outcome, RlcmBody
from rlcm_serve.api.wire.openai.writer import ResponseWriter, Sent
from rlcm_serve.api.wire.solution import GuaranteeBody
from rlcm_serve.core import Guarantee, Question

DONE = "[DONE]"
"""Data of the last event of a complete stream."""


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
    system_fingerprint: str | None = Field(default=None, examples=["571b667eda0c"])
    """Id of the certificate that covers the answer; null without a guarantee."""
    choices: list[ChunkChoice] = Field(examples=[[ChunkChoice.example(delta={"content": "8"})]])
    """One choice; empty in the chunk that has the usage."""
    usage: ChatUsage | None = Field(default=None, examples=[None])
    """Tokens of the question, in the last chunk if `include_usage` is true."""
    rlcm: RlcmBody | None = Field(default=None, examples=[None])
    """The guarantee and the details of the answer, in the chunk that has the `finish_reason`."""


class ChatWriter(ResponseWriter):
    """Writes a chat completion, or its chunks."""

    id_prefix = "chatcmpl-"

    def __init__(self, body: ChatRequest, question: Question) -> None:
        super().__init__(body, question)
        self._include_usage = body.include_usage
        self._same: dict[str, Any] = {"id": self.id, "created": self.created, "model": body.model}

    def _whole(self, outcome: Outcome, guarantee: Guarantee | None) -> str:
        self._cover(guarantee)
        choice = Choice(message=AnswerMessage.of(outcome), finish_reason=outcome.finish_reason)
        usage = ChatUsage.of(outcome.counts)
        whole = ChatCompletion(**self._same, choices=[choice], usage=usage, rlcm=outcome.rlcm)
        return whole.model_dump_json()

    def _begin(self, guarantee: Guarantee | None) -> Iterator[Sent]:
        self._cover(guarantee)
        yield self._chunk(ChunkDelta(role="assistant"))

    def _think(self, text: str) -> Iterator[Sent]:
        yield self._chunk(ChunkDelta(reasoning=text, reasoning_content=text))

    def _write(self, text: str) -> Iterator[Sent]:
        yield self._chunk(ChunkDelta(content=text))

    def _refuse(self, text: str) -> Iterator[Sent]:
        yield self._chunk(ChunkDelta(refusal=text))

    def _end(self, outcome: Outcome) -> Iterator[Sent]:
        self._cover(outcome.rlcm.guarantee)  # it may have been lost since the beginning
        # Without any content, clients would take the answer for an abstention.
        rest = ChunkDelta(content="") if outcome.content == "" else ChunkDelta()
        yield self._chunk(rest, outcome.finish_reason, outcome.rlcm)
        if self._include_usage:
            yield _sent({**self._same, "choices": [], "usage": ChatUsage.of(outcome.counts)})
        yield Sent(DONE)

    def failure(self, error: ErrorDocument) -> Sent:
        """An error in OpenAI's envelope."""
        return Sent(json.dumps(error.openai_error()))

    def _cover(self, guarantee: Guarantee | GuaranteeBody | None) -> None:
        self._same["system_fingerprint"] = None if guarantee is None else guarantee.certificate

    def _chunk(
        self,
        delta: ChunkDelta,
        finish_reason: FinishReason | None = None,
        rlcm: RlcmBody | None = None,
    ) -> Sent:
        choice = ChunkChoice(index=0, delta=delta, finish_reason=finish_reason)
        fields: dict[str, Any] = {**self._same, "choices": [choice]}
        if self._include_usage:
            fields["usage"] = None
        if rlcm is not None:
            fields["rlcm"] = rlcm
        return _sent(fields)


def _sent(fields: Mapping[str, Any]) -> Sent:
    """A chunk with the fields that were set: in a delta, null and a missing field differ."""
    chunk = ChatChunk(object="chat.completion.chunk", **fields)
    return Sent(chunk.model_dump_json(exclude_unset=True))
