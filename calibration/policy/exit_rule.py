"""The dual-threshold exit rule: when to stop a model that is still thinking (RLCM §5.1).

At a checkpoint t (after t reasoning tokens) the probe reads a confidence c_t in (0, 1):

- high exit when c_t >= λ2;
- low exit when t >= patience and every checkpoint in (t - patience, t] has c <= λ1.

A high exit takes precedence. Without an exit, the rollout continues to its natural end or the
budget. There, a final reading c_end decides whether an answer is given (c_end >= λa).

The rule has two forms: `step` for the engine, and `find_exits` (calibration.policy.exit_search) for
replay. A property test checks that both give the same exits. Change them together.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple, Self

from calibration.errors import CalibrationError

NEVER = 1.01
"""A threshold of confidence, or a lead in the vote, that is never reached."""


class ExitReason(StrEnum):
    """Why a rollout stopped thinking."""

    HIGH = "high"
    LOW = "low"
    NATURAL = "natural"
    BUDGET = "budget"

    @property
    def is_own_end(self) -> bool:
        """Whether no policy stopped the rollout: it ended by itself, or at its budget."""
        return self in (ExitReason.NATURAL, ExitReason.BUDGET)


@dataclass(frozen=True, slots=True)
class ExitPolicy:
    """The settings of the exit rule; the defaults never exit early and always answer.

    NaN is no reading: it triggers no exit, makes later smoothed values NaN, and at the end it leads
    to no answer under any λa.

    The low threshold is constant, or grows with the reasoning tokens t as a sigmoid (arXiv
    2602.03814): λ1(t) = lambda_low + low_rise · σ(low_slope · (t - low_shift)). A checkpoint is low
    if its confidence is at most λ1 at its own t.

    Smoothing is causal: s_t = smoothing · s_(t-1) + (1 - smoothing) · c_t, where s at the first
    reading is the reading itself. All comparisons use s, also the one of c_end with λa.

    Attributes:
        lambda_low: λ1, or the lower end of the sigmoid; below 0 it never causes an exit.
        patience: tokens for which the confidence must have stayed low before a low exit.
        lambda_high: λ2; above 1 it never causes an exit.
        lambda_answer: λa, the answer threshold: the lowest c_end that leads to an answer at a
            natural end or at the budget; 0 = always.
        low_rise: how far the sigmoid rises above `lambda_low`; 0 = constant threshold.
        low_slope: steepness of the sigmoid, per token.
        low_shift: tokens at the midpoint of the sigmoid.
        smoothing: weight of the past in the moving average, in [0, 1); 0 = none.
        answer_on_low: after a low exit an answer is forced; otherwise the low exit abstains.
        lambda_vote: with several samples, the lowest share of the vote with which the winner is
            given as the answer, in [0, 1]; 0 = always.
        lambda_stop: with several samples, the lead in the vote that ends the samples which still
            think (`calibration.policy.vote_stop`), above 0; above 1 it never does.

    Raises:
        CalibrationError: a value is out of range, or λ1 could reach λ2.
    """

    lambda_low: float = -1.0
    patience: int = 0
    lambda_high: float = NEVER
    lambda_answer: float = 0.0
    low_rise: float = 0.0
    low_slope: float = 0.0
    low_shift: float = 0.0
    smoothing: float = 0.0
    answer_on_low: bool = False
    lambda_vote: float = 0.0
    lambda_stop: float = NEVER

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not math.isfinite(value := getattr(self, name)):
                raise CalibrationError(
                    f"{name} is {value}: every number of a policy must be finite"
                )
            if name not in ("patience", "answer_on_low"):
                object.__setattr__(self, name, float(value))  # 1 and 1.0 have the same digest
        if not isinstance(self.patience, int) or self.patience < 0:
            raise CalibrationError(
                f"patience is {self.patience!r}: give a whole number of tokens, 0 or more"
            )
        if self.lambda_answer < 0:
            raise CalibrationError(
                f"lambda_answer is {self.lambda_answer}: give 0 (always answer) or more"
            )
        if not 0 <= self.smoothing < 1:
            raise CalibrationError(
                f"smoothing is {self.smoothing}: give 0 (none) up to, not including, 1"
            )
        if not isinstance(self.answer_on_low, bool):
            raise CalibrationError(f"answer_on_low is {self.answer_on_low!r}: give True or False")
        if not 0 <= self.lambda_vote <= 1:
            raise CalibrationError(
                f"lambda_vote is {self.lambda_vote}: give a share of the vote, 0 to 1"
            )
        if self.lambda_stop <= 0:
            raise CalibrationError(
                f"lambda_stop is {self.lambda_stop}: give a share of the vote above 0, or "
                f"{NEVER} to end no sample early"
            )
        if self.low_rise < 0 or (self.low_rise > 0) != (self.low_slope > 0):
            raise CalibrationError(
                f"low_rise is {self.low_rise} and low_slope {self.low_slope}: "
                "both must be above 0 (sigmoid λ1) or both 0 (constant λ1)"
            )
        if self.low_rise == 0 and self.low_shift != 0:
            raise CalibrationError(
                f"low_shift is {self.low_shift} without a sigmoid: set low_rise or drop it"
            )
        if self.lambda_low + self.low_rise >= self.lambda_high:
            raise CalibrationError(
                f"the low threshold reaches {self.lambda_low + self.low_rise} and lambda_high is "
                f"{self.lambda_high}: λ1 must stay below λ2"
            )

    @property
    def exits_high(self) -> bool:
        """Whether any confidence causes a high exit."""
        return self.lambda_high <= 1

    @property
    def exits_low(self) -> bool:
        """Whether a confidence may cause a low exit; every rising threshold counts as such."""
        return self.lambda_low >= 0 or self.low_rise > 0

    def low_threshold(self, tokens: int) -> float:
        """λ1 at `tokens` reasoning tokens."""
        if self.low_rise == 0:
            return self.lambda_low
        return self.lambda_low + self.low_rise * _sigmoid(
            self.low_slope * (tokens - self.low_shift)
        )

    def to_scalars(self) -> dict[str, int | float]:
        """The policy as flat numbers, for JSON and for vLLM's `SamplingParams.extra_args`.

        A `lambda_stop` that never ends a sample is left out, so that certificates made before there
        was one keep their digests.
        """
        scalars = asdict(self)
        if self.lambda_stop == type(self)().lambda_stop:
            del scalars["lambda_stop"]
        return scalars

    @classmethod
    def from_scalars(cls, scalars: Mapping[str, int | float]) -> Self:
        """The policy from the numbers of `to_scalars`; a missing name keeps its default.

        Raises:
            CalibrationError: a name is unknown, or a value is out of range.
        """
        known = [field.name for field in fields(cls)]
        if unknown := sorted(set(scalars) - set(known)):
            raise CalibrationError(f"unknown policy fields {unknown}: known are {known}")
        values: dict[str, Any] = {name: float(value) for name, value in scalars.items()}
        patience = scalars.get("patience", 0)
        values["patience"] = int(patience) if math.isfinite(patience) else 0
        if values["patience"] != patience:
            raise CalibrationError(
                f"patience is {patience!r}: give a whole number of tokens, 0 or more"
            )
        answers = scalars.get("answer_on_low", False)
        if answers not in (False, True):
            raise CalibrationError(f"answer_on_low is {answers!r}: give true or false")
        return cls(**values | {"answer_on_low": bool(answers)})


FULL_BUDGET = ExitPolicy()
"""Never exits early, always answers."""


class ExitState(NamedTuple):
    """The state of the rule between two readings of a rollout."""

    smoothed: float | None
    """The smoothed confidence at the last reading; None before the first."""
    low_since: int
    """Tokens at the last checkpoint that was not low; 0 if there was none."""


INITIAL_STATE = ExitState(smoothed=None, low_since=0)


def step(
    policy: ExitPolicy, state: ExitState, tokens: int, confidence: float
) -> tuple[ExitState, ExitReason | None]:
    """Process the checkpoint at `tokens`; returns the exit, or None if the rollout continues.

    Checkpoints come in order. The final reading is not a checkpoint (see `answers_at_end`). A
    confidence of NaN causes no exit, so a broken probe costs tokens, not correctness.

    Args:
        policy: the settings of the rule.
        state: the state after the previous checkpoint; `INITIAL_STATE` at the first.
        tokens: reasoning tokens so far, above 0.
        confidence: the raw reading c_t.
    """
    smoothed = _smooth(policy, state, confidence)
    low = smoothed <= policy.low_threshold(tokens)
    state = ExitState(smoothed, low_since=state.low_since if low else tokens)
    if smoothed >= policy.lambda_high:
        return state, ExitReason.HIGH
    if low and tokens - state.low_since >= policy.patience:
        return state, ExitReason.LOW
    return state, None


def answers_at_end(policy: ExitPolicy, state: ExitState, confidence: float) -> bool:
    """Whether an answer is given at the natural end or at the budget: c_end >= λa.

    Args:
        policy: the settings of the rule.
        state: the state after the last checkpoint, `INITIAL_STATE` if the rollout was shorter than
            N.
        confidence: the raw reading c_end.
    """
    return _smooth(policy, state, confidence) >= policy.lambda_answer


def _sigmoid(x: float) -> float:
    # Two branches, so that exp never overflows.
    if x >= 0:
        return 1 / (1 + math.exp(-x))
    return math.exp(x) / (1 + math.exp(x))


def _smooth(policy: ExitPolicy, state: ExitState, confidence: float) -> float:
    if state.smoothed is None or policy.smoothing == 0:
        return confidence
    return policy.smoothing * state.smoothed + (1 - policy.smoothing) * confidence
