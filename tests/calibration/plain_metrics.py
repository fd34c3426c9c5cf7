"""Metrics as they are defined, for single answers and resample by resample.

The package computes the same figures for many resamples at once
(`calibration.metrics.weighted_metrics`); its tests compare both.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.errors import CalibrationError
from calibration.metrics.arguments import check_probabilities, check_verdicts
from calibration.metrics.gap_intervals import ERRORS
from calibration.metrics.ranking import pairs_within
from calibration.metrics.reliability import N_BINS
from calibration.metrics.resampling import RESAMPLES, resampled
from calibration.metrics.scores import ScoredRollouts
from calibration.metrics.scoring import log_losses
from calibration.metrics.weighted_metrics import METRICS, WeightedMetrics


def within_auroc(problem: ArrayLike, confidence: ArrayLike, correct: ArrayLike) -> float | None:
    """AUROC within problems: a right answer against a wrong answer of the same problem.

    All pairs of a right and a wrong answer of one problem count the same, and ties count half; None
    if no problem has both.
    """
    score_N, correct_N = check_verdicts(confidence, correct)
    problem_N = np.asarray(problem).ravel()
    if problem_N.size != score_N.size:
        raise CalibrationError(
            f"{problem_N.size} problems and {score_N.size} confidences: give each answer's problem"
        )
    wins_P, pairs_P = pairs_within(problem_N, score_N, correct_N)
    pairs = pairs_P.sum()
    return float(wins_P.sum() / pairs) if pairs else None


def adaptive_calibration_error(
    confidence: ArrayLike, correct: ArrayLike, n_bins: int = N_BINS
) -> float:
    """ECE over bins of equal mass: the answers in order of confidence, cut into equal parts.

    An answer across an edge counts in both bins, in proportion. Answers with the same confidence
    each count as right to the degree of the share of them that is right.
    """
    confidence_N, correct_N = check_probabilities(confidence, correct)
    if n_bins < 1:
        raise CalibrationError(f"n_bins is {n_bins}: give 1 or more")
    _, tie_N, count_K = np.unique(confidence_N, return_inverse=True, return_counts=True)
    answers_K = np.cumsum(count_K)
    gap_K = np.cumsum(np.bincount(tie_N, correct_N - confidence_N))
    edges = np.arange(1, n_bins) * (answers_K[-1] / n_bins)
    at_edges = np.interp(edges, np.append(0, answers_K), np.append(0.0, gap_K))
    gaps = np.diff(at_edges, prepend=0.0, append=gap_K[-1])
    return float(np.abs(gaps).sum() / confidence_N.size)


def negative_log_likelihood(confidence: ArrayLike, correct: ArrayLike) -> float:
    """The mean of -ln of the probability that the confidence gave to the outcome, in nats."""
    return float(np.mean(log_losses(*check_probabilities(confidence, correct))))


def metric_replicates(
    scored: ScoredRollouts,
    names: Sequence[str] = METRICS,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    n_bins: int = N_BINS,
) -> dict[str, NDArray[np.float64]]:
    """The metrics in each resample (T), NaN if undefined."""
    figures_of = WeightedMetrics(scored, names, n_bins).figures
    figures = resampled(figures_of, scored.n_units, resamples, seed, threads=1)
    values = {name: ERRORS[name](own) if name in ERRORS else own for name, own in figures.items()}
    return {name: value_T[1:] for name, value_T in values.items()}
