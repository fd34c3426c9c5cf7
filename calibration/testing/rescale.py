"""The scale of a confidence, learned on a few problems that the test does not use (Platt scaling).

Fixed thresholds such as "wrong at most one time in ten" have this meaning only if a confidence of
0.9 is right nine times in ten. Otherwise thresholds are defined on the scale on which this holds,
and converted to the scale of the recorded confidence. A poor fit costs power, not validity.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from calibration.traces.traces import Traces

GAIN = 2.0
"""Minimal gain of a fit: twice the gain in log-likelihood, with one unit of weight per problem.

Below it the recorded scale is kept, so that a calibrated probe loses nothing to the noise of a fit.
"""
_LEAST_SLOPE = 0.05
_NEAR_0_OR_1 = 1e-6


@dataclass(frozen=True, slots=True)
class Scale:
    """logit P(right | c) = slope · logit c + offset; slope 1 and offset 0 if c is calibrated."""

    slope: float = 1.0
    offset: float = 0.0

    @classmethod
    def fit(cls, traces: Traces, shrinkage: float = 1.0) -> Self:
        """The fitted scale, or the recorded one if that fits nearly as well.

        Every problem has the same weight, shared by all its readings. Slope and offset are shrunk a
        little towards 1 and 0. The fit does not cover a relation that is not monotone. It also
        ignores that an exit takes the first reading above a threshold, which is right less often
        than all such readings.

        Args:
            traces: problems to learn from.
            shrinkage: strength of the shrinkage towards 1 and 0; use less for a score that is no
                probability.
        """
        logit_N, right_N, weight_N = _readings(traces)
        # A sum depends on its order in the last bit, and the digits that are kept on that bit.
        order_N = np.lexsort((weight_N, right_N, logit_N))
        logit_N, right_N, weight_N = logit_N[order_N], right_N[order_N], weight_N[order_N]

        def loss(slope_and_offset: NDArray[np.float64]) -> float:
            z_N = slope_and_offset[0] * logit_N + slope_and_offset[1]
            return float(weight_N @ (np.logaddexp(0, z_N) - right_N * z_N))

        def penalised(slope_and_offset: NDArray[np.float64]) -> float:
            return loss(slope_and_offset) + shrinkage * float(
                np.sum((slope_and_offset - recorded) ** 2) / 2
            )

        recorded = np.array([1.0, 0.0])
        fitted = optimize.minimize(penalised, recorded, method="L-BFGS-B").x
        if fitted[0] < _LEAST_SLOPE or 2 * (loss(recorded) - loss(fitted)) < GAIN:
            return cls()
        return cls(*(float(value) for value in np.round(fitted, 6)))

    @property
    def is_recorded(self) -> bool:
        """Whether thresholds stay unchanged."""
        return (self.slope, self.offset) == (1.0, 0.0)

    def right(self, confidence: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probability that an answer is right, at each recorded confidence; NaN stays NaN."""
        clipped = confidence.clip(_NEAR_0_OR_1, 1 - _NEAR_0_OR_1)
        return np.asarray(special.expit(self.slope * special.logit(clipped) + self.offset))

    def threshold(self, right: float) -> float:
        """The recorded confidence at which an answer is right with this probability.

        Values outside (0, 1) always or never cause an exit; they stay unchanged.
        """
        if self.is_recorded or not 0 < right < 1:
            return right
        return round(float(special.expit((special.logit(right) - self.offset) / self.slope)), 9)


def _readings(
    traces: Traces,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Logits of all readings (N), whether the answer there was right, and weights."""
    columns_C = np.arange(traces.tokens_RC.shape[1])
    recorded_RC = columns_C <= traces.final_R[:, None]
    readings_P = np.bincount(traces.problem_R, recorded_RC.sum(axis=1))
    weight_R1 = 1 / readings_P[traces.problem_R][:, None]
    confidence_N = traces.confidence_RC[recorded_RC].clip(_NEAR_0_OR_1, 1 - _NEAR_0_OR_1)
    return (
        np.asarray(special.logit(confidence_N)),
        traces.correct_RC[recorded_RC].astype(np.float64),
        np.broadcast_to(weight_R1, recorded_RC.shape)[recorded_RC],
    )
