"""What `/solve` answers with."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field

from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.terms import Delta, PromiseKind
from rlcm_serve.core import CancelledSample, Sample, Solution

STATEMENT = (
    "Among the questions it answers under this policy, the service answers at most 10% wrong on "
    "average, with 90% confidence over the draw of the 1600 calibration problems, whichever alpha "
    "is asked for; this does not cover: other problem distributions; changed prompts."
)

ExitName = Literal["high", "low", "natural", "budget", "cancelled"]


class CheckpointBody(Wire):
    """One reading of the probe."""

    tokens: Annotated[int, Field(description="Reasoning tokens so far.", examples=[64])]
    confidence: Annotated[
        float | None,
        Field(description="That the reasoning carries the right answer.", examples=[0.83]),
    ]
    is_final: Annotated[
        bool, Field(description="Whether it was read where the thinking ended.", examples=[False])
    ]


class TraceBody(Wire):
    """What a sample thought, what it wrote by itself after that, and how confident it was when."""

    reasoning: Annotated[str, Field(description="The thinking.", examples=["A up 5: 8. ..."])]
    own_answer: Annotated[
        str | None,
        Field(description="What the model wrote after it ended its thinking.", examples=["8"]),
    ]
    checkpoints: Annotated[
        list[CheckpointBody],
        Field(
            description="Every reading, in order.",
            examples=[[{"tokens": 32, "confidence": 0.41, "is_final": False}]],
        ),
    ]


class SampleBody(Wire):
    """One sample. Counts are in tokens."""

    answer: Annotated[
        str | None, Field(description="Its answer, null if it gives none.", examples=["8"])
    ]
    exit: Annotated[
        ExitName,
        Field(
            description="Why its thinking ended; `cancelled` if it could change nothing any more.",
            examples=["high"],
        ),
    ]
    confidence: Annotated[
        float | None,
        Field(description="The reading at its exit; null if it was cancelled.", examples=[0.97]),
    ]
    reasoning_tokens: Annotated[int, Field(description="Of its thinking.", examples=[128])]
    answer_tokens: Annotated[
        int, Field(description="Generated for its answer, its own or a forced one.", examples=[4])
    ]
    suffix_tokens: Annotated[int, Field(description="Put in to force its answer.", examples=[22])]
    discarded_tokens: Annotated[int, Field(description="Generated and kept nowhere.", examples=[1])]
    trace: Annotated[
        TraceBody | None,
        Field(
            description="If return_trace asked for it.",
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
    """What the answer is promised under."""

    statement: Annotated[
        str, Field(description="It all in one sentence, limits included.", examples=[STATEMENT])
    ]
    risk: Annotated[str, Field(description="What is bounded.", examples=["selective"])]
    alpha_requested: Annotated[float, Field(description="As asked for.", examples=[0.1])]
    alpha_certified: Annotated[
        float, Field(description="The certified level it was served at.", examples=[0.1])
    ]
    delta: Delta
    promise: PromiseKind
    certificate: Annotated[
        str, Field(description="Its id, see /certificates.", examples=["93a2ad9a11e8"])
    ]


class UsageBody(Wire):
    """Tokens of the whole question. The prompt counts once, whatever the number of samples."""

    prompt_tokens: Annotated[int, Field(description="Of the prompt.", examples=[37])]
    cached_prompt_tokens: Annotated[
        int, Field(description="Of these, not computed anew for any sample.", examples=[32])
    ]
    reasoning_tokens: Annotated[
        int, Field(description="Thinking of the samples that were not cancelled.", examples=[128])
    ]
    answer_tokens: Annotated[int, Field(description="Generated for answers.", examples=[4])]
    suffix_tokens: Annotated[int, Field(description="Put in to force answers.", examples=[22])]
    discarded_tokens: Annotated[int, Field(description="Generated and kept nowhere.", examples=[1])]
    cancelled_tokens: Annotated[
        int, Field(description="Generated by samples that were cancelled.", examples=[0])
    ]
    total_tokens: Annotated[int, Field(description="All of the above.", examples=[192])]

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
    """Tokens not spent, against what the certificate expects on average for such a question."""

    full_budget_tokens: Annotated[
        float, Field(description="Expected without early exits, all samples.", examples=[381.5])
    ]
    tokens: Annotated[
        float,
        Field(
            description="That, less all that was generated; below 0 for a question that cost more.",
            examples=[248.5],
        ),
    ]
    by_cancelling_tokens: Annotated[
        float,
        Field(
            description="Of these, estimated: what cancelled samples would still have cost.",
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
    """An answer or an abstention, how it came about, and what is promised for it."""

    answer: Annotated[str | None, Field(description="Null for an abstention.", examples=["8"])]
    abstained: Annotated[bool, Field(description="Whether no answer is given.", examples=[False])]
    confidence: Annotated[
        float | None,
        Field(
            description="Of the one sample; of several, the answer's share of the vote; null "
            "without an answer.",
            examples=[0.97],
        ),
    ]
    exit: Annotated[
        ExitName | None,
        Field(
            description="Why the thinking of the sample ended whose answer it is; null if nothing "
            "was drawn.",
            examples=["high"],
        ),
    ]
    guarantee: Annotated[
        GuaranteeBody | None,
        Field(
            description="Null if nothing can be promised.",
            examples=[
                {
                    "statement": STATEMENT,
                    "risk": "selective",
                    "alpha_requested": 0.1,
                    "alpha_certified": 0.1,
                    "delta": 0.1,
                    "promise": "simultaneous",
                    "certificate": "93a2ad9a11e8",
                }
            ],
        ),
    ]
    no_guarantee_reason: Annotated[
        str | None,
        Field(
            description="Why there is none.",
            examples=["certificate 93a2ad9a11e8 is for another procedure: n is 3, certified is 1"],
        ),
    ]
    tally: Annotated[
        dict[str, float],
        Field(description="The weight of each answer in the vote.", examples=[{"8": 0.97}]),
    ]
    samples: Annotated[
        list[SampleBody],
        Field(
            description="One for each sample asked for.",
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
            description="All tokens of the question.",
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
            description="Tokens saved against the full budget's expectation; null without a "
            "guarantee.",
            examples=[{"full_budget_tokens": 381.5, "tokens": 248.5, "by_cancelling_tokens": 0.0}],
        ),
    ]

    @classmethod
    def from_solution(cls, solution: Solution, return_trace: bool = False) -> Self:
        """The solution as it goes over the wire."""
        promised = solution.guarantee
        return cls(
            answer=solution.answer,
            abstained=solution.abstained,
            confidence=solution.confidence,
            exit=None if solution.exit is None else solution.exit.value,
            guarantee=None if promised is None else GuaranteeBody.model_validate(promised),
            no_guarantee_reason=solution.no_guarantee_reason,
            tally=solution.tally,
            samples=[SampleBody.from_sample(sample, return_trace) for sample in solution.samples],
            usage=UsageBody.from_solution(solution),
            saved=SavingsBody.from_solution(solution),
        )
