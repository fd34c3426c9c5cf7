"""The service's nouns: plain, frozen, without behaviour beyond what their fields imply.

Units: every count is in tokens of the served model, every time in seconds, every confidence and
share in [0, 1].
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from calibration import ExitPolicy, ExitReason
from rlcm_serve.errors import RequestRefused

TokenIds = tuple[int, ...]

MAX_SAMPLES = 64
"""The most samples one question may ask for."""


class VoteRule(StrEnum):
    """How several samples become one answer (RLCM §5.2)."""

    CONFIDENCE = "confidence"
    MAJORITY = "majority"


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. `temperature` 0 is greedy."""

    temperature: float
    top_p: float


@dataclass(frozen=True, slots=True)
class Budget:
    """The most tokens one sample may spend thinking, and then answering."""

    thinking: int
    answer: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The probe's reading after `tokens` reasoning tokens.

    `is_final` marks c_end, the reading at the last state before `</think>` or at the budget; it
    never triggers an exit (design of the exit rule: calibration.exit_rule).
    """

    tokens: int
    confidence: float
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Thought:
    """How one sample's thinking went, up to its exit.

    `tokens` are the reasoning tokens kept; `answer_text` is what the model wrote by itself after it
    closed its thinking (None after any other exit) and `answer_tokens` what that cost. `discarded`
    counts tokens that were generated but kept nowhere.
    """

    tokens: TokenIds
    text: str
    exit: ExitReason
    checkpoints: tuple[Checkpoint, ...]
    answer_text: str | None = None
    answer_tokens: int = 0
    discarded: int = 0

    @property
    def confidence(self) -> float:
        """The rollout's confidence: the reading that fired, or c_end."""
        return self.checkpoints[-1].confidence

    def cut(self, tokens: int) -> Thought:
        """Only its first `tokens` reasoning tokens, and no answer yet; text and readings stay."""
        return replace(self, tokens=self.tokens[:tokens], answer_text=None, answer_tokens=0)


@dataclass(frozen=True, slots=True)
class Completion:
    """A short continuation of a forced prefix, and what it cost in generated tokens."""

    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a question: its thought, its answer if it gives one, and what it cost."""

    thought: Thought
    answer: str | None
    answer_tokens: int  # generated after the thinking: the model's own answer and the forced one

    @property
    def tokens(self) -> int:
        return len(self.thought.tokens) + self.answer_tokens + self.thought.discarded


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What an answer is promised under. `statement` says it in one sentence."""

    risk: str
    alpha_requested: float
    alpha_certified: float
    delta: float
    promise: str
    certificate: str
    statement: str


@dataclass(frozen=True, slots=True)
class Question:
    """One request: a problem, the risk accepted for it, and what it overrides.

    `max_tokens` None means the certified budget; any other value is answered without a guarantee.

    Raises:
        RequestRefused: a value is out of range.
    """

    problem: str
    alpha: float
    samples: int = 1
    max_tokens: int | None = None
    vote: VoteRule = VoteRule.CONFIDENCE

    def __post_init__(self) -> None:
        if not self.problem.strip():
            raise RequestRefused("problem", "the problem is blank: state one")
        if not 0 < self.alpha < 1:
            raise RequestRefused(
                "alpha", f"alpha is {self.alpha}: give a share of wrong answers between 0 and 1"
            )
        if not 1 <= self.samples <= MAX_SAMPLES:
            raise RequestRefused("n", f"n is {self.samples}: give 1 to {MAX_SAMPLES} samples")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise RequestRefused(
                "max_tokens", f"max_tokens is {self.max_tokens}: give 1 or more, or leave it out"
            )


@dataclass(frozen=True, slots=True)
class Solution:
    """What the caller gets: an answer or an abstention, how it came about, what it promises.

    `confidence` is that of the one sample, or, of several, the answer's share of the vote; None
    without an answer. `tally` is the weight of each answer, as its first sample wrote it.
    """

    answer: str | None
    confidence: float | None
    samples: tuple[Sample, ...]
    policy: ExitPolicy
    guarantee: Guarantee | None
    no_guarantee_reason: str | None
    tally: dict[str, float] = field(default_factory=dict)
    prompt_tokens: int = 0

    @property
    def abstained(self) -> bool:
        return self.answer is None

    @property
    def exit(self) -> ExitReason:
        """The exit of the sample that carries the answer (of the first, when none does)."""
        carrying = [s for s in self.samples if s.answer is not None and s.answer == self.answer]
        return (carrying or list(self.samples))[0].thought.exit

    @property
    def tokens(self) -> int:
        return sum(sample.tokens for sample in self.samples)
