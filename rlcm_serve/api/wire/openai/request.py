"""Wire types of a request to `/v1/chat/completions`: OpenAI's fields and this service's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from rlcm_serve.api.wire.base import Wire, described
from rlcm_serve.api.wire.openai.ignored import IgnoredFields
from rlcm_serve.api.wire.openai.unsupported import Nothing, UnsupportedFields, refused
from rlcm_serve.api.wire.question import PROBLEM, QuestionSettings
from rlcm_serve.api.wire.terms import SAMPLES_TEXT, STREAM_FLAG
from rlcm_serve.core import MAX_SAMPLES, Message, Question, Role
from rlcm_serve.errors import RequestRefused

ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
}

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
_PLAIN_DELTAS = "not supported: deltas are not obfuscated; leave it out or give false"


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


class StreamOptions(Wire):
    """Options of a streamed response."""

    include_usage: bool | None = Field(default=None, examples=[True])
    """Send the usage in a last chunk, which has no choices."""
    include_obfuscation: Annotated[
        Literal[False] | None, refused(_PLAIN_DELTAS), described(_PLAIN_DELTAS, False)
    ] = None


class ChatRequest(IgnoredFields, UnsupportedFields, QuestionSettings):
    """A conversation whose last message is the question.

    Earlier messages and changed sampling settings remove the guarantee; `rlcm.no_guarantee_reason`
    in the response says why.
    """

    model: str = Field(min_length=1, examples=["embedded"])
    """Id of the model, as listed in `/v1/models`: its name alone, or `NAME:PROFILE`."""
    messages: list[ChatMessage] = Field(
        min_length=1, examples=[[{"role": "user", "content": PROBLEM}]]
    )
    """The conversation. The last message is the user's question."""
    alpha: float | None = Field(default=None, gt=0, lt=1, examples=[0.1])
    """Accepted risk, between 0 and 1. The default is the server's `default_alpha`."""
    n_votes: Annotated[int, described(SAMPLES_TEXT, 4, ge=1, le=MAX_SAMPLES)] = 1
    return_trace: bool = Field(default=False, examples=[False])
    """Also return, under `rlcm`, what each sample thought and every confidence reading."""
    max_completion_tokens: int | None = Field(default=None, ge=1, examples=[256])
    """Thinking budget of one sample, in tokens; the same as `max_tokens`."""
    n: Annotated[Literal[1] | None, refused(_ONE_CHOICE)] = Field(default=None, examples=[1])
    """Number of choices; only 1 is supported. The number of samples is `n_votes`."""
    stream: Annotated[bool | None, described(STREAM_FLAG, False)] = None
    stream_options: StreamOptions | None = Field(default=None, examples=[{"include_usage": True}])
    """Options of a streamed response; ignored without `stream`."""
    stop: Annotated[
        StopText | list[StopText] | None, Field(max_length=MOST_STOPS), refused(_STOPS)
    ] = Field(default=None, examples=[["\n\n"]])
    """Sequences before which `content` is cut: up to four. The thinking and the answer that is
    counted under `rlcm` do not change.
    """

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop sequences."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return self.stream_options is not None and self.stream_options.include_usage is True

    def to_question(self, default_alpha: float) -> Question:
        """The question in the service's own terms.

        Raises:
            RequestRefused: fields contradict each other, or a value is out of range.
        """
        budgets = {self.max_tokens, self.max_completion_tokens} - {None}
        if len(budgets) > 1:
            raise RequestRefused(
                "max_completion_tokens",
                f"max_completion_tokens is {self.max_completion_tokens} and max_tokens "
                f"{self.max_tokens}: they mean the same here, give one",
            )
        alpha = default_alpha if self.alpha is None else self.alpha
        messages = [message.to_message() for message in self.messages]
        question = self.question(messages, alpha, self.n_votes)
        return replace(question, max_tokens=self.max_tokens or self.max_completion_tokens)

    def in_its_terms(self, error: RequestRefused) -> RequestRefused:
        """The same refusal, with the field's name in OpenAI's request."""
        names = {"n": "n_votes", "problem": "messages"}
        if self.max_completion_tokens is not None:
            names["max_tokens"] = "max_completion_tokens"
        if error.field not in names:
            return error
        name = names[error.field]
        return RequestRefused(name, f"{name}: {error}")
