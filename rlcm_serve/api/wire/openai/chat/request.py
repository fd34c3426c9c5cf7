"""Wire types of a request to `/v1/chat/completions`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from rlcm_serve.api.wire.base import Wire, described
from rlcm_serve.api.wire.openai.asked import ROLES, OpenAIRequest, StreamOptions
from rlcm_serve.api.wire.openai.unsupported import Nothing, UnsupportedInChat, refused
from rlcm_serve.api.wire.question import MAX_INTEGER, PROBLEM, BudgetAndFormat
from rlcm_serve.api.wire.response_format import schema_of
from rlcm_serve.core import Message
from rlcm_serve.errors import RequestRefused

_TEXT_ALONE = (
    'give a string, or a list of {"type": "text", "text": ...} parts: this service reads no '
    "images, audio or files"
)
MOST_STOPS, LONGEST_STOP = 4, 200
_STOPS = f"give up to {MOST_STOPS} texts of 1 to {LONGEST_STOP} characters"
StopText = Annotated[str, Field(min_length=1, max_length=LONGEST_STOP)]
_ONE_CHOICE = "give 1: there is one answer; set n_votes for the number of samples"
_NO_TOOLS = "not supported: this service calls no tools"
_NO_AUDIO = "not supported: this service reads no audio"


# What `ChatMessage.to_message` checks, for those who read the schema.
_SOMETHING_SAID: JsonDict = {
    "anyOf": [
        {"required": ["content"], "properties": {"content": {"type": ["string", "array"]}}},
        {
            "required": ["role", "refusal"],
            "properties": {"role": {"const": "assistant"}, "refusal": {"type": "string"}},
        },
    ]
}


class TextPart(Wire):
    """A text part of a message."""

    type: Literal["text"] = Field(examples=["text"])
    """Type of the part; only `text` is supported."""
    text: str = Field(examples=[PROBLEM])
    """Text of the part."""


class ChatMessage(Wire):
    """A message of a conversation. A message of an earlier response can be sent back unchanged."""

    model_config = ConfigDict(json_schema_extra=_SOMETHING_SAID)

    role: Literal["system", "developer", "user", "assistant"] = Field(examples=["user"])
    """Author of the message. `developer` is the same as `system`."""
    content: Annotated[str | list[TextPart] | None, refused(_TEXT_ALONE)] = Field(
        default=None, examples=[PROBLEM]
    )
    """Text of the message, or text parts that are concatenated."""
    refusal: str | None = Field(default=None, examples=[None])
    """Text of an earlier abstention, sent by the assistant in place of content."""
    reasoning: str | None = Field(default=None, examples=[None])
    """Thinking of an earlier response. The model does not see it."""
    reasoning_content: str | None = Field(default=None, examples=[None])
    """Thinking of an earlier response. The model does not see it."""
    name: str | None = Field(default=None, examples=["ann"])
    """Accepted and ignored: names are not shown to the model."""
    tool_calls: Annotated[Nothing | None, refused(_NO_TOOLS), described(_NO_TOOLS, None)] = None
    function_call: Annotated[None, refused(_NO_TOOLS), described(_NO_TOOLS, None)] = None
    audio: Annotated[None, refused(_NO_AUDIO), described(_NO_AUDIO, None)] = None
    annotations: list[Any] | None = Field(default=None, examples=[[]])
    """Accepted and ignored: only the content is shown to the model."""
    parsed: Any = Field(default=None, examples=[None])
    """Accepted and ignored: clients add what they made of the content."""

    def to_message(self) -> Message:
        """The message as the service's own type.

        Raises:
            RequestRefused: the message has no text.
        """
        content = self.content
        if isinstance(content, list):
            content = "".join(part.text for part in content)
        if content is None and self.role == "assistant":
            content = self.refusal
        if content is None:
            raise RequestRefused("messages", f"a message of the {self.role} has no content: add it")
        return Message(ROLES[self.role], content)


class ChatStreamOptions(StreamOptions):
    """Options of a streamed chat completion."""

    include_usage: bool | None = Field(default=None, examples=[True])
    """Send the usage in a last chunk, which has no choices."""


class ChatRequest(UnsupportedInChat, BudgetAndFormat, OpenAIRequest):
    """A conversation whose last message is the question.

    Earlier messages and changed sampling settings remove the guarantee; `rlcm.no_guarantee_reason`
    in the response says why.
    """

    messages: list[ChatMessage] = Field(
        min_length=1, examples=[[{"role": "user", "content": PROBLEM}]]
    )
    """The conversation. The last message is the user's question."""
    max_completion_tokens: int | None = Field(default=None, ge=1, le=MAX_INTEGER, examples=[256])
    """Thinking budget of one sample, in tokens; the same as `max_tokens`."""
    n: Annotated[Literal[1] | None, refused(_ONE_CHOICE)] = Field(default=None, examples=[1])
    """Number of choices; only 1 is supported. The number of samples is `n_votes`."""
    stream_options: ChatStreamOptions | None = Field(
        default=None, examples=[{"include_usage": True}]
    )
    """Options of a streamed response; ignored without `stream`."""
    stop: Annotated[
        StopText | Annotated[list[StopText], Field(max_length=MOST_STOPS)] | None, refused(_STOPS)
    ] = Field(default=None, examples=[["\n\n"]])
    """Sequences before which `content` is cut: up to four. The thinking and the answer that is
    counted under `rlcm` do not change.
    """
    prediction: dict[str, Any] | None = Field(default=None, examples=[None])
    """Accepted and ignored: it only makes some services faster."""

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop sequences."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return self.stream_options is not None and self.stream_options.include_usage is True

    def to_messages(self) -> list[Message]:
        """The messages."""
        return [message.to_message() for message in self.messages]

    @property
    def thinking_budget(self) -> int | None:
        """The budget, by either name."""
        budgets = {self.max_tokens, self.max_completion_tokens} - {None}
        if len(budgets) > 1:
            raise RequestRefused(
                "max_completion_tokens",
                f"max_completion_tokens is {self.max_completion_tokens} and max_tokens "
                f"{self.max_tokens}: they mean the same here, give one",
            )
        return self.max_tokens or self.max_completion_tokens

    @property
    def answer_schema(self) -> str | None:
        """That of `response_format`."""
        return schema_of(self.response_format)

    @property
    def names(self) -> Mapping[str, str]:
        """Those of chat completions."""
        names = {"n": "n_votes", "problem": "messages"}
        if self.max_completion_tokens is not None:
            names["max_tokens"] = "max_completion_tokens"
        return names
