"""Reward terms: every method's reward is a weighted sum of them.

The sum is normalised within the group of a prompt's rollouts (GRPO, RLCM §2.1):
Â_i = (R_i - mean R) / std R. So only differences within a group count, and a term that is constant
there does nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GradedRollout:
    """One rollout y with everything that rewards read. B indexes its budgets B(y), possibly empty.

    Attributes:
        is_right: whether the answer of the full trajectory is right.
        is_formatted: whether answer and confidence are stated in RLCR's format.
        stated: the verbalized confidence, in [0, 1]. None if it cannot be read.
        target_B: Y_b, the share of forced answers that are right.
        confidence_B: C_b, the probe's reading.
        final_confidence: C(y), the probe's reading at the end of the reasoning; None without one.
    """

    is_right: bool
    is_formatted: bool = False
    stated: float | None = None
    target_B: tuple[float, ...] = ()
    confidence_B: tuple[float, ...] = ()
    final_confidence: float | None = None

    @property
    def promising_B(self) -> tuple[bool, ...]:
        """Which budgets are in B+(y): Y_b >= 1/2; the others are in B-(y) (RLCM §3.3)."""
        return tuple(target >= 0.5 for target in self.target_B)


def answer(rollout: GradedRollout) -> float:
    """R_ans(y) = 1 if the answer of the full trajectory is right, else -1 (RLCM §3.3)."""
    return 1.0 if rollout.is_right else -1.0


def margin(rollout: GradedRollout) -> float:
    """R_margin(y) = mean of C_b over B+(y) - mean of C_b over B-(y) (RLCM §3.3).

    The mean over an empty set is 0.
    """
    sides: dict[bool, list[float]] = {True: [], False: []}
    for promising, confidence in zip(rollout.promising_B, rollout.confidence_B, strict=True):
        sides[promising].append(confidence)
    return mean(sides[True]) - mean(sides[False])


def strict_margin(rollout: GradedRollout) -> float:
    """The margin as the authors' code computes it (`conf_diff` without `margin_corner`).

    The mean of C_b over budgets with Y_b = 1, minus that over budgets with Y_b = 0. Budgets in
    between are left out. 0 if the rollout has budgets of one kind alone.
    """
    pairs = list(zip(rollout.target_B, rollout.confidence_B, strict=True))
    right = [confidence for target, confidence in pairs if target == 1]
    wrong = [confidence for target, confidence in pairs if target == 0]
    return mean(right) - mean(wrong) if right and wrong else 0.0


def process_brier(rollout: GradedRollout) -> float:
    """-(1/|B(y)|) Σ_b (Y_b - C_b)² (Process-Brier, RLCM §4.5); 0 without budgets."""
    pairs = zip(rollout.target_B, rollout.confidence_B, strict=True)
    return -mean([(target - confidence) ** 2 for target, confidence in pairs])


def final_brier(rollout: GradedRollout) -> float:
    """-(Y(y) - C(y))², Y(y) whether the full trajectory is right (Final-Brier, RLCM §4.5)."""
    return -((rollout.is_right - confidence_at_end(rollout)) ** 2)


def final_margin(rollout: GradedRollout) -> float:
    """1[Y = Ŷ] · C(y) (Final-Margin, RLCM §4.5)."""
    return rollout.is_right * confidence_at_end(rollout)


def correctness(rollout: GradedRollout) -> float:
    """1[Y = Ŷ], as RLCR counts it (arXiv 2507.16806)."""
    return float(rollout.is_right)


def formatted(rollout: GradedRollout) -> float:
    """1 if answer and confidence are where RLCR's code looks for them, else 0."""
    return float(rollout.is_formatted and rollout.stated is not None)


def stated_brier(rollout: GradedRollout) -> float:
    """1 - (1[Y = Ŷ] - p)², p the stated confidence (RLCR's code); 0 if it is not in format.

    Its weight is the λ of RLCM §3.1, r = 1[Y = Ŷ] - λ (1[Y = Ŷ] - p)²: the constant is the same
    for all rollouts of a group that keep to the format.
    """
    if rollout.stated is None or not rollout.is_formatted:
        return 0.0
    return 1.0 - (rollout.is_right - rollout.stated) ** 2


def stated_brier_or_half(rollout: GradedRollout) -> float:
    """-(1[Y = Ŷ] - p)², p the stated confidence, 1/2 if none can be read (the authors' RLCR)."""
    stated = 0.5 if rollout.stated is None else rollout.stated
    return -((rollout.is_right - stated) ** 2)


def mean(values: Sequence[float]) -> float:
    """The mean; 0 without values."""
    return sum(values) / len(values) if values else 0.0


def confidence_at_end(rollout: GradedRollout) -> float:
    """C(y).

    Raises:
        ValueError: no probe has read the rollout's end.
    """
    if rollout.final_confidence is None:
        raise ValueError("the reward reads C(y), and no probe has read this rollout's end")
    return rollout.final_confidence
