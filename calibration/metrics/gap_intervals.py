"""Intervals of calibration errors, which chance only makes larger.

A calibration error adds up the gaps of bins, whichever their sign, so that noise in the gaps does
not cancel: the error of a sample is too high, that of a resample as much again, and the quantiles
of resamples may all lie above the truth. Measured on 30 problems of a calibrated confidence, the
usual interval never held it.

Here the noise of resamples is added to gaps of which it is known what it does to them. The closer
the true gaps are to 0, the higher it lifts the error, and the farther they are, the lower it can
press it. So the lower limit is found with every gap moved towards 0 by two standard errors of its
own, or up to 0, and the upper limit with every gap moved away from it.

What the interval is of is the error, over the same bins, of all that the problems were drawn from.
In simulations it held it in 96 % of the cases or more from 100 problems on, and in 92 % or more of
30 (tests/calibration/metrics/test_gap_intervals.py has some of them). The more gaps are small, the
more cautious it is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibration.metrics.estimates import Estimate

_STANDARD_ERRORS = 2.0


def total_gap(gap_XB: NDArray[np.float64]) -> NDArray[np.float64]:
    """ECE from the gaps of its bins: correctness minus confidence, over the number of rollouts."""
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
    """A calibration error, and what chance may have added to it in each resample (T).

    Attributes:
        value: the error.
        most_T: added where true gaps are as small as they may be, so that noise mostly adds up.
        least_T: added where they are as large as they may be, so that noise mostly cancels.
    """

    value: float
    most_T: NDArray[np.float64]
    least_T: NDArray[np.float64]

    @classmethod
    def of(cls, name: str, gap_B: NDArray[np.float64], gap_TB: NDArray[np.float64]) -> Self:
        """From the gaps of bins, and those in each resample.

        Args:
            name: of ERRORS.
            gap_B: gaps of all rollouts.
            gap_TB: gaps in the resamples.
        """
        error, noise_TB = ERRORS[name], gap_TB - gap_B
        reach_B = _STANDARD_ERRORS * noise_TB.std(axis=0)
        small_B = np.sign(gap_B) * np.maximum(np.abs(gap_B) - reach_B, 0.0)
        # PCE sees overconfidence only, so that no gap is larger than a more negative one.
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
            tails: the quantiles that an interval lies between, as 0.025 and 0.975.
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
