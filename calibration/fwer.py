"""Testing many policies at once without fooling oneself: control of the family-wise error."""

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.pvalues import require_rate


class Promise(StrEnum):
    """What holds with probability 1 - delta."""

    SIMULTANEOUS = "simultaneous"
    """All listed alphas at once, so a caller may choose alpha after looking."""
    POINTWISE = "pointwise"
    """Each listed alpha alone, so a caller must choose alpha before looking."""


def fixed_sequence(p_values: ArrayLike, delta: float) -> NDArray[np.bool_]:
    """Which hypotheses fixed-sequence testing rejects: all before the first p-value above delta.

    With probability at least 1 - delta no true null is rejected, whatever the dependence between
    the p-values (LTT, arXiv 2110.01052): the first true null of the sequence must be passed
    first. It does not cover an order chosen by looking at the data that give the p-values.

    Raises:
        CalibrationError: delta is not in (0, 1).
    """
    require_rate("delta", delta)
    return np.logical_and.accumulate(np.asarray(p_values, dtype=np.float64) <= delta)


def delta_per_level(delta: float, alphas: Sequence[float], promise: Promise) -> float:
    """The share of delta that each level's test may spend.

    Simultaneous: delta is split evenly (Bonferroni), so that all levels hold together. Pointwise:
        each
    level spends all of it, and nothing is said of two levels together.
    """
    return delta / len(alphas) if promise is Promise.SIMULTANEOUS else delta
