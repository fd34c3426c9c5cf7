"""What a solution says in OpenAI's interfaces: its text or refusal, its thinking, its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field

from calibration import ExitReason
from rlcm_serve.api.wire.openai.answer_text import cut_at
from rlcm_serve.api.wire.openai.asked import OpenAIRequest
from rlcm_serve.api.wire.solution import SolveResponse, UsageBody
from rlcm_serve.core import Question, Solution

FinishReason = Literal["stop", "length"]


class RlcmBody(SolveResponse):
    """The response of `/solve` to this question, and the accepted risk."""

    alpha: float = Field(examples=[0.1])
    """Accepted risk, between 0 and 1."""
    alpha_is_default: bool = Field(examples=[False])
    """Whether alpha is the server's `default_alpha`, because the request named none."""

    @classmethod
    def of(cls, id_: str, body: OpenAIRequest, question: Question, solution: Solution) -> Self:
        """The service's own part of the response."""
        solved = SolveResponse.from_solution(solution, body.return_trace, id_)
        is_default = body.alpha is None
        return cls(**dict(solved), alpha=question.alpha, alpha_is_default=is_default)


@dataclass(frozen=True, slots=True)
class Counts:
    """Tokens of a whole question, over all samples, in OpenAI's terms.

    Attributes:
        input: the prompt, counted once, and tokens inserted to force answers.
        cached: tokens of the prompt that came from the prefix cache for every sample.
        output: generated tokens of all samples, including discarded ones.
        reasoning: of them those other than answers.
        total: input and output.
    """

    input: int
    cached: int
    output: int
    reasoning: int
    total: int

    @classmethod
    def of(cls, solution: Solution) -> Self:
        """The counts of `/solve` in OpenAI's terms."""
        usage = UsageBody.from_solution(solution)
        return cls(
            input=usage.prompt_tokens + usage.suffix_tokens,
            cached=usage.cached_prompt_tokens,
            output=solution.tokens,
            reasoning=solution.tokens - usage.answer_tokens,
            total=usage.total_tokens,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The parts of a response that all interfaces have.

    Attributes:
        thinking: of the sample whose answer is given; None if several samples give none.
        content: the whole text of the answer, cut at a stop sequence; None for an abstention.
        refusal: a sentence that explains an abstention; None if there is an answer.
        finish_reason: why the response ended.
        counts: its tokens.
        rlcm: the service's own part.
    """

    thinking: str | None
    content: str | None
    refusal: str | None
    finish_reason: FinishReason
    counts: Counts
    rlcm: RlcmBody

    @classmethod
    def of(cls, id_: str, body: OpenAIRequest, question: Question, solution: Solution) -> Self:
        """The outcome of a question that `body` asked."""
        return cls(
            thinking=_shown_thinking(solution),
            content=None if solution.text is None else cut_at(solution.text, body.stops),
            refusal=_refusal_of(question, solution),
            finish_reason=_finish_reason_of(solution),
            counts=Counts.of(solution),
            rlcm=RlcmBody.of(id_, body, question, solution),
        )


def _shown_thinking(solution: Solution) -> str | None:
    """The thinking of the only sample, or of the first sample that gave the winning answer."""
    samples = solution.finished
    if len(solution.samples) == len(samples) == 1:
        return samples[0].rollout.text
    if solution.abstained:
        return None
    return next(sample.rollout.text for sample in samples if sample.answer == solution.answer)


def _refusal_of(question: Question, solution: Solution) -> str | None:
    if not solution.abstained:
        return None
    if not solution.finished:  # none was generated, or the question is unfamiliar
        return f"The service abstained: {solution.no_guarantee_reason}."
    if all(sample.is_cut for sample in solution.finished):
        return "The service abstained: the limit on the tokens of an answer cut its answer off."
    if all(sample.answer is None for sample in solution.finished) and any(
        sample.forced for sample in solution.finished
    ):
        return "The service abstained: no answer could be read in what the model wrote."
    return (
        "The service abstained: it is not confident enough of any answer at alpha = "
        f"{question.alpha:g}."
    )


def _finish_reason_of(solution: Solution) -> FinishReason:
    cut = [one.is_cut or one.rollout.exit is ExitReason.BUDGET for one in solution.finished]
    return "length" if solution.abstained and cut and all(cut) else "stop"
