"""What goes over the wire: the request and the response of `/solve`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from calibration import ExitReason
from rlcm_serve.core import MAX_SAMPLES, Question, Sample, Solution, VoteRule


class Wire(BaseModel):
    """Base of all wire types: no unknown fields, no guessing at types."""

    model_config = ConfigDict(extra="forbid", strict=True, from_attributes=True)


class SolveRequest(Wire):
    """A problem, and the risk accepted for it."""

    problem: Annotated[str, Field(min_length=1, description="The problem, in words.")]
    alpha: Annotated[
        float,
        Field(gt=0, lt=1, description="Accepted share of wrong answers among those given."),
    ]
    n: Annotated[int, Field(ge=1, le=MAX_SAMPLES, description="Samples, merged by voting.")] = 1
    max_tokens: Annotated[
        int | None,
        Field(ge=1, description="Thinking budget of one sample; the certified one if left out."),
    ] = None
    vote: Literal["confidence", "majority"] = "confidence"
    return_trace: Annotated[
        bool, Field(description="Also return what each sample thought, and every confidence read.")
    ] = False

    def to_question(self) -> Question:
        """The question in the service's own terms.

        Raises:
            RequestRefused: a value is out of range.
        """
        return Question(
            problem=self.problem,
            alpha=self.alpha,
            samples=self.n,
            max_tokens=self.max_tokens,
            vote=VoteRule(self.vote),
        )


class CheckpointBody(Wire):
    """One reading of the probe; `is_final` marks the one at the end of the thinking."""

    tokens: int
    confidence: float | None
    is_final: bool


class TraceBody(Wire):
    """What a sample thought, what it wrote by itself after that, and how confident it was when."""

    reasoning: str
    own_answer: str | None
    checkpoints: list[CheckpointBody]


class SampleBody(Wire):
    """One sample; `answer` is null if it gives none. Counts are in tokens."""

    answer: str | None
    exit: ExitReason
    confidence: float | None
    reasoning_tokens: int
    answer_tokens: int
    discarded_tokens: int
    trace: TraceBody | None

    @classmethod
    def from_sample(cls, sample: Sample, return_trace: bool) -> Self:
        """The sample as it goes over the wire."""
        thought = sample.thought
        trace = TraceBody(
            reasoning=thought.text,
            own_answer=thought.answer_text,
            checkpoints=[CheckpointBody.model_validate(at) for at in thought.checkpoints],
        )
        return cls(
            answer=sample.answer,
            exit=thought.exit,
            confidence=thought.confidence,
            reasoning_tokens=len(thought.tokens),
            answer_tokens=sample.answer_tokens,
            discarded_tokens=thought.discarded,
            trace=trace if return_trace else None,
        )


class GuaranteeBody(Wire):
    """What the answer is promised under; `statement` says it in a sentence, limits included."""

    risk: str
    alpha_requested: float
    alpha_certified: float
    delta: float
    promise: str
    certificate: str
    statement: str


class UsageBody(Wire):
    """Tokens over all samples; the prompt counts once. `discarded` were generated and not kept."""

    prompt_tokens: int
    reasoning_tokens: int
    answer_tokens: int
    discarded_tokens: int
    total_tokens: int

    @classmethod
    def from_solution(cls, solution: Solution) -> Self:
        """The sums over the samples."""
        return cls(
            prompt_tokens=solution.prompt_tokens,
            reasoning_tokens=sum(len(sample.thought.tokens) for sample in solution.samples),
            answer_tokens=sum(sample.answer_tokens for sample in solution.samples),
            discarded_tokens=sum(sample.thought.discarded for sample in solution.samples),
            total_tokens=solution.prompt_tokens + solution.tokens,
        )


class SolveResponse(Wire):
    """An answer or an abstention, how it came about, and what is promised for it.

    `confidence` is that of the one sample, or, of several, the answer's share of the vote. `exit`
    is that of the sample whose answer it is. `tally` holds the weight of each answer in the vote.
    """

    answer: str | None
    abstained: bool
    confidence: float | None
    exit: ExitReason
    guarantee: GuaranteeBody | None
    no_guarantee_reason: str | None
    tally: dict[str, float]
    samples: list[SampleBody]
    usage: UsageBody

    @classmethod
    def from_solution(cls, solution: Solution, return_trace: bool = False) -> Self:
        """The solution as it goes over the wire."""
        promised = solution.guarantee
        return cls(
            answer=solution.answer,
            abstained=solution.abstained,
            confidence=solution.confidence,
            exit=solution.exit,
            guarantee=None if promised is None else GuaranteeBody.model_validate(promised),
            no_guarantee_reason=solution.no_guarantee_reason,
            tally=solution.tally,
            samples=[SampleBody.from_sample(sample, return_trace) for sample in solution.samples],
            usage=UsageBody.from_solution(solution),
        )
