"""Wire types of the response of `/v1/chat/completions`."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field

from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.openai.outcome import Counts, FinishReason, Outcome, RlcmBody

_THINKING = "A up 5: 8. B down 3: unrelated. ..."
_ABSTENTION = "The service abstained: it is not confident enough of any answer at alpha = 0.1."


class PromptTokensDetails(Wire):
    """Details of the prompt tokens."""

    cached_tokens: int = Field(examples=[32])
    """Number of prompt tokens that came from the prefix cache for every sample."""


class CompletionTokensDetails(Wire):
    """Details of the generated tokens."""

    reasoning_tokens: int = Field(examples=[129])
    """Number of generated tokens other than answers: thinking, including cancelled samples, and
    discarded tokens.
    """


class ChatUsage(Wire):
    """Tokens of the whole question, over all samples."""

    prompt_tokens: int = Field(examples=[59])
    """Number of input tokens: the prompt, counted once, and tokens inserted to force answers."""
    completion_tokens: int = Field(examples=[133])
    """Number of generated tokens of all samples, including discarded ones."""
    total_tokens: int = Field(examples=[192])
    """Sum of prompt and completion tokens."""
    prompt_tokens_details: PromptTokensDetails = Field(examples=[PromptTokensDetails.example()])
    """Details of the prompt tokens."""
    completion_tokens_details: CompletionTokensDetails = Field(examples=[{"reasoning_tokens": 129}])
    """Details of the generated tokens."""

    @classmethod
    def of(cls, counts: Counts) -> Self:
        """The counts as chat completions name them."""
        return cls(
            prompt_tokens=counts.input,
            completion_tokens=counts.output,
            total_tokens=counts.total,
            prompt_tokens_details=PromptTokensDetails(cached_tokens=counts.cached),
            completion_tokens_details=CompletionTokensDetails(reasoning_tokens=counts.reasoning),
        )


class AnswerMessage(Wire):
    """The answer or a refusal, and the thinking that led to it."""

    role: Literal["assistant"] = Field(default="assistant", examples=["assistant"])
    """Author of the message."""
    content: str | None = Field(examples=["3 + 5 = 8. The answer is \\boxed{8}."])
    """The whole text of the answer; null if the service abstains. The answer alone is
    `rlcm.answer`.
    """
    refusal: str | None = Field(examples=[_ABSTENTION])
    """A sentence that explains the abstention; null if there is an answer."""
    reasoning: str | None = Field(examples=[_THINKING])
    """The model's thinking, of the sample that gave the answer. Null if several samples were
    generated and none of them is the answer.
    """
    reasoning_content: str | None = Field(examples=[_THINKING])
    """The same as `reasoning`, for clients that read this name."""

    @classmethod
    def of(cls, outcome: Outcome) -> Self:
        """The assistant's message for a solution."""
        return cls(
            content=outcome.content,
            refusal=outcome.refusal,
            reasoning=outcome.thinking,
            reasoning_content=outcome.thinking,
        )


class Choice(Wire):
    """The answer to the question. There is always one choice."""

    index: Literal[0] = Field(default=0, examples=[0])
    """Always 0: there is one choice."""
    message: AnswerMessage = Field(examples=[AnswerMessage.example(refusal=None)])
    """The answer or a refusal."""
    finish_reason: FinishReason = Field(examples=["stop"])
    """Why the response ended. `length`: there is no answer, because every sample used up its
    thinking budget or had its answer cut off. `stop`: in all other cases.
    """
    logprobs: None = Field(default=None, examples=[None])
    """Always null: log-probabilities are not returned."""


class ChatCompletion(Wire):
    """A chat completion."""

    id: str = Field(examples=["chatcmpl-9f86d08188"])
    """Id of the response."""
    object: Literal["chat.completion"] = Field(
        default="chat.completion", examples=["chat.completion"]
    )
    """Type of the object."""
    created: int = Field(examples=[1790000000])
    """When the response was created, in seconds since 1970 (UTC)."""
    model: str = Field(examples=["embedded"])
    """Name of the model."""
    system_fingerprint: str | None = Field(default=None, examples=["571b667eda0c"])
    """Id of the certificate that covers the answer; null without a guarantee."""
    choices: list[Choice] = Field(examples=[[Choice.example()]])
    """One choice: the answer to the question."""
    usage: ChatUsage = Field(examples=[ChatUsage.example()])
    """Tokens of the question."""
    rlcm: RlcmBody = Field(
        examples=[{"alpha": 0.1, "alpha_is_default": False, "answer": "8", "exit": "high"}]
    )
    """The guarantee and the details of the answer, as `/solve` returns them."""
