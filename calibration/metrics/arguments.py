"""Checks of the arguments of metrics."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.errors import CalibrationError


def check_probabilities(
    confidence: ArrayLike, correct: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both as flat arrays of numbers from 0 to 1.

    Raises:
        CalibrationError: there are no answers, lengths differ, or a number is outside [0, 1].
    """
    confidence_N, correct_N = _flat(confidence, correct)
    _check_shares("confidence", confidence_N)
    _check_shares("correct", correct_N)
    return confidence_N, correct_N


def check_scores(
    score: ArrayLike, correct: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scores that can be ranked, and outcomes from 0 to 1, as flat arrays.

    Raises:
        CalibrationError: there are no answers, lengths differ, a score is NaN, or an outcome is
            outside [0, 1].
    """
    score_N, correct_N = _flat(score, correct)
    _check_shares("correct", correct_N)
    if np.isnan(score_N).any():
        raise CalibrationError("a confidence is nan: a ranking needs numbers that can be ordered")
    return score_N, correct_N


def check_verdicts(
    score: ArrayLike, correct: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Scores that can be ranked, and outcomes that are right or wrong, as flat arrays.

    Raises:
        CalibrationError: there are no answers, lengths differ, a score is NaN, or an outcome is
            neither 0 nor 1.
    """
    score_N, correct_N = check_scores(score, correct)
    odd_N = correct_N[(correct_N != 0) & (correct_N != 1)]
    if odd_N.size:
        raise CalibrationError(f"correct is {odd_N[0]:g}: AUROC needs outcomes of 0 or 1")
    return score_N, correct_N == 1


def _flat(
    confidence: ArrayLike, correct: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    confidence_N = np.asarray(confidence, dtype=np.float64).ravel()
    correct_N = np.asarray(correct, dtype=np.float64).ravel()
    if confidence_N.size != correct_N.size or confidence_N.size == 0:
        raise CalibrationError(
            f"{confidence_N.size} confidences and {correct_N.size} outcomes: give one outcome per "
            "confidence, and at least one"
        )
    return confidence_N, correct_N


def _check_shares(name: str, value_N: NDArray[np.float64]) -> None:
    odd_N = value_N[~((value_N >= 0) & (value_N <= 1))]
    if odd_N.size:
        raise CalibrationError(f"{name} is {odd_N[0]}: give numbers from 0 to 1")
