"""The rules of a vote."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from rlcm_serve.errors import RequestRefused

MAX_SEED = 2**63 - 1
DEFAULT_TOP_P = 0.1
"""The value of DeepConf-low."""


class Rule(Enum):
    """Which answer wins."""

    MAJORITY = "majority"
    CONFIDENCE = "confidence"
    FILTERED = "filtered"


@dataclass(frozen=True, slots=True)
class VoteOptions:
    """The rule of the vote, and the order of the rows.

    Attributes:
        rule: with `majority`, each rollout has one vote. With `confidence`, its confidence is its
            weight (RLCM §5.2). `filtered` is `confidence` among each problem's most confident
            rollouts.
        seed: breaks ties, uniformly at random.
        top_p: share of a problem's answered rollouts that `filtered` keeps, in (0, 1]; None means
            0.1. Must be None for the other rules.
        grouped: whether the rows of a problem are consecutive, so that its result follows its last
            row.

    Raises:
        RequestRefused: a value is out of range, or top_p does not apply to the rule.
    """

    rule: Rule = Rule.CONFIDENCE
    seed: int = 0
    top_p: float | None = None
    grouped: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= MAX_SEED:
            raise RequestRefused("seed", f"seed is {self.seed}: give a number from 0 to {MAX_SEED}")
        if self.rule is not Rule.FILTERED and self.top_p is not None:
            raise RequestRefused(
                "top_p", f"the vote is {self.rule.value}: leave out top_p, or set vote to filtered"
            )
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise RequestRefused(
                "top_p", f"top_p is {self.top_p}: give a share above 0 and at most 1"
            )

    @property
    def weighs(self) -> bool:
        """Whether the rule reads confidences."""
        return self.rule is not Rule.MAJORITY

    @property
    def share(self) -> Fraction:
        """`top_p` as an exact fraction of its decimal digits, to six places: 0.1 is 1/10."""
        top_p = DEFAULT_TOP_P if self.top_p is None else self.top_p
        return Fraction(repr(top_p)).limit_denominator(10**6)


def kept(rollouts_P: NDArray[np.int64], share: Fraction) -> NDArray[np.int64]:
    """How many rollouts of each problem the share keeps; ties with the last one come on top.

    The same as DeepConf, which keeps everything from the linearly interpolated quantile at
    1 - share upward.
    """
    return 1 + share.numerator * (rollouts_P - 1) // share.denominator
