"""Proper scoring rules: what a confidence costs once the outcome is known."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.metrics.arguments import check_probabilities

LEAST_PROBABILITY = 1e-6
"""What a logarithm takes for 0: being wrong and fully sure costs -ln(1e-6) = 13.8 nats, not ∞."""


def brier_score(confidence: ArrayLike, correct: ArrayLike) -> float:
    """The mean squared difference of confidence and correctness."""
    confidence_N, correct_N = check_probabilities(confidence, correct)
    return float(np.mean((confidence_N - correct_N) ** 2))


def negative_log_likelihood(confidence: ArrayLike, correct: ArrayLike) -> float:
    """The mean of -ln of the probability that confidence gave to the outcome, in nats.

    Confidences are first clipped to [LEAST_PROBABILITY, 1 - LEAST_PROBABILITY]. Where many are 0 or
    1 and the outcome is not, the figure is as much about that limit as about the confidence.
    """
    confidence_N, correct_N = check_probabilities(confidence, correct)
    return float(np.mean(log_losses(confidence_N, correct_N)))


def log_losses(
    confidence_N: NDArray[np.float64], correct_N: NDArray[np.float64]
) -> NDArray[np.float64]:
    """What `negative_log_likelihood` is the mean of."""
    clipped_N = np.clip(confidence_N, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    return np.asarray(-correct_N * np.log(clipped_N) - (1 - correct_N) * np.log1p(-clipped_N))
