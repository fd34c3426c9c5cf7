"""Wire types of a response of `/v1/responses`."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field

from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.openai.outcome import Counts, RlcmBody
from rlcm_serve.api.wire.openai.responses.items import OutputMessage, ReasoningItem
from rlcm_serve.api.wire.openai.responses.request import TextOptions


class InputTokensDetails(Wire):
    """Details of the input tokens."""

    cached_tokens: int = Field(examples=[32])
    """Number of input tokens that came from the prefix cache for every sample."""
    cache_write_tokens: int = Field(default=0, examples=[0])
    """Always 0: what goes into the cache is not counted."""


class OutputTokensDetails(Wire):
    """Details of the generated tokens."""

    reasoning_tokens: int = Field(examples=[129])
    """Number of generated tokens other than answers: thinking, including cancelled samples, and
    discarded tokens.
    """


class ResponseUsage(Wire):
    """Tokens of the whole question, over all samples."""

    input_tokens: int = Field(examples=[59])
    """Number of input tokens: the prompt, counted once, and tokens inserted to force answers."""
    input_tokens_details: InputTokensDetails = Field(examples=[InputTokensDetails.example()])
    """Details of the input tokens."""
    output_tokens: int = Field(examples=[133])
    """Number of generated tokens of all samples, including discarded ones."""
    output_tokens_details: OutputTokensDetails = Field(examples=[OutputTokensDetails.example()])
    """Details of the generated tokens."""
    total_tokens: int = Field(examples=[192])
    """Sum of input and output tokens."""

    @classmethod
    def of(cls, counts: Counts) -> Self:
        """The counts as responses name them."""
        return cls(
            input_tokens=counts.input,
            input_tokens_details=InputTokensDetails(cached_tokens=counts.cached),
            output_tokens=counts.output,
            output_tokens_details=OutputTokensDetails(reasoning_tokens=counts.reasoning),
            total_tokens=counts.total,
        )


class IncompleteDetails(Wire):
    """Why a response is incomplete."""

    reason: Literal["max_output_tokens"] = Field(
        default="max_output_tokens", examples=["max_output_tokens"]
    )
    """The reason: there is no answer, because every sample used up its budget of tokens."""


class ResponseBody(Wire):
    """A response."""

    id: str = Field(examples=["resp_019aae2fb9c09f86d081884c7d659a2f"])
    """Id of the response. `/answers/{id}` returns its record, if the service keeps records."""
    object: Literal["response"] = Field(default="response", examples=["response"])
    """Type of the object."""
    created_at: int = Field(examples=[1790000000])
    """When the response was created, in seconds since 1970 (UTC)."""
    status: Literal["in_progress", "completed", "incomplete"] = Field(examples=["completed"])
    """`completed`: there is an answer, or an abstention. `incomplete`: there is no answer, because
    every sample used up its budget of tokens. `in_progress`: only inside a stream.
    """
    incomplete_details: IncompleteDetails | None = Field(default=None, examples=[None])
    """Why the response is incomplete; null if it is not."""
    error: None = Field(default=None, examples=[None])
    """Always null: a question that fails has an error response."""
    model: str = Field(examples=["embedded"])
    """Name of the model."""
    output: list[ReasoningItem | OutputMessage] = Field(
        examples=[[ReasoningItem.example(), OutputMessage.example()]]
    )
    """The thinking of the sample whose answer is given, and a message with the answer or a refusal.
    The thinking is missing if several samples were generated and none of them is the answer.
    """
    usage: ResponseUsage | None = Field(default=None, examples=[ResponseUsage.example()])
    """Tokens of the question; null while it is in progress."""
    rlcm: RlcmBody | None = Field(
        default=None,
        examples=[{"alpha": 0.1, "alpha_is_default": False, "answer": "8", "exit": "high"}],
    )
    """The guarantee and the details of the answer, as `/solve` returns them; null while it is in
    progress.
    """
    instructions: str | None = Field(default=None, examples=[None])
    """The system prompt of the request."""
    max_output_tokens: int | None = Field(default=None, examples=[None])
    """Thinking budget of the request; null if it named none."""
    metadata: dict[str, Any] = Field(default={}, examples=[{}])
    """Metadata of the request."""
    temperature: float | None = Field(default=None, examples=[None])
    """Temperature of the request; null for the certified value."""
    top_p: float | None = Field(default=None, examples=[None])
    """Nucleus sampling of the request; null for the certified value."""
    text: TextOptions = Field(examples=[{"format": {"type": "text"}}])
    """Form of the answer's text in the request."""
    background: Literal[False] = Field(default=False, examples=[False])
    """Always false."""
    parallel_tool_calls: Literal[False] = Field(default=False, examples=[False])
    """Always false: there are no tools."""
    previous_response_id: None = Field(default=None, examples=[None])
    """Always null: nothing is stored."""
    store: Literal[False] = Field(default=False, examples=[False])
    """Always false: nothing is stored."""
    tool_choice: Literal["none"] = Field(default="none", examples=["none"])
    """Always `none`: there are no tools."""
    tools: list[Any] = Field(default=[], examples=[[]])
    """Always empty: there are no tools."""
    truncation: Literal["disabled"] = Field(default="disabled", examples=["disabled"])
    """Always `disabled`: a conversation is never shortened."""
