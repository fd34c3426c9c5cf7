"""Wire types of the response of `/solve`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Self

from pydantic import Field

from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.terms import (
    BoundedRisk,
    CalibrationProblems,
    CertificateId,
    Covers,
    Delta,
    DoesNotCover,
    ExitName,
    MethodInWords,
    PromiseKind,
)
from rlcm_serve.core import CancelledSample, Guarantee, Sample, Solution

STATEMENT = (
    "Among the questions it answers under this policy, the service answers at most 10% wrong on "
    "average, with 90% confidence over the draw of 1600 calibration problems, whichever alpha is "
    "asked for."
)


class CheckpointBody(Wire):
    """A confidence reading of one sample."""

    tokens: Annotated[
        int, Field(description="Number of reasoning tokens at the reading.", examples=[64])
    ]
    confidence: Annotated[
        float | None,
        Field(
            description="Estimated probability that the sample's current answer is correct.",
            examples=[0.83],
        ),
    ]
    is_final: Annotated[
        bool,
        Field(
            description="Whether this reading was taken where the thinking ended.", examples=[False]
        ),
    ]


class TraceBody(Wire):
    """What a sample thought, and its confidence over time."""

    reasoning: Annotated[
        str, Field(description="Text of the thinking.", examples=["A up 5: 8. ..."])
    ]
    own_answer: Annotated[
        str | None,
        Field(
            description="Text that the model wrote by itself after its thinking; null if the "
            "thinking was stopped.",
            examples=["8"],
        ),
    ]
    checkpoints: Annotated[
        list[CheckpointBody],
        Field(
            description="All confidence readings, in order.",
            examples=[[{"tokens": 32, "confidence": 0.41, "is_final": False}]],
        ),
    ]


class SampleBody(Wire):
    """One sample of a question. Counts are in tokens."""

    answer: Annotated[
        str | None,
        Field(description="Answer of the sample; null if it gives none.", examples=["8"]),
    ]
    exit: Annotated[
        ExitName,
        Field(
            description="Why the sample's thinking ended. `high` or `low`: its confidence "
            "reached a threshold. `natural`: the model ended it. `budget`: the "
            "thinking budget was used up. `cancelled`: it could no longer change "
            "the result.",
            examples=["high"],
        ),
    ]
    confidence: Annotated[
        float | None,
        Field(
            description="Confidence of the sample when its thinking ended; null if it was "
            "cancelled.",
            examples=[0.97],
        ),
    ]
    reasoning_tokens: Annotated[
        int, Field(description="Number of reasoning tokens.", examples=[128])
    ]
    answer_tokens: Annotated[
        int,
        Field(
            description="Number of tokens generated for the answer, whether written by the "
            "model or forced.",
            examples=[4],
        ),
    ]
    suffix_tokens: Annotated[
        int, Field(description="Number of tokens inserted to force the answer.", examples=[22])
    ]
    discarded_tokens: Annotated[
        int, Field(description="Number of tokens that were generated but not used.", examples=[1])
    ]
    trace: Annotated[
        TraceBody | None,
        Field(
            description="What the sample thought, if `return_trace` is true; otherwise null.",
            examples=[{"reasoning": "A up 5: 8. ...", "own_answer": None, "checkpoints": []}],
        ),
    ]

    @classmethod
    def from_sample(cls, sample: Sample | CancelledSample, return_trace: bool) -> Self:
        """The sample as it goes over the wire."""
        if isinstance(sample, CancelledSample):
            return cls(
                answer=None,
                exit="cancelled",
                confidence=None,
                reasoning_tokens=sample.tokens,
                answer_tokens=0,
                suffix_tokens=0,
                discarded_tokens=0,
                trace=None,
            )
        rollout = sample.rollout
        return cls(
            answer=sample.answer,
            exit=rollout.exit.value,
            confidence=rollout.confidence,
            reasoning_tokens=len(rollout.tokens),
            answer_tokens=sample.answer_tokens,
            suffix_tokens=sample.suffix_tokens,
            discarded_tokens=rollout.discarded,
            trace=_trace(sample) if return_trace else None,
        )


def _trace(sample: Sample) -> TraceBody:
    rollout = sample.rollout
    return TraceBody(
        reasoning=rollout.text,
        own_answer=rollout.answer_text,
        checkpoints=[CheckpointBody.model_validate(at) for at in rollout.readings],
    )


class GuaranteeBody(Wire):
    """The guarantee that covers an answer. `statement` says it in words, the fields one by one."""

    statement: Annotated[
        str, Field(description="The guarantee in one sentence.", examples=[STATEMENT])
    ]
    risk: BoundedRisk
    alpha_requested: Annotated[
        float, Field(description="Alpha as requested, between 0 and 1.", examples=[0.1])
    ]
    alpha_certified: Annotated[
        float,
        Field(
            description="The certified level that the question was served at: the largest one that "
            "does not exceed the requested alpha.",
            examples=[0.1],
        ),
    ]
    delta: Delta
    promise: PromiseKind
    certificate: CertificateId
    n_problems: CalibrationProblems
    method: MethodInWords
    covers: Covers
    does_not_cover: DoesNotCover

    @classmethod
    def of(cls, promised: Guarantee | None) -> Self | None:
        """The guarantee as it goes over the wire; None without one."""
        if promised is None:
            return None
        limits = list(promised.does_not_cover)
        return cls(**{**asdict(promised), "does_not_cover": limits})


class UsageBody(Wire):
    """Tokens of the whole question. The prompt counts once, for any number of samples."""

    prompt_tokens: Annotated[
        int, Field(description="Number of tokens in the prompt.", examples=[37])
    ]
    cached_prompt_tokens: Annotated[
        int,
        Field(
            description="Number of prompt tokens that came from the prefix cache for every sample.",
            examples=[32],
        ),
    ]
    reasoning_tokens: Annotated[
        int,
        Field(
            description="Number of reasoning tokens of all samples that were not cancelled.",
            examples=[128],
        ),
    ]
    answer_tokens: Annotated[
        int, Field(description="Number of tokens generated for answers.", examples=[4])
    ]
    suffix_tokens: Annotated[
        int, Field(description="Number of tokens inserted to force answers.", examples=[22])
    ]
    discarded_tokens: Annotated[
        int, Field(description="Number of tokens that were generated but not used.", examples=[1])
    ]
    cancelled_tokens: Annotated[
        int,
        Field(
            description="Number of tokens generated by samples that were cancelled.", examples=[0]
        ),
    ]
    total_tokens: Annotated[
        int,
        Field(
            description="Sum of all token counts of the question, except `cached_prompt_tokens`.",
            examples=[192],
        ),
    ]

    @classmethod
    def from_solution(cls, solution: Solution) -> Self:
        """The sums over the samples."""
        finished = solution.finished
        counts = {
            "prompt_tokens": solution.prompt_tokens,
            "reasoning_tokens": sum(len(sample.rollout.tokens) for sample in finished),
            "answer_tokens": sum(sample.answer_tokens for sample in finished),
            "suffix_tokens": sum(sample.suffix_tokens for sample in finished),
            "discarded_tokens": sum(sample.rollout.discarded for sample in finished),
            "cancelled_tokens": sum(sample.tokens for sample in solution.cancelled),
        }
        cached = min((sample.rollout.cached_prompt_tokens for sample in finished), default=0)
        return cls(**counts, cached_prompt_tokens=cached, total_tokens=sum(counts.values()))


class SavingsBody(Wire):
    """Tokens saved by early exits, relative to the certificate's expectation."""

    full_budget_tokens: Annotated[
        float,
        Field(
            description="Expected tokens of this question without early exits, over all samples.",
            examples=[381.5],
        ),
    ]
    tokens: Annotated[
        float,
        Field(
            description="Expected tokens without early exits minus the tokens generated. "
            "Negative if the question cost more.",
            examples=[248.5],
        ),
    ]
    by_cancelling_tokens: Annotated[
        float,
        Field(
            description="Estimated tokens saved by cancelling samples; a part of `tokens`.",
            examples=[0.0],
        ),
    ]

    @classmethod
    def from_solution(cls, solution: Solution) -> Self | None:
        """None without a certificate's expectation."""
        if solution.expectation is None:
            return None
        return cls(
            full_budget_tokens=solution.expectation.full_budget_tokens,
            tokens=solution.tokens_saved or 0.0,
            by_cancelling_tokens=solution.tokens_saved_by_cancelling or 0.0,
        )


class SolveResponse(Wire):
    """The answer to a question, or an abstention, with its guarantee and its cost."""

    answer: Annotated[
        str | None, Field(description="The answer; null if the service abstains.", examples=["8"])
    ]
    abstained: Annotated[
        bool,
        Field(description="Whether the service abstains: it gives no answer.", examples=[False]),
    ]
    confidence: Annotated[
        float | None,
        Field(
            description="Confidence in the answer: of the sample, or with several samples the "
            "answer's share of the vote. Null without an answer.",
            examples=[0.97],
        ),
    ]
    exit: Annotated[
        ExitName | None,
        Field(
            description="Why the thinking of the answering sample ended; null if no sample was "
            "generated.",
            examples=["high"],
        ),
    ]
    guarantee: Annotated[
        GuaranteeBody | None,
        Field(
            description="The guarantee that covers the answer; null if none does.",
            examples=[
                {
                    "statement": STATEMENT,
                    "risk": "selective",
                    "alpha_requested": 0.1,
                    "alpha_certified": 0.1,
                    "delta": 0.1,
                    "promise": "simultaneous",
                    "certificate": "81d2b7f98fe8",
                    "n_problems": 1600,
                    "method": "Learn-then-Test: ...",
                    "covers": "the policy of each level",
                    "does_not_cover": ["other problem distributions", "changed prompts"],
                }
            ],
        ),
    ]
    no_guarantee_reason: Annotated[
        str | None,
        Field(
            description="Why no guarantee covers the answer; null if one does.",
            examples=[
                "certificate 81d2b7f98fe8 does not cover this request: n is 3, the "
                "certified value is 1"
            ],
        ),
    ]
    tally: Annotated[
        dict[str, float],
        Field(description="Total weight of each answer in the vote.", examples=[{"8": 0.97}]),
    ]
    samples: Annotated[
        list[SampleBody],
        Field(
            description="One entry for each sample.",
            examples=[
                [
                    {
                        "answer": "8",
                        "exit": "high",
                        "confidence": 0.97,
                        "reasoning_tokens": 128,
                        "answer_tokens": 4,
                        "suffix_tokens": 22,
                        "discarded_tokens": 1,
                        "trace": None,
                    }
                ]
            ],
        ),
    ]
    usage: Annotated[
        UsageBody,
        Field(
            description="Number of tokens of the question, by kind.",
            examples=[
                {
                    "prompt_tokens": 37,
                    "cached_prompt_tokens": 32,
                    "reasoning_tokens": 128,
                    "answer_tokens": 4,
                    "suffix_tokens": 22,
                    "discarded_tokens": 1,
                    "cancelled_tokens": 0,
                    "total_tokens": 192,
                }
            ],
        ),
    ]
    saved: Annotated[
        SavingsBody | None,
        Field(
            description="Tokens saved by early exits; null without a guarantee.",
            examples=[{"full_budget_tokens": 381.5, "tokens": 248.5, "by_cancelling_tokens": 0.0}],
        ),
    ]

    @classmethod
    def from_solution(cls, solution: Solution, return_trace: bool = False) -> Self:
        """The solution as it goes over the wire."""
        return cls(
            answer=solution.answer,
            abstained=solution.abstained,
            confidence=solution.confidence,
            exit=None if solution.exit is None else solution.exit.value,
            guarantee=GuaranteeBody.of(solution.guarantee),
            no_guarantee_reason=solution.no_guarantee_reason,
            tally=solution.tally,
            samples=[SampleBody.from_sample(sample, return_trace) for sample in solution.samples],
            usage=UsageBody.from_solution(solution),
            saved=SavingsBody.from_solution(solution),
        )
