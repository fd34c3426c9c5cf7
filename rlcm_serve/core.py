"""The service's nouns: plain, frozen, without behaviour beyond what their fields imply.

Units: every count is in tokens of the served model, every time in seconds, every confidence and
share in [0, 1].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from calibration import ExitPolicy, ExitReason
from rlcm_serve.errors import RequestRefused

TokenIds = tuple[int, ...]

MAX_SAMPLES = 64
"""The most samples one question may ask for."""
MAX_TEMPERATURE = 2.0


class VoteRule(StrEnum):
    """How several samples become one answer (RLCM §5.2)."""

    CONFIDENCE = "confidence"
    MAJORITY = "majority"


class RiskName(StrEnum):
    """What alpha bounds; `calibration.simulation.risks` defines each."""

    SELECTIVE = "selective"
    ERROR = "error"
    REGRET = "regret"


class OnInfeasible(StrEnum):
    """What is done where no policy is certified at the alpha asked for."""

    ERROR = "error"
    FULL_BUDGET = "full_budget"
    ABSTAIN = "abstain"


class Signal(StrEnum):
    """What the engine reads a confidence from while the model thinks, at no token's cost.

    But for the probe they are made of how likely the model found the tokens that it drew;
    `rlcm_serve.engine.worker.signals` defines them.
    """

    PROBE = "probe"
    SEQUENCE_PROBABILITY = "sequence-probability"
    LOWEST_GROUP = "lowest-group"
    TAIL = "tail"


class Role(StrEnum):
    """Who says a message of a conversation."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation, or what stands before it all."""

    role: Role
    content: str


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
class GenerationSettings:
    """How one sample is drawn, and how urgently.

    `seed` None draws freely. Among requests that wait, a smaller `priority` goes first: 0 for
    questions, more for what may wait.
    """

    budget: Budget
    sampling: Sampling
    seed: int | None = None
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Delta:
    """Tokens a sample has just drawn: how many, and their text if it was asked for.

    The ids that stop a request are not among them. A model's own answer is, and says so where the
    text was asked for; the token that closes the thinking still belongs to that.
    """

    tokens: int
    text: str = ""
    is_answer: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """The reading of confidence after `tokens` reasoning tokens.

    `is_final` marks c_end, the reading at the last state before `</think>` or at the budget; it
    never triggers an exit (design of the exit rule: calibration.policy.exit_rule). `signals` has
    every signal that the engine could read there, by its name, if it was to record them: the one
    that `confidence` is, and those that it might have been.
    """

    tokens: int
    confidence: float
    is_final: bool = False
    signals: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Rollout:
    """How one sample's thinking went, up to its exit.

    `tokens` are the reasoning tokens kept; `answer_text` is what the model wrote by itself after it
    closed its thinking (None after any other exit) and `answer_tokens` what that cost. `discarded`
    counts tokens that were generated but kept nowhere. `cached_prompt_tokens` of the prompt did not
    have to be computed.
    """

    tokens: TokenIds
    text: str
    exit: ExitReason
    readings: tuple[Reading, ...]
    answer_text: str | None = None
    answer_tokens: int = 0
    discarded: int = 0
    cached_prompt_tokens: int = 0

    @property
    def confidence(self) -> float:
        """The rollout's confidence: the reading that fired, or c_end."""
        return self.readings[-1].confidence

    def cut(self, tokens: int) -> Rollout:
        """Only its first `tokens` reasoning tokens, and no answer yet; text and readings stay."""
        return replace(self, tokens=self.tokens[:tokens], answer_text=None, answer_tokens=0)


@dataclass(frozen=True, slots=True)
class Completion:
    """A short continuation of a forced prefix, and what it cost in generated tokens.

    `pieces`, if they were asked for, has for each of these tokens the text it adds and the
    log-probability the model gave it, whatever the sampling; the texts together are `text`. A token
    that ends the continuation adds none.
    """

    text: str
    tokens: int
    pieces: tuple[tuple[str, float], ...] | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a question: its rollout, its answer if it gives one, and what it cost.

    `answer_tokens` were generated after the thinking: the model's own answer and the forced one;
    `suffix_tokens` were put in to force it.
    """

    rollout: Rollout
    answer: str | None
    answer_tokens: int
    suffix_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Generated, wherever they are kept."""
        return len(self.rollout.tokens) + self.answer_tokens + self.rollout.discarded


@dataclass(frozen=True, slots=True)
class CancelledSample:
    """A sample whose thinking was ended because nothing it could answer would change the outcome.

    `tokens` were generated until then.
    """

    tokens: int
    readings: tuple[Reading, ...] = ()


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The guarantee of an answer. `statement` says it in one sentence of at most 40 words.

    Attributes:
        risk: what alpha limits.
        alpha_requested: as the question asked.
        alpha_certified: the level it was served at.
        delta: probability that the guarantee fails.
        promise: simultaneous or pointwise.
        certificate: id of the certificate.
        statement: the guarantee in words.
        n_problems: calibration problems that were tested.
        method: tests and policies, in words.
        covers: what the guarantee covers.
        does_not_cover: what it does not.
    """

    risk: str
    alpha_requested: float
    alpha_certified: float
    delta: float
    promise: str
    certificate: str
    statement: str
    n_problems: int
    method: str
    covers: str
    does_not_cover: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a question costs on average, from a certificate: tokens of all its samples together."""

    tokens: float
    full_budget_tokens: float


@dataclass(frozen=True, slots=True)
class Question:
    """One request: a problem, the risk accepted for it, and what it overrides.

    What is None is as certified; any other value is answered without a guarantee, and so is a
    problem with anything before it.

    Attributes:
        text: the question itself, the last turn of the user; `problem` on the wire.
        alpha: accepted risk.
        samples: n, merged by `vote`.
        vote: how.
        risk: what alpha bounds.
        context: a system prompt and earlier turns, if any.
        max_tokens: thinking budget of one sample, tokens.
        temperature: of the sampling; 0 is greedy.
        top_p: of the sampling.
        seed: of the sampling.
        on_infeasible: what to do if no policy keeps alpha.
        timeout: seconds for all of it; None waits.
        stop_when_decided: end samples that can change nothing any more.

    Raises:
        RequestRefused: a value is out of range.
    """

    text: str
    alpha: float
    samples: int = 1
    max_tokens: int | None = None
    vote: VoteRule = VoteRule.CONFIDENCE
    risk: RiskName = RiskName.SELECTIVE
    context: tuple[Message, ...] = ()
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    on_infeasible: OnInfeasible = OnInfeasible.ERROR
    timeout: float | None = None
    stop_when_decided: bool = True

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise RequestRefused("problem", "the problem is blank: state one")
        if not 0 < self.alpha < 1:
            raise RequestRefused(
                "alpha", f"alpha is {self.alpha}: give an accepted risk between 0 and 1"
            )
        if not 1 <= self.samples <= MAX_SAMPLES:
            raise RequestRefused("n", f"n is {self.samples}: give 1 to {MAX_SAMPLES} samples")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise RequestRefused(
                "max_tokens", f"max_tokens is {self.max_tokens}: give 1 or more, or leave it out"
            )
        if self.temperature is not None and not 0 <= self.temperature <= MAX_TEMPERATURE:
            raise RequestRefused(
                "temperature",
                f"temperature is {self.temperature}: give 0 (greedy) to {MAX_TEMPERATURE:g}",
            )
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise RequestRefused("top_p", f"top_p is {self.top_p}: give more than 0, at most 1")
        if self.timeout is not None and not self.timeout > 0:
            raise RequestRefused(
                "timeout_s", f"timeout_s is {self.timeout}: give more than 0 seconds"
            )

    @classmethod
    def of_conversation(cls, messages: Sequence[Message], **settings: Any) -> Self:
        """The question that the last message asks, with all others as its context.

        Raises:
            RequestRefused: the last message is not the user's, or a value is out of range.
        """
        if not messages or messages[-1].role is not Role.USER:
            raise RequestRefused("messages", "the last message must be the user's: the question")
        *context, last = messages
        return cls(text=last.content, context=tuple(context), **settings)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The whole conversation."""
        return (*self.context, Message(Role.USER, self.text))


@dataclass(frozen=True, slots=True)
class Solution:
    """What the caller gets: an answer or an abstention, how it came about, what it promises.

    `samples` has one entry per sample asked for, none if the service abstained without drawing any.
    `confidence` is that of the one sample, or, of several, the answer's share of the vote among
    samples that were not cancelled; None without an answer. `tally` is the weight of each answer,
    as its first sample wrote it. `expectation` is None where no certificate says.
    """

    answer: str | None
    confidence: float | None
    exit: ExitReason | None
    samples: tuple[Sample | CancelledSample, ...]
    policy: ExitPolicy | None
    guarantee: Guarantee | None
    no_guarantee_reason: str | None
    tally: dict[str, float] = field(default_factory=dict)
    prompt_tokens: int = 0
    expectation: Expectation | None = None

    @property
    def abstained(self) -> bool:
        return self.answer is None

    @property
    def tokens(self) -> int:
        """Generated, by all samples together."""
        return sum(sample.tokens for sample in self.samples)

    @property
    def finished(self) -> tuple[Sample, ...]:
        """The samples that were not cancelled."""
        return tuple(sample for sample in self.samples if isinstance(sample, Sample))

    @property
    def cancelled(self) -> tuple[CancelledSample, ...]:
        """Those that were."""
        return tuple(sample for sample in self.samples if isinstance(sample, CancelledSample))

    @property
    def tokens_saved(self) -> float | None:
        """Against what the full budget costs on average; below 0 for a question that cost more."""
        if self.expectation is None:
            return None
        return self.expectation.full_budget_tokens - self.tokens

    @property
    def tokens_saved_by_cancelling(self) -> float | None:
        """An estimate: what the cancelled samples would have cost on average, less what they did.

        0 if they had already cost more.
        """
        if self.expectation is None:
            return None
        average = self.expectation.tokens / len(self.samples)
        return sum(max(0.0, average - sample.tokens) for sample in self.cancelled)
