"""Wire types of the response of `/solve`."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from rlcm_serve.api.wire import terms
from rlcm_serve.api.wire.base import Wire
from rlcm_serve.core import CancelledSample, Guarantee, NoGuarantee, Sample, Solution

STATEMENT = (
    "Of the questions that this policy answers, at most 10% get a wrong answer on average. This "
    "covers first asks of questions drawn as the calibration's were, with 90% confidence over the "
    "draw of 1600 calibration problems, whichever alpha is chosen."
)


class CheckpointBody(Wire):
    """A confidence reading of one sample."""

    tokens: int = Field(examples=[64])
    """Number of reasoning tokens at the reading."""
    confidence: float | None = Field(examples=[0.83])
    """Estimated probability that the sample's current answer is correct."""
    is_final: bool = Field(examples=[False])
    """Whether this reading was taken where the thinking ended."""


class TraceBody(Wire):
    """What a sample thought, and its confidence over time."""

    reasoning: str = Field(examples=["A up 5: 8. ..."])
    """Text of the thinking."""
    own_answer: str | None = Field(examples=["8"])
    """Text that the model wrote by itself after its thinking; null if the thinking was stopped."""
    checkpoints: list[CheckpointBody] = Field(
        examples=[[{"tokens": 32, "confidence": 0.41, "is_final": False}]]
    )
    """All confidence readings, in order."""


class SampleBody(Wire):
    """One sample of a question. Counts are in tokens."""

    answer: str | None = Field(examples=["8"])
    """Answer of the sample; null if it gives none."""
    exit: terms.ExitName = Field(examples=["high"])
    """Why the sample's thinking ended. `high` or `low`: its confidence reached a threshold.
    `natural`: the model ended it. `budget`: the thinking budget was used up. `cancelled`:
    another answer was far enough ahead in the vote, or it could no longer change the result.
    """
    confidence: float | None = Field(examples=[0.97])
    """Confidence of the sample when its thinking ended; null if it was cancelled."""
    reasoning_tokens: int = Field(examples=[128])
    """Number of reasoning tokens."""
    answer_tokens: int = Field(examples=[4])
    """Number of tokens generated for the answer, whether written by the model or forced."""
    suffix_tokens: int = Field(examples=[22])
    """Number of tokens inserted to force the answer."""
    discarded_tokens: int = Field(examples=[1])
    """Number of tokens that were generated but not used."""
    trace: TraceBody | None = Field(
        examples=[{"reasoning": "A up 5: 8. ...", "own_answer": None, "checkpoints": []}]
    )
    """What the sample thought, if `return_trace` is true; otherwise null."""

    @classmethod
    def from_sample(cls, sample: Sample | CancelledSample, return_trace: bool) -> Self:
        """The wire form of a sample."""
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


class NextQuestionsBody(Wire):
    """How many of the next questions go wrong at most."""

    questions: int = Field(examples=[100])
    """Number of next questions. Under the risk `selective`, those that are answered count."""
    most: int = Field(examples=[17])
    """Most of them that go wrong."""


class GuaranteeBody(Wire):
    """The guarantee that covers an answer. `statement` says it in words, the fields one by one."""

    statement: str = Field(examples=[STATEMENT])
    """The guarantee in one sentence."""
    risk: terms.BoundedRisk
    alpha_requested: float = Field(examples=[0.1])
    """Alpha as requested, between 0 and 1."""
    alpha_certified: float = Field(examples=[0.1])
    """The certified level that the question was served at: the largest one that does not exceed the
    requested alpha.
    """
    delta: terms.Delta
    promise: terms.PromiseKind
    certificate: terms.CertificateId
    kind: str | None = Field(default=None, examples=[None])
    """Kind of question that the guarantee is about; null if it is about all kinds together."""
    bounds: dict[str, float] = Field(default={}, examples=[{"declined": 0.4}])
    """Upper bounds on other risks, as shares of all questions, that hold at once with alpha.
    `declined`: no answer is given. `wrong`: a wrong answer is given. `lost`: the full budget gives
    the right answer, and the policy does not.
    """
    next_questions: NextQuestionsBody | None = Field(default=None, examples=[None])
    """Upper bound on how many of the next questions go wrong; null if the certificate has none."""
    n_problems: terms.CalibrationProblems
    method: terms.MethodInWords
    covers: terms.Covers
    does_not_cover: terms.DoesNotCover
    verified: terms.VerifiedBy

    @classmethod
    def of(cls, promised: Guarantee | None) -> Self | None:
        """The wire form of a guarantee; None without a guarantee."""
        return None if promised is None else cls.model_validate(promised)


class UsageBody(Wire):
    """Tokens of the whole question. The prompt counts once, for any number of samples."""

    prompt_tokens: int = Field(examples=[37])
    """Number of tokens in the prompt."""
    cached_prompt_tokens: int = Field(examples=[32])
    """Number of prompt tokens that came from the prefix cache for every sample."""
    reasoning_tokens: int = Field(examples=[128])
    """Number of reasoning tokens of all samples that were not cancelled."""
    answer_tokens: int = Field(examples=[4])
    """Number of tokens generated for answers."""
    suffix_tokens: int = Field(examples=[22])
    """Number of tokens inserted to force answers."""
    discarded_tokens: int = Field(examples=[1])
    """Number of tokens that were generated but not used."""
    cancelled_tokens: int = Field(examples=[0])
    """Number of tokens generated by samples that were cancelled."""
    total_tokens: int = Field(examples=[192])
    """Sum of all token counts of the question, except `cached_prompt_tokens`."""

    @classmethod
    def from_solution(cls, solution: Solution) -> Self:
        """Token counts, summed over the samples."""
        counts = {f"{kind}_tokens": count for kind, count in solution.tokens_by_kind.items()}
        total = sum(counts.values()) - counts["cached_prompt_tokens"]  # they are prompt tokens too
        return cls(**counts, total_tokens=total)


class SavingsBody(Wire):
    """Tokens saved by early exits, relative to the certificate's expectation."""

    full_budget_tokens: float = Field(examples=[381.5])
    """Expected tokens of this question without early exits, over all samples."""
    tokens: float = Field(examples=[248.5])
    """Expected tokens without early exits minus the tokens generated. Negative if the question cost
    more.
    """
    by_cancelling_tokens: float = Field(examples=[0.0])
    """Estimated tokens saved by cancelling samples; a part of `tokens`."""

    @classmethod
    def from_solution(cls, solution: Solution) -> Self | None:
        """The savings; None if no certificate says what the question was expected to cost."""
        if solution.expectation is None:
            return None
        return cls(
            full_budget_tokens=solution.expectation.full_budget_tokens,
            tokens=solution.tokens_saved or 0.0,
            by_cancelling_tokens=solution.tokens_saved_by_cancelling or 0.0,
        )


class SolveResponse(Wire):
    """The answer to a question, or an abstention, with its guarantee and its cost."""

    id: terms.AnswerId
    audit: bool = Field(examples=[False])
    """Whether the answer was drawn for audit: a label of it is wanted, by `POST /feedback`."""
    answer: str | None = Field(examples=["8"])
    """The answer alone, as it is compared and counted; null if the service abstains."""
    text: str | None = Field(examples=["3 + 5 = 8. The answer is \\boxed{8}."])
    """The whole text of the answer: what the model wrote after its thinking, then a forced answer
    in the form in which it is read. Null if the service abstains.
    """
    forced: bool = Field(examples=[False])
    """Whether the answer was forced, because the model's thinking was stopped or its text had no
    answer.
    """
    abstained: bool = Field(examples=[False])
    """Whether the service abstains: it gives no answer."""
    confidence: float | None = Field(examples=[0.97])
    """Confidence in the answer: of the sample, or with several samples the answer's share of the
    vote. Null without an answer.
    """
    exit: terms.ExitName | None = Field(examples=["high"])
    """Why the thinking of the answering sample ended; null if no sample was generated."""
    guarantee: GuaranteeBody | None = Field(
        examples=[
            GuaranteeBody.example(does_not_cover=["other problem distributions", "changed prompts"])
        ]
    )
    """The guarantee that covers the answer; null if none does."""
    no_guarantee_reason: str | None = Field(
        examples=[
            "certificate 571b667eda0c does not cover this request: n is 3, the certified value is 1"
        ]
    )
    """Why no guarantee covers the answer; null if one does."""
    no_guarantee_code: NoGuarantee | None = Field(default=None, examples=["not_covered"])
    """The same in one word; null if a guarantee covers the answer. `uncertified`: no active
    certificate is for this risk, kind or profile. `not_covered`: the request or the engine differs
    from what is certified. `infeasible`: no policy is certified at this alpha. `withdrawn`: the
    guarantee of the certificate was withdrawn. `unfamiliar`: the question is unlike the calibration
    problems. `asked_before`: the question was asked before and not answered.
    """
    profile: str = Field(examples=["default"])
    """Prompt profile under which the question was answered."""
    familiarity: float | None = Field(examples=[0.41])
    """How familiar the question is: the rank of its prompt among problems like the calibration's, a
    p-value. If it is too small, no guarantee covers the answer. Null if it was not read.
    """
    tally: dict[str, float] = Field(examples=[{"8": 0.97}])
    """Total weight of each answer in the vote."""
    samples: list[SampleBody] = Field(examples=[[SampleBody.example(trace=None)]])
    """One entry for each sample."""
    usage: UsageBody = Field(examples=[UsageBody.example()])
    """Number of tokens of the question, by kind."""
    saved: SavingsBody | None = Field(examples=[SavingsBody.example()])
    """Tokens saved by early exits; null without a guarantee."""

    @classmethod
    def from_solution(cls, solution: Solution, return_trace: bool = False, id_: str = "") -> Self:
        """The wire form of a solution."""
        return cls(
            id=id_,
            audit=solution.audited,
            answer=solution.answer,
            text=solution.text,
            forced=solution.forced,
            abstained=solution.abstained,
            confidence=solution.confidence,
            exit=None if solution.exit is None else solution.exit.value,
            guarantee=GuaranteeBody.of(solution.guarantee),
            no_guarantee_reason=solution.no_guarantee_reason,
            no_guarantee_code=solution.no_guarantee_code,
            profile=solution.profile,
            familiarity=solution.familiarity,
            tally=solution.tally,
            samples=[SampleBody.from_sample(sample, return_trace) for sample in solution.samples],
            usage=UsageBody.from_solution(solution),
            saved=SavingsBody.from_solution(solution),
        )
