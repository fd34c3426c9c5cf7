"""Wire types of the events that `/v1/responses` streams."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field

from rlcm_serve.api.error_responses import ErrorDocument
from rlcm_serve.api.wire.base import Wire, described
from rlcm_serve.api.wire.openai.models import ErrorBody
from rlcm_serve.api.wire.openai.responses.items import (
    OutputMessage,
    OutputRefusal,
    OutputText,
    ReasoningItem,
    ReasoningText,
)
from rlcm_serve.api.wire.openai.responses.response import ResponseBody

_KIND = "Name of the event."
_ITEM = "Id of the item."
_PART = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}


class Numbered(Wire):
    """An event of a response."""

    sequence_number: int = Field(examples=[3])
    """Number of the event in the stream, from 0."""


class ResponseEvent(Numbered):
    """The response as a whole: as it begins, and as it ends."""

    type: Annotated[
        Literal[
            "response.created",
            "response.in_progress",
            "response.completed",
            "response.incomplete",
        ],
        described(_KIND, "response.created"),
    ]
    response: ResponseBody = Field(examples=[ResponseBody.example()])
    """The response so far."""


class ItemEvent(Numbered):
    """An item of the output: as it begins, and as it ends."""

    type: Annotated[
        Literal["response.output_item.added", "response.output_item.done"],
        described(_KIND, "response.output_item.added"),
    ]
    output_index: int = Field(examples=[1])
    """Place of the item in the output."""
    item: ReasoningItem | OutputMessage = Field(examples=[OutputMessage.example(content=[])])
    """The item so far."""


class InPart(Numbered):
    """An event inside a part of an item."""

    item_id: Annotated[str, described(_ITEM, "msg_019aae2fb9c09f86d081884c7d659a2f")]
    output_index: int = Field(examples=[1])
    """Place of the item in the output."""
    content_index: int = Field(examples=[0])
    """Place of the part in the item."""


class PartEvent(InPart):
    """A part of an item: as it begins, and as it ends."""

    type: Annotated[
        Literal["response.content_part.added", "response.content_part.done"],
        described(_KIND, "response.content_part.added"),
    ]
    part: ReasoningText | OutputText | OutputRefusal = Field(examples=[_PART])
    """The part so far."""


class DeltaEvent(InPart):
    """More of the thinking or of a refusal."""

    type: Annotated[
        Literal["response.reasoning_text.delta", "response.refusal.delta"],
        described(_KIND, "response.reasoning_text.delta"),
    ]
    delta: str = Field(examples=[" up"])
    """Further text."""


class TextDeltaEvent(InPart):
    """More of the answer."""

    type: Annotated[
        Literal["response.output_text.delta"], described(_KIND, "response.output_text.delta")
    ]
    delta: str = Field(examples=["8"])
    """Further text."""
    logprobs: list[Any] = Field(default=[], examples=[[]])
    """Always empty: log-probabilities are not returned."""


class ReasoningDoneEvent(InPart):
    """The thinking is complete."""

    type: Annotated[
        Literal["response.reasoning_text.done"], described(_KIND, "response.reasoning_text.done")
    ]
    text: str = Field(examples=["A up 5: 8. ..."])
    """The whole thinking."""


class TextDoneEvent(InPart):
    """The answer is complete."""

    type: Annotated[
        Literal["response.output_text.done"], described(_KIND, "response.output_text.done")
    ]
    text: str = Field(examples=["\\boxed{8}"])
    """The whole text of the answer."""
    logprobs: list[Any] = Field(default=[], examples=[[]])
    """Always empty: log-probabilities are not returned."""


class RefusalDoneEvent(InPart):
    """The refusal is complete."""

    type: Annotated[Literal["response.refusal.done"], described(_KIND, "response.refusal.done")]
    refusal: str = Field(examples=["The service abstained: ..."])
    """The whole refusal."""


class ErrorEvent(Numbered):
    """The question failed: the end of its stream."""

    type: Annotated[Literal["error"], described(_KIND, "error")] = "error"
    code: str = Field(examples=["out_of_time"])
    """Code of the error."""
    message: str = Field(examples=["the question was not answered within 60 s"])
    """What is wrong, and how to fix it."""
    param: str | None = Field(examples=[None])
    """The field that caused the error; null if none did."""
    error: ErrorBody = Field(examples=[ErrorBody.example()])
    """The same error, in the form in which clients raise it."""

    @classmethod
    def of(cls, error: ErrorDocument, number: int) -> Self:
        """The event with this number in its stream."""
        body = ErrorBody(**error.openai_error()["error"])
        return cls(
            sequence_number=number,
            code=body.code,
            message=body.message,
            param=body.param,
            error=body,
        )


EVENTS: dict[str, type[Wire]] = {
    name: kind
    for kind in (
        ResponseEvent,
        ItemEvent,
        PartEvent,
        DeltaEvent,
        TextDeltaEvent,
        ReasoningDoneEvent,
        TextDoneEvent,
        RefusalDoneEvent,
        ErrorEvent,
    )
    for name in get_args(kind.model_fields["type"].annotation)
}
"""Type of each event, by its name."""
