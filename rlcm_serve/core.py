"""The core types of the service: plain, frozen, with no behavior beyond their fields.

Units: every count is in tokens of the served model, every time in seconds, every confidence and
share in [0, 1].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from calibration import ExitPolicy, ExitReason
from rlcm_serve.errors import RequestRefused

TokenIds = tuple[int, ...]

MAX_SAMPLES = 64
"""Maximum number of samples of a question."""
MAX_TEMPERATURE = 2.0


class VoteRule(StrEnum):
    """How several samples are merged into one answer (RLCM §5.2)."""

    CONFIDENCE = "confidence"
    MAJORITY = "majority"


class RiskName(StrEnum):
    """What alpha limits; `calibration.simulation.risks` defines each risk."""

    SELECTIVE = "selective"
    ERROR = "error"
    REGRET = "regret"


class OnInfeasible(StrEnum):
    """What to do if no policy is certified at the requested alpha."""

    ERROR = "error"
    FULL_BUDGET = "full_budget"
    ABSTAIN = "abstain"


class OnUnfamiliar(StrEnum):
    """What to do with a question that is unlike the calibration's."""

    ANSWER = "answer"
    ABSTAIN = "abstain"


class NoGuarantee(StrEnum):
    """Why no guarantee covers an answer, in one word; `no_guarantee_reason` has the details."""

    UNCERTIFIED = "uncertified"
    """No certificate that is active is for this risk, kind or profile."""
    NOT_COVERED = "not_covered"
    """The request, or the engine, differs from what the certificate covers."""
    INFEASIBLE = "infeasible"
    """No policy is certified at this alpha."""
    WITHDRAWN = "withdrawn"
    """The certificate's guarantee was withdrawn, or it is no longer active."""
    UNFAMILIAR = "unfamiliar"
    """The question is unlike the calibration problems."""
    ASKED_BEFORE = "asked_before"
    """It is not the first ask of a question that was not answered."""


class Signal(StrEnum):
    """Sources of confidence that the engine reads during generation, without extra tokens.

    All except the probe are computed from the probabilities of the generated tokens;
    `rlcm_serve.engine.worker.signals` defines them.
    """

    PROBE = "probe"
    SEQUENCE_PROBABILITY = "sequence-probability"
    LOWEST_GROUP = "lowest-group"
    TAIL = "tail"


class Role(StrEnum):
    """Author of a message in a conversation."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a conversation; the system prompt is one too."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are sampled. `temperature` 0 is greedy; `top_k` 0 considers all tokens.

    `min_p` is the lowest probability that is considered, relative to the likeliest token's.
    """

    temperature: float
    top_p: float
    top_k: int = 0
    min_p: float = 0.0


@dataclass(frozen=True, slots=True)
class Budget:
    """Maximum number of tokens of one sample, for thinking and for its answer.

    The model's own text after its thinking may also use what is left of `thinking`.
    """

    thinking: int
    answer: int


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """How one sample is generated, and its priority.

    `seed` None means unseeded sampling. Waiting requests with a smaller `priority` go first:
    0 for questions, more for background work. Requests share cached prefixes only with requests of
    the same `cache_salt`; it changes no token. The text after the thinking follows `schema`, a JSON
    schema as text, if there is one; the thinking never does.
    """

    budget: Budget
    sampling: Sampling
    seed: int | None = None
    priority: int = 0
    cache_salt: str | None = None
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """Newly generated tokens of a sample: their number, and their text if requested.

    Stop ids are not included. `is_answer` marks the model's own answer; the token that closes the
    thinking still counts as thinking. `ids` are the reasoning tokens, without that one.
    """

    tokens: int
    text: str = ""
    is_answer: bool = False
    ids: TokenIds = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Reading:
    """The confidence after `tokens` reasoning tokens.

    `is_final` marks c_end, the reading at the last state of the thinking or at the budget; it
    never triggers an exit (see calibration.policy.exit_rule). If recording is on, `signals` has
    every signal that the engine can read, by name, including the one used as `confidence`.
    `inputs`, if the engine records them, are what a probe can read here, for its training: the
    state, then the statistics of the tokens (`rlcm_serve.engine.worker.statistics`).
    """

    tokens: int
    confidence: float
    is_final: bool = False
    signals: Mapping[str, float] | None = None
    inputs: npt.NDArray[np.float32] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PromptReading:
    """What the engine read of the prompt alone, at its last token.

    `familiarity` is a conformal p-value in (0, 1]: small if the question is unlike the problems
    that the reading was fitted on. See `rlcm_serve.familiarity`.
    """

    familiarity: float


@dataclass(frozen=True, slots=True)
class Rollout:
    """The generation of one sample, up to its exit.

    `tokens` are the reasoning tokens. `answer_text` is what the model wrote after it closed its
    thinking (None after any other exit), in `answer_tokens` tokens. `answer_complete` is False if
    the token limit ended that text, and not the model. `discarded` counts tokens that were
    generated but not used. `cached_prompt_tokens` came from the prefix cache. `familiarity` is that
    of the prompt (`PromptReading`), if the engine reads it.
    """

    tokens: TokenIds
    text: str
    exit: ExitReason
    readings: tuple[Reading, ...]
    answer_text: str | None = None
    answer_tokens: int = 0
    discarded: int = 0
    cached_prompt_tokens: int = 0
    familiarity: float | None = None
    answer_complete: bool = True

    @property
    def confidence(self) -> float:
        """The rollout's confidence: the reading that triggered the exit, or c_end."""
        return self.readings[-1].confidence

    def cut(self, tokens: int) -> Rollout:
        """The rollout cut to `tokens` reasoning tokens, without answer; text and readings stay."""
        return replace(
            self,
            tokens=self.tokens[:tokens],
            answer_text=None,
            answer_tokens=0,
            answer_complete=True,
        )


@dataclass(frozen=True, slots=True)
class Completion:
    """A short continuation of a forced prefix, and its number of generated tokens.

    `complete` says that the model ended it, and not the token limit; `suffix_tokens` were inserted
    before it to close the thinking and to open it. `pieces`, if requested, has
    the text and the log-probability of each token, before sampling parameters apply. The texts
    together are `text`; a token that ends the continuation adds none.
    """

    text: str
    tokens: int
    pieces: tuple[tuple[str, float], ...] | None = None
    complete: bool = True
    suffix_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a question: its rollout, its answer if any, and its cost.

    `answer_tokens` were generated after the thinking, for the model's own or a forced answer;
    `suffix_tokens` were inserted to force it. `text` is the whole text of the answer: what the
    model wrote after its thinking, and a forced answer as the extractor reads it. `is_cut` says
    that the sample gives no answer because the limit of its tokens cut it off; `forced`, that an
    answer was forced, because the model gave none by itself or must follow a schema.
    """

    rollout: Rollout
    answer: str | None
    answer_tokens: int
    suffix_tokens: int = 0
    text: str | None = None
    is_cut: bool = False
    forced: bool = False

    @property
    def tokens(self) -> int:
        """All generated tokens."""
        return len(self.rollout.tokens) + self.answer_tokens + self.rollout.discarded


@dataclass(frozen=True, slots=True)
class CancelledSample:
    """A sample that was cancelled because the vote stopped, or it could not change the result.

    `tokens` were generated until then. `ids` are its reasoning tokens as far as they are known, and
    `ended` is its rollout, if that had ended.
    """

    tokens: int
    readings: tuple[Reading, ...] = ()
    ids: TokenIds = field(default=(), compare=False, repr=False)
    ended: Rollout | None = field(default=None, compare=False, repr=False)


class Verified(StrEnum):
    """How the figures of a certificate were verified by the service that serves it."""

    TRACES = "traces"
    """They follow from traces that this service recorded, or got with the certificate."""
    SIGNATURE = "signature"
    """A key that the operator trusts signed the certificate."""
    NONE = "none"
    """Only against each other."""


@dataclass(frozen=True, slots=True)
class NextQuestionsBound:
    """Of the next `questions` that count for the risk, at most `most` go wrong."""

    questions: int
    most: int


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The guarantee of an answer. `statement` says it in about 40 words.

    Attributes:
        risk: what alpha limits.
        alpha_requested: as the question asked.
        alpha_certified: the level it was served at.
        delta: probability that the guarantee fails.
        promise: simultaneous or pointwise.
        certificate: id of the certificate.
        kind: the kind of question that it is about; None if it is about all kinds together.
        bounds: upper bounds on other risks that hold at once, by their names.
        next_questions: how many of the next questions go wrong at most; None if nothing is said.
        statement: the guarantee in words.
        n_problems: calibration problems that were tested.
        method: tests and policies, in words.
        covers: what the guarantee covers.
        does_not_cover: what it does not.
        verified: how the figures of the certificate were verified here.
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
    verified: Verified = Verified.NONE
    kind: str | None = None
    bounds: Mapping[str, float] = field(default_factory=dict)
    next_questions: NextQuestionsBound | None = None


@dataclass(frozen=True, slots=True)
class Expectation:
    """Expected cost of a question according to its certificate: tokens of all its samples."""

    tokens: float
    full_budget_tokens: float


@dataclass(frozen=True, slots=True)
class Question:
    """One request: a question, the accepted risk, and overrides of certified settings.

    None means the certified setting. Any other value removes the guarantee, and so does an earlier
    turn, or a system prompt that is not a profile's.

    Attributes:
        text: the question itself, the last turn of the user; `problem` on the wire.
        alpha: accepted risk.
        samples: number of samples (`n` on the wire), merged by `vote`.
        vote: how samples are merged.
        risk: what alpha limits.
        context: a system prompt and earlier turns, if any.
        kind: the kind of question, such as its topic, for a certificate of this kind.
        profile: name of the profile; None takes the one whose system prompt the context has, or
            else the default profile.
        max_tokens: thinking budget of one sample, tokens.
        temperature: sampling temperature; 0 is greedy.
        top_p: nucleus sampling.
        seed: seed of the sampling.
        on_infeasible: what to do if no policy is certified at alpha.
        on_unfamiliar: what to do if the question is unlike the calibration's.
        timeout: time limit in seconds, waiting included; None has no limit.
        stop_when_decided: cancel samples that can no longer change the result.
        schema: JSON schema that the text of the answer follows, as canonical JSON.

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
    profile: str | None = None
    kind: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    on_infeasible: OnInfeasible = OnInfeasible.ERROR
    on_unfamiliar: OnUnfamiliar = OnUnfamiliar.ANSWER
    timeout: float | None = None
    stop_when_decided: bool = True
    schema: str | None = None

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise RequestRefused("problem", "the problem is blank: give a question")
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
        """The question in the last message, with the other messages as its context.

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

    @property
    def characters(self) -> int:
        """Length of the whole conversation and of its schema."""
        texts = (self.text, self.schema or "", *(message.content for message in self.context))
        return sum(map(len, texts))


@dataclass(frozen=True, slots=True)
class Solution:
    """The result of a question: an answer or an abstention, its samples and its guarantee.

    `samples` has one entry per sample; it is empty if the service abstained without generating any.
    `confidence` is the single sample's, or with several the answer's share of the vote among
    samples that were not cancelled; None without an answer. `tally` is the weight of each answer,
    as its first sample wrote it. `expectation` is None without a guarantee. `text` is the whole
    text of the first sample that gave the answer, and `forced` says whether it was forced.
    `profile` is the name of the profile under which the question was answered.
    `familiarity` is the question's (`PromptReading`); None if it was not read. `audited` says
    whether the answer was drawn for audit, so that a label of it is wanted. `no_guarantee_reason`
    and `no_guarantee_code` are None with a guarantee.
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
    text: str | None = None
    forced: bool = False
    profile: str = "default"
    familiarity: float | None = None
    audited: bool = False
    no_guarantee_code: NoGuarantee | None = None

    @property
    def abstained(self) -> bool:
        return self.answer is None

    @property
    def tokens(self) -> int:
        """Tokens generated by all samples."""
        return sum(sample.tokens for sample in self.samples)

    @property
    def tokens_by_kind(self) -> dict[str, int]:
        """The tokens of the question: generated, read or inserted.

        The prompt counts once, however many samples read it; `cached_prompt` is the part of it that
        no sample computed. `discarded` tokens were generated and dropped. `cancelled` tokens come
        from samples that were cancelled because the vote was decided. `suffix` tokens were inserted
        to force answers, not generated. Apart from `cached_prompt`, every token has exactly one
        kind.
        """
        finished = self.finished
        cached = (sample.rollout.cached_prompt_tokens for sample in finished)
        return {
            "prompt": self.prompt_tokens,
            "cached_prompt": min(cached, default=0),
            "reasoning": sum(len(sample.rollout.tokens) for sample in finished),
            "answer": sum(sample.answer_tokens for sample in finished),
            "suffix": sum(sample.suffix_tokens for sample in finished),
            "discarded": sum(sample.rollout.discarded for sample in finished),
            "cancelled": sum(sample.tokens for sample in self.cancelled),
        }

    @property
    def total_tokens(self) -> int:
        """All tokens of the question; cached ones are tokens of its prompt."""
        counts = self.tokens_by_kind
        return sum(counts.values()) - counts["cached_prompt"]

    @property
    def finished(self) -> tuple[Sample, ...]:
        """The samples that were not cancelled."""
        return tuple(sample for sample in self.samples if isinstance(sample, Sample))

    @property
    def cancelled(self) -> tuple[CancelledSample, ...]:
        """The samples that were cancelled."""
        return tuple(sample for sample in self.samples if isinstance(sample, CancelledSample))

    @property
    def tokens_saved(self) -> float | None:
        """Expected tokens without early exits minus the tokens generated; may be negative."""
        if self.expectation is None:
            return None
        return self.expectation.full_budget_tokens - self.tokens

    @property
    def tokens_saved_by_cancelling(self) -> float | None:
        """Estimated saving: the expected cost of the cancelled samples minus their actual cost.

        A sample that already cost more than expected counts as 0.
        """
        if self.expectation is None:
            return None
        average = self.expectation.tokens / len(self.samples)
        return sum(max(0.0, average - sample.tokens) for sample in self.cancelled)
