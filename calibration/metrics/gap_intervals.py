"""Intervals of calibration errors, which are biased upwards by chance.

A calibration error adds up the gaps of bins without their sign, so noise in the gaps does not
cancel. The error of a sample is too high, the error of a resample even more so, and all quantiles
of the resamples may be above the truth. On 30 problems with a calibrated confidence, the usual
interval never contained it.

Here, the noise of the resamples is added to gaps for which its effect is known. The closer the true
gaps are to 0, the more the noise raises the error; the farther they are, the more it can lower it.
So the lower limit uses gaps moved towards 0 by two of their standard errors, at most to 0. The
upper limit uses gaps moved away from 0 by as much.

The interval is for the error, with the same bins, on the population of the problems. In simulations
with confidences spread over the bins, it contained the error in at least 96% of the cases from 100
problems on, and in at least 92% with 30. It covers less where a bin has hardly any wrong answers,
as with a confident model on easy problems: resamples miss answers that are rare. With confidences
from .95 to 1 and one answer in 50 wrong, it contained the error in 42% of the cases with 30
problems, 85% with 100 and 89% with 200. Some of these simulations are in
tests/calibration/metrics/test_gap_intervals.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibration.metrics.estimates import Estimate

_STANDARD_ERRORS = 2.0


def total_gap(gap_XB: NDArray[np.float64]) -> NDArray[np.float64]:
    """ECE from the gaps of its bins: correctness minus confidence, per rollout."""
    return np.asarray(np.abs(gap_XB).sum(axis=-1))


def total_overconfidence(gap_XB: NDArray[np.float64]) -> NDArray[np.float64]:
    """PCE from the gaps of its bins."""
    return np.asarray(np.maximum(-gap_XB, 0.0).sum(axis=-1))


ERRORS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "ece": total_gap,
    "pce": total_overconfidence,
    "adaptive_ece": total_gap,
}
"""Calibration errors as functions of the gaps of bins, on the last axis."""


@dataclass(frozen=True, slots=True, eq=False)
class Noise:
    """A calibration error, and what noise may have added to it in each resample (T).

    Attributes:
        value: the error.
        most_T: the addition if the true gaps are as small as plausible, so that noise mostly adds
            up.
        least_T: the addition if they are as large as plausible, so that noise mostly cancels.
    """

    value: float
    most_T: NDArray[np.float64]
    least_T: NDArray[np.float64]

    @classmethod
    def of(cls, name: str, gap_B: NDArray[np.float64], gap_TB: NDArray[np.float64]) -> Self:
        """The noise from the gaps of bins, and the gaps in each resample.

        Args:
            name: name from ERRORS.
            gap_B: gaps of all rollouts.
            gap_TB: gaps in the resamples.
        """
        error, noise_TB = ERRORS[name], gap_TB - gap_B
        reach_B = _STANDARD_ERRORS * noise_TB.std(axis=0)
        small_B = np.sign(gap_B) * np.maximum(np.abs(gap_B) - reach_B, 0.0)
        # PCE counts only overconfidence, so a more negative gap is always the larger one.
        large_B = gap_B + np.where(gap_B > 0, reach_B, -reach_B)
        large_B = gap_B - reach_B if name == "pce" else large_B
        return cls(
            float(error(gap_B)),
            error(small_B + noise_TB) - error(small_B),
            error(large_B + noise_TB) - error(large_B),
        )

    def estimate(self, tails: tuple[float, float]) -> Estimate:
        """The error with its interval.

        Args:
            tails: the two quantiles that bound the interval, for example 0.025 and 0.975.
        """
        low = self.value - np.quantile(self.most_T, tails[1])
        high = self.value - np.quantile(self.least_T, tails[0])
        return Estimate(self.value, max(0.0, float(low)), min(1.0, float(high)))

    def minus(self, other: Self, tails: tuple[float, float]) -> Estimate:
        """The difference of two errors, with resamples of the same problems."""
        value = self.value - other.value
        low = value - np.quantile(self.most_T - other.least_T, tails[1])
        high = value - np.quantile(self.least_T - other.most_T, tails[0])
        return Estimate(value, float(low), float(high))
