"""Proper scoring rules of a confidence."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.metrics.arguments import check_probabilities

LEAST_PROBABILITY = 1e-6
"""Stands for 0 in logarithms: a wrong answer with full confidence costs 13.8 nats, not ∞."""


def brier_score(confidence: ArrayLike, correct: ArrayLike) -> float:
    """The mean squared difference of confidence and correctness."""
    confidence_N, correct_N = check_probabilities(confidence, correct)
    return float(np.mean((confidence_N - correct_N) ** 2))


def log_losses(
    confidence_N: NDArray[np.float64], correct_N: NDArray[np.float64]
) -> NDArray[np.float64]:
    """-ln of the probability that each confidence gave to its outcome, in nats.

    Confidences are first clipped to [LEAST_PROBABILITY, 1 - LEAST_PROBABILITY]. If many confidences
    are 0 or 1 and wrong, the mean depends on this limit as much as on the confidence.
    """
    clipped_N = np.clip(confidence_N, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    return np.asarray(-correct_N * np.log(clipped_N) - (1 - correct_N) * np.log1p(-clipped_N))
