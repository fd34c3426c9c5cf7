"""Wire types of the response of `/v1/chat/completions`."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field

from calibration import ExitReason
from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.openai.answer_text import cut_at
from rlcm_serve.api.wire.openai.request import ChatRequest
from rlcm_serve.api.wire.solution import SolveResponse, UsageBody
from rlcm_serve.core import Question, Solution

FinishReason = Literal["stop", "length"]
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
    def from_solution(cls, solution: Solution) -> Self:
        """The counts of `/solve` in OpenAI's terms."""
        usage = UsageBody.from_solution(solution)
        return cls(
            prompt_tokens=usage.prompt_tokens + usage.suffix_tokens,
            completion_tokens=solution.tokens,
            total_tokens=usage.total_tokens,
            prompt_tokens_details=PromptTokensDetails(cached_tokens=usage.cached_prompt_tokens),
            completion_tokens_details=CompletionTokensDetails(
                reasoning_tokens=solution.tokens - usage.answer_tokens
            ),
        )


class RlcmBody(SolveResponse):
    """The response of `/solve` to this question, and the accepted risk."""

    alpha: float = Field(examples=[0.1])
    """Accepted risk, between 0 and 1."""
    alpha_is_default: bool = Field(examples=[False])
    """Whether alpha is the server's `default_alpha`, because the request named none."""

    @classmethod
    def of(cls, id_: str, body: ChatRequest, question: Question, solution: Solution) -> Self:
        """The service's own part of the response."""
        solved = SolveResponse.from_solution(solution, body.return_trace, id_)
        is_default = body.alpha is None
        return cls(**dict(solved), alpha=question.alpha, alpha_is_default=is_default)


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
    def of(cls, body: ChatRequest, question: Question, solution: Solution) -> Self:
        """The assistant's message for a solution."""
        thinking = shown_thinking(solution)
        return cls(
            content=None if solution.text is None else cut_at(solution.text, body.stops),
            refusal=refusal_of(question, solution),
            reasoning=thinking,
            reasoning_content=thinking,
        )


class Choice(Wire):
    """The answer to the question. There is always one choice."""

    index: Literal[0] = Field(default=0, examples=[0])
    """Always 0: there is one choice."""
    message: AnswerMessage = Field(examples=[AnswerMessage.example(refusal=None)])
    """The answer or a refusal."""
    finish_reason: FinishReason = Field(examples=["stop"])
    """Why the response ended. `length`: there is no answer, because every sample used up its
    thinking budget. `stop`: in all other cases.
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
    system_fingerprint: str | None = Field(default=None, examples=["4552eb6e69a7"])
    """Id of the certificate that covers the answer; null without a guarantee."""
    choices: list[Choice] = Field(examples=[[Choice.example()]])
    """One choice: the answer to the question."""
    usage: ChatUsage = Field(examples=[ChatUsage.example()])
    """Tokens of the question."""
    rlcm: RlcmBody = Field(
        examples=[{"alpha": 0.1, "alpha_is_default": False, "answer": "8", "exit": "high"}]
    )
    """The guarantee and the details of the answer, as `/solve` returns them."""

    @classmethod
    def of(
        cls,
        response_id: str,
        created: int,
        body: ChatRequest,
        question: Question,
        solution: Solution,
    ) -> Self:
        """The completion for a solution."""
        guarantee = solution.guarantee
        choice = Choice(
            message=AnswerMessage.of(body, question, solution),
            finish_reason=finish_reason_of(solution),
        )
        return cls(
            id=response_id,
            created=created,
            model=body.model,
            system_fingerprint=None if guarantee is None else guarantee.certificate,
            choices=[choice],
            usage=ChatUsage.from_solution(solution),
            rlcm=RlcmBody.of(response_id, body, question, solution),
        )


def shown_thinking(solution: Solution) -> str | None:
    """The thinking of the only sample, or of the first sample that gave the winning answer."""
    samples = solution.finished
    if len(solution.samples) == 1:
        return samples[0].rollout.text
    if solution.abstained:
        return None
    return next(sample.rollout.text for sample in samples if sample.answer == solution.answer)


def refusal_of(question: Question, solution: Solution) -> str | None:
    """The refusal text of an abstention; None if there is an answer."""
    if not solution.abstained:
        return None
    if not solution.samples:
        return f"The service abstained: {solution.no_guarantee_reason}."
    return (
        "The service abstained: it is not confident enough of any answer at alpha = "
        f"{question.alpha:g}."
    )


def finish_reason_of(solution: Solution) -> FinishReason:
    """OpenAI's `finish_reason` for a solution."""
    exits = {sample.rollout.exit for sample in solution.finished}
    return "length" if solution.abstained and exits == {ExitReason.BUDGET} else "stop"
