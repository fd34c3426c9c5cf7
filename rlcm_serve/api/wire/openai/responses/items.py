"""Wire types of the items that go into a response and come out of one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.openai.asked import ROLES
from rlcm_serve.api.wire.openai.unsupported import refused
from rlcm_serve.api.wire.question import PROBLEM
from rlcm_serve.core import Message

_TEXT_ALONE = (
    'give a string, or a list of {"type": "input_text", "text": ...} parts, or what a response '
    "had: this service reads no images, audio or files"
)
_KNOWN_ITEMS = (
    'give messages ({"role": ..., "content": ...}), and reasoning as responses have it: this '
    "service calls no tools and stores no items"
)
ABSTENTION = "The service abstained: it is not confident enough of any answer at alpha = 0.1."
Status = Literal["in_progress", "completed", "incomplete"]


class InputText(Wire):
    """A text part of a message to the model."""

    type: Literal["input_text"] = Field(examples=["input_text"])
    """Type of the part."""
    text: str = Field(examples=[PROBLEM])
    """Text of the part."""


class OutputText(Wire):
    """The text of an answer."""

    type: Literal["output_text"] = Field(examples=["output_text"])
    """Type of the part."""
    text: str = Field(examples=["3 + 5 = 8. The answer is \\boxed{8}."])
    """The whole text of the answer. The answer alone is `rlcm.answer`."""
    annotations: list[Any] = Field(default=[], examples=[[]])
    """Always empty: answers cite nothing."""
    logprobs: list[Any] | None = Field(default=[], examples=[[]])
    """Always empty: log-probabilities are not returned."""


class OutputRefusal(Wire):
    """An abstention, in place of an answer."""

    type: Literal["refusal"] = Field(examples=["refusal"])
    """Type of the part."""
    refusal: str = Field(examples=[ABSTENTION])
    """A sentence that explains the abstention."""


class ReasoningText(Wire):
    """The text of the thinking."""

    type: Literal["reasoning_text"] = Field(examples=["reasoning_text"])
    """Type of the part."""
    text: str = Field(examples=["A up 5: 8. B down 3: unrelated. ..."])
    """The model's thinking."""


class ReasoningItem(Wire):
    """The thinking that led to an answer. One in a request is not shown to the model."""

    type: Literal["reasoning"] = Field(examples=["reasoning"])
    """Type of the item."""
    id: str | None = Field(default=None, examples=["rs_019aae2fb9c09f86d081884c7d659a2f"])
    """Id of the item."""
    summary: list[Any] = Field(default=[], examples=[[]])
    """Always empty: the thinking is returned as it is."""
    content: list[ReasoningText] | None = Field(
        default=None, examples=[[{"type": "reasoning_text", "text": "A up 5: 8. ..."}]]
    )
    """The thinking of the sample that gave the answer."""
    encrypted_content: str | None = Field(default=None, examples=[None])
    """Always null: the thinking is not encrypted."""
    status: Status | None = Field(default=None, examples=["completed"])
    """Whether the item is complete."""


class OutputMessage(Wire):
    """The answer, or a refusal."""

    type: Literal["message"] = Field(default="message", examples=["message"])
    """Type of the item."""
    id: str = Field(examples=["msg_019aae2fb9c09f86d081884c7d659a2f"])
    """Id of the item."""
    role: Literal["assistant"] = Field(default="assistant", examples=["assistant"])
    """Author of the message."""
    status: Status = Field(default="completed", examples=["completed"])
    """Whether the item is complete."""
    content: list[OutputText | OutputRefusal] = Field(
        examples=[
            [{"type": "output_text", "text": "\\boxed{8}", "annotations": [], "logprobs": []}]
        ]
    )
    """One part: the text of the answer, or a refusal."""


class ReturnedText(OutputText):
    """The text of an answer that is sent back."""

    parsed: Any = Field(default=None, examples=[None])
    """Accepted and ignored: clients add what they made of the text."""


InputPart = Annotated[InputText | ReturnedText | OutputRefusal, Field(discriminator="type")]


class InputMessage(Wire):
    """A message of a conversation. A message of an earlier response can be sent back unchanged."""

    type: Literal["message"] | None = Field(default=None, examples=["message"])
    """Type of the item; it may be left out."""
    role: Literal["system", "developer", "user", "assistant"] = Field(examples=["user"])
    """Author of the message. `developer` is the same as `system`."""
    content: Annotated[str | list[InputPart], refused(_TEXT_ALONE)] = Field(examples=[PROBLEM])
    """Text of the message, or parts that are concatenated."""
    id: str | None = Field(default=None, examples=[None])
    """Accepted and ignored: nothing is stored."""
    status: Status | None = Field(default=None, examples=[None])
    """Accepted and ignored."""
    phase: Literal["commentary", "final_answer"] | None = Field(default=None, examples=[None])
    """Accepted and ignored: only the content is shown to the model."""

    def to_message(self) -> Message:
        """The message as the service's own type."""
        content = self.content
        if isinstance(content, list):
            content = "".join(_text_of(part) for part in content)
        return Message(ROLES[self.role], content)


def _text_of(part: InputPart) -> str:
    return part.refusal if isinstance(part, OutputRefusal) else part.text


def _kind_of(item: Any) -> str | None:
    """The type of an item; messages may leave it out."""
    kind = item.get("type", "message") if isinstance(item, dict) else getattr(item, "type", None)
    return "message" if kind is None else str(kind)


InputItem = Annotated[
    Annotated[InputMessage, Tag("message")] | Annotated[ReasoningItem, Tag("reasoning")],
    Discriminator(_kind_of, "unsupported", _KNOWN_ITEMS),
]


def _as_items(given: Any) -> Any:
    """A text alone is a message of the user."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if not isinstance(given, list):
        raise ValueError("give a text, or a list of items")
    return given


_Items = Annotated[list[InputItem], Field(min_length=1)]
Input = Annotated[_Items, BeforeValidator(_as_items, json_schema_input_type=str | _Items)]
"""A text, or the items of a conversation."""


def messages_of(
    instructions: str | None, items: list[InputMessage | ReasoningItem]
) -> list[Message]:
    """The conversation: the instructions as its system prompt, and its messages."""
    system = [] if instructions is None else [Message(ROLES["system"], instructions)]
    return [*system, *(one.to_message() for one in items if isinstance(one, InputMessage))]
