"""Reliability: confidence compared with accuracy, bin by bin."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.errors import CalibrationError
from calibration.metrics.arguments import check_probabilities

N_BINS = 10
"""Number of bins of equal width over [0, 1]; RLCM does not state its number."""


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The answers with a confidence in [low, high); the last bin includes 1.

    Attributes:
        low: lower edge.
        high: upper edge.
        count: number of answers, at least 1.
        confidence: their mean confidence.
        accuracy: their mean correctness.
        accuracy_low, accuracy_high: its 95% interval; None if nobody said which answers are of one
            problem.
    """

    low: float
    high: float
    count: int
    confidence: float
    accuracy: float
    accuracy_low: float | None = None
    accuracy_high: float | None = None


def bin_numbers(confidence_N: NDArray[np.float64], n_bins: int) -> NDArray[np.intp]:
    """The bin of equal width for each confidence; an edge belongs to the bin above it.

    Raises:
        CalibrationError: there are no bins.
    """
    if n_bins < 1:
        raise CalibrationError(f"n_bins is {n_bins}: give 1 or more")
    return np.digitize(confidence_N, np.arange(1, n_bins) / n_bins)


def reliability_bins(
    confidence: ArrayLike, correct: ArrayLike, n_bins: int = N_BINS
) -> tuple[ReliabilityBin, ...]:
    """The non-empty bins of equal width, by rising confidence.

    Raises:
        CalibrationError: there are no answers, lengths differ, a number is outside [0, 1], or there
            are no bins.
    """
    confidence_N, correct_N = check_probabilities(confidence, correct)
    bin_N = bin_numbers(confidence_N, n_bins)
    return tuple(
        ReliabilityBin(
            low=b / n_bins,
            high=(b + 1) / n_bins,
            count=int((bin_N == b).sum()),
            confidence=float(confidence_N[bin_N == b].mean()),
            accuracy=float(correct_N[bin_N == b].mean()),
        )
        for b in np.unique(bin_N).tolist()
    )


def expected_calibration_error(
    confidence: ArrayLike, correct: ArrayLike, n_bins: int = N_BINS
) -> float:
    """ECE: the gap between accuracy and confidence, averaged over answers; bins of equal width.

    It depends on the number of bins, is biased upwards for small bins, and misses gaps that cancel
    within a bin.
    """
    bins = reliability_bins(confidence, correct, n_bins)
    return _mean_gap(bins, [abs(b.accuracy - b.confidence) for b in bins])


def positive_calibration_error(
    confidence: ArrayLike, correct: ArrayLike, n_bins: int = N_BINS
) -> float:
    """PCE: the part of ECE that comes from bins with more confidence than accuracy."""
    bins = reliability_bins(confidence, correct, n_bins)
    return _mean_gap(bins, [max(0.0, b.confidence - b.accuracy) for b in bins])


def _mean_gap(bins: tuple[ReliabilityBin, ...], gaps: list[float]) -> float:
    return float(np.average(gaps, weights=[b.count for b in bins]))
