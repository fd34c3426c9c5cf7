"""Wire types of a request to `/v1/responses`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from rlcm_serve.api.wire.base import Wire, described
from rlcm_serve.api.wire.openai.asked import OpenAIRequest, StreamOptions
from rlcm_serve.api.wire.openai.responses.items import Input, messages_of
from rlcm_serve.api.wire.openai.unsupported import UnsupportedInResponses, Verbosity, refused
from rlcm_serve.api.wire.question import MAX_INTEGER, PROBLEM
from rlcm_serve.api.wire.response_format import FlatResponseFormat, schema_of
from rlcm_serve.core import Message

_NO_EFFORT = (
    "not supported: the accepted risk `alpha` decides how long to think, and max_output_tokens "
    "caps it"
)
_KNOWN_PARTS = (
    "give a list of parts that OpenAI names, such as reasoning.encrypted_content; "
    "log-probabilities are not returned: read rlcm.confidence instead"
)
_Summary = Literal["auto", "concise", "detailed"]
_AS_IT_IS = "Accepted and ignored: the thinking is returned as it is."


class ReasoningOptions(Wire):
    """Options of the thinking."""

    effort: Annotated[None, refused(_NO_EFFORT), described(_NO_EFFORT, None)] = None
    summary: Annotated[_Summary | None, described(_AS_IT_IS, "auto")] = None
    generate_summary: Annotated[_Summary | None, described(_AS_IT_IS, None)] = None


class TextOptions(Wire):
    """Options of the answer's text."""

    format: FlatResponseFormat | None = Field(default=None, examples=[{"type": "text"}])
    """Form of the text: `text`, `json_object`, or `json_schema` with a JSON schema. `text` is the
    same as no form: a profile's schema still holds. The thinking stays free. A form that is not the
    certified one removes the guarantee, and the answer is then the whole text.
    """
    verbosity: Verbosity = None


class ResponseRequest(UnsupportedInResponses, OpenAIRequest):
    """A question, or a conversation whose last message is the question.

    Earlier messages and changed sampling settings remove the guarantee; `rlcm.no_guarantee_reason`
    in the response says why.
    """

    input: Input = Field(examples=[PROBLEM])
    """The question, or the items of a conversation: messages, and the output of earlier responses.
    The last message is the user's question.
    """
    instructions: str | None = Field(default=None, examples=[None])
    """A system prompt before the input. One that is not that of a prompt profile removes the
    guarantee.
    """
    max_output_tokens: int | None = Field(default=None, ge=1, le=MAX_INTEGER, examples=[256])
    """Thinking budget of one sample, in tokens. The default is the engine's budget. Another value
    has a guarantee only if a certificate was fitted for it.
    """
    text: TextOptions | None = Field(default=None, examples=[{"format": {"type": "text"}}])
    """Options of the answer's text."""
    reasoning: ReasoningOptions | None = Field(default=None, examples=[None])
    """Options of the thinking."""
    include: Annotated[
        list[
            Literal[
                "code_interpreter_call.outputs",
                "computer_call_output.output.image_url",
                "file_search_call.results",
                "message.input_image.image_url",
                "reasoning.encrypted_content",
                "web_search_call.action.sources",
                "web_search_call.results",
            ]
        ]
        | None,
        refused(_KNOWN_PARTS),
    ] = Field(default=None, examples=[["reasoning.encrypted_content"]])
    """Accepted and ignored: a response has all that there is. Log-probabilities are refused."""
    stream_options: StreamOptions | None = Field(default=None, examples=[None])
    """Options of a streamed response; ignored without `stream`."""

    def to_messages(self) -> list[Message]:
        """The instructions and the messages of the input."""
        return messages_of(self.instructions, self.input)

    @property
    def thinking_budget(self) -> int | None:
        """That of `max_output_tokens`."""
        return self.max_output_tokens

    @property
    def answer_schema(self) -> str | None:
        """That of `text.format`."""
        return None if self.text is None else schema_of(self.text.format)

    @property
    def names(self) -> Mapping[str, str]:
        """Those of responses."""
        return {
            "n": "n_votes",
            "problem": "input",
            "messages": "input",
            "max_tokens": "max_output_tokens",
            "response_format": "text.format",
        }
