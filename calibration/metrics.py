"""How well confidence matches correctness (RLCM §4.1); estimates, without error bars or guarantees.

`confidence` and `correct` hold one number per answer. `correct` is 0 or 1, or the share of several
answers that were right, except where a function says otherwise.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.errors import CalibrationError

N_BINS = 10
"""Bins of equal width over [0, 1]; RLCM does not state its number."""


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The answers with a confidence in [low, high); the last bin includes 1.

    Attributes:
        low: lower edge.
        high: upper edge.
        count: number of answers, at least 1.
        confidence: their mean confidence.
        accuracy: their mean correctness.
    """

    low: float
    high: float
    count: int
    confidence: float
    accuracy: float


def reliability_bins(
    confidence: ArrayLike, correct: ArrayLike, n_bins: int = N_BINS
) -> tuple[ReliabilityBin, ...]:
    """The non-empty bins of equal width, by rising confidence.

    Raises:
        CalibrationError: no answers, lengths that differ, numbers outside [0, 1], or no bins.
    """
    confidence_N, correct_N = _checked(confidence, correct)
    if n_bins < 1:
        raise CalibrationError(f"n_bins is {n_bins}: give 1 or more")
    bin_N = np.digitize(confidence_N, np.arange(1, n_bins) / n_bins)
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

    It depends on the number of bins, is biased upwards when bins are small, and does not see gaps
    that cancel within a bin.
    """
    bins = reliability_bins(confidence, correct, n_bins)
    return _mean_gap(bins, [abs(b.accuracy - b.confidence) for b in bins])


def positive_calibration_error(
    confidence: ArrayLike, correct: ArrayLike, n_bins: int = N_BINS
) -> float:
    """PCE: the part of ECE that comes from bins with more confidence than accuracy."""
    bins = reliability_bins(confidence, correct, n_bins)
    return _mean_gap(bins, [max(0.0, b.confidence - b.accuracy) for b in bins])


def brier_score(confidence: ArrayLike, correct: ArrayLike) -> float:
    """The mean squared difference of confidence and correctness."""
    confidence_N, correct_N = _checked(confidence, correct)
    return float(np.mean((confidence_N - correct_N) ** 2))


@dataclass(frozen=True, slots=True, eq=False)
class RiskCoverage:
    """Answering only what is sure enough: how much is answered, and how much of that is wrong.

    Attributes:
        threshold_K: the distinct confidences, falling; answered is what reaches the threshold.
        coverage_K: share of the answers that reach it; the last is 1.
        risk_K: share wrong of those, the selective risk.
        area: area under the curve (AURC), in [0, 1]; lower is better.
    """

    threshold_K: NDArray[np.float64]
    coverage_K: NDArray[np.float64]
    risk_K: NDArray[np.float64]
    area: float


def risk_coverage(confidence: ArrayLike, correct: ArrayLike) -> RiskCoverage:
    """The risk-coverage curve (El-Yaniv & Wiener, JMLR 2010) and its area (arXiv 1805.08206).

    The area is the mean selective risk of the n surest answers, over n = 1 .. N, ties taken in
    random order; the curve has a point only where a threshold can cut.

    It depends on how many answers are right, not on the confidence alone, so it compares scores of
    the same answers and no two models. It does not cover the choice of a threshold: a point chosen
    by its risk here has a larger one on new answers, and only a test (`certify`) bounds that.

    Args:
        confidence: any score, higher for surer.
        correct: from 0 to 1.

    Raises:
        CalibrationError: no answers, lengths that differ, a NaN, or `correct` outside [0, 1].
    """
    score_N = np.asarray(confidence, dtype=np.float64).ravel()
    correct_N = np.asarray(correct, dtype=np.float64).ravel()
    _check_lengths(score_N, correct_N)
    _check_shares("correct", correct_N)
    if np.isnan(score_N).any():
        raise CalibrationError("a confidence is nan: a curve takes scores that can be ranked")
    threshold_K, tie_N, count_K = np.unique(-score_N, return_inverse=True, return_counts=True)
    wrong_K = np.bincount(tie_N, 1 - correct_N)
    answered_K = np.cumsum(count_K)
    expected_N = np.cumsum(np.repeat(wrong_K / count_K, count_K))
    return RiskCoverage(
        threshold_K=-threshold_K,
        coverage_K=answered_K / score_N.size,
        risk_K=np.cumsum(wrong_K) / answered_K,
        area=float(np.mean(expected_N / np.arange(1, score_N.size + 1))),
    )


def auroc(confidence: ArrayLike, correct: ArrayLike) -> float:
    """The probability that a right answer has more confidence than a wrong one; ties count half.

    Args:
        confidence: any score, higher for surer.
        correct: 0 or 1.

    Raises:
        CalibrationError: all answers are right or all wrong, or `correct` is neither 0 nor 1.
    """
    score_N = np.asarray(confidence, dtype=np.float64).ravel()
    correct_N = np.asarray(correct, dtype=np.float64).ravel()
    _check_lengths(score_N, correct_N)
    odd_N = correct_N[(correct_N != 0) & (correct_N != 1)]
    if odd_N.size or np.isnan(score_N).any():
        value = f"correct is {odd_N[0]:g}" if odd_N.size else "a confidence is nan"
        raise CalibrationError(f"{value}: AUROC takes scores that can be ranked, and 0 or 1")
    right, wrong = score_N[correct_N == 1], np.sort(score_N[correct_N == 0])
    if right.size == 0 or wrong.size == 0:
        raise CalibrationError(
            f"{right.size} right and {wrong.size} wrong answers: AUROC compares the two, give both"
        )
    n_below = np.searchsorted(wrong, right, side="left")
    n_below_or_tied = np.searchsorted(wrong, right, side="right")
    return float(np.mean(n_below + n_below_or_tied) / 2 / wrong.size)


def _mean_gap(bins: tuple[ReliabilityBin, ...], gaps: list[float]) -> float:
    return float(np.average(gaps, weights=[b.count for b in bins]))


def _checked(
    confidence: ArrayLike, correct: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    confidence_N = np.asarray(confidence, dtype=np.float64).ravel()
    correct_N = np.asarray(correct, dtype=np.float64).ravel()
    _check_lengths(confidence_N, correct_N)
    _check_shares("confidence", confidence_N)
    _check_shares("correct", correct_N)
    return confidence_N, correct_N


def _check_shares(name: str, value_N: NDArray[np.float64]) -> None:
    odd_N = value_N[~((value_N >= 0) & (value_N <= 1))]
    if odd_N.size:
        raise CalibrationError(f"{name} is {odd_N[0]}: give numbers from 0 to 1")


def _check_lengths(confidence_N: NDArray[np.float64], correct_N: NDArray[np.float64]) -> None:
    if confidence_N.size != correct_N.size or confidence_N.size == 0:
        raise CalibrationError(
            f"{confidence_N.size} confidences and {correct_N.size} outcomes: give one outcome per "
            "confidence, and at least one"
        )
