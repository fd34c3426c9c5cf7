"""One answer from several samples (RLCM §5.2): a single vote for serving, many at once for replay.

Weights are rounded to multiples of 2**-40, so that sums of up to 4096 weights are exact in any
order. Both forms therefore give the same result, also for ties. A property test checks this.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.errors import CalibrationError

NO_ANSWER = -1
"""The class of a sample without a readable answer."""

WEIGHT_UNITS = 2.0**40
"""Every weight is a whole number divided by this."""


@dataclass(frozen=True, slots=True)
class Vote:
    """The outcome of a vote.

    Attributes:
        winner: the class with the most weight; None (abstain) if no sample has an answer.
        share: the winner's weight over the weight of all samples, including samples without an
            answer; 0 if there is no winner or all weights are 0.
        tally: weight of each answer class, in order of first appearance; without NO_ANSWER.
        total: weight of all samples.
    """

    winner: int | None
    share: float
    tally: dict[int, float]
    total: float


def majority_vote(classes: Sequence[int]) -> Vote:
    """The most frequent answer class.

    A tie goes to the class that comes first, so that the same samples always give the same answer.
    The paper breaks ties at random; a table of results should average over ties instead.

    Args:
        classes: answer class of each sample, NO_ANSWER where there is none.
    """
    return confidence_vote(classes, [1.0] * len(classes))


def confidence_vote(classes: Sequence[int], confidences: Sequence[float]) -> Vote:
    """The answer class with the highest total confidence; a tie goes to the class that comes first.

    Args:
        classes: answer class of each sample, NO_ANSWER where there is none.
        confidences: weight of each sample, in [0, 1]; rounded to multiples of 2**-40.

    Raises:
        CalibrationError: the lengths differ, a confidence is outside [0, 1], or a class is below
            -1.
    """
    if len(classes) != len(confidences):
        raise CalibrationError(
            f"{len(classes)} answer classes and {len(confidences)} confidences: give one per sample"
        )
    weights: list[float] = []
    by_class: dict[int, list[float]] = {}
    for answer_class, confidence in zip(classes, confidences, strict=True):
        if answer_class < NO_ANSWER:
            raise CalibrationError(f"answer class is {answer_class}: give {NO_ANSWER} or more")
        if not 0 <= confidence <= 1:
            raise CalibrationError(f"confidence is {confidence}: give a number from 0 to 1")
        weights.append(round(confidence * WEIGHT_UNITS) / WEIGHT_UNITS)
        if answer_class != NO_ANSWER:
            by_class.setdefault(answer_class, []).append(weights[-1])
    # With fsum the order does not matter beyond 4096 samples either.
    tally = {answer_class: math.fsum(values) for answer_class, values in by_class.items()}
    total = math.fsum(weights)
    if not tally:
        return Vote(winner=None, share=0.0, tally={}, total=total)
    winner = max(tally, key=tally.__getitem__)
    share = tally[winner] / total if total > 0 else 0.0
    return Vote(winner, share, tally, total)


@dataclass(frozen=True, slots=True, eq=False)
class Votes:
    """The outcomes of many votes, in an array of any shape (X).

    Attributes:
        sample_X: index of the first sample of the winning class; -1 if no sample has an answer.
        share_X: see `Vote.share`.
    """

    sample_X: NDArray[np.intp]
    share_X: NDArray[np.float64]


def take_votes(class_XN: NDArray[np.integer[Any]], weight_XN: NDArray[np.float64]) -> Votes:
    """`confidence_vote` of many questions at once, with samples (N) on the last axis.

    It is fastest if the samples are the outermost axis in memory. Sums are exact up to 4096
    samples.

    Args:
        class_XN: answer class of each sample, NO_ANSWER where there is none.
        weight_XN: weight of each sample, in [0, 1]; not checked.
    """
    class_NX, weight_NX = np.moveaxis(class_XN, -1, 0), np.moveaxis(weight_XN, -1, 0)
    weight_NX = np.rint(weight_NX * WEIGHT_UNITS) / WEIGHT_UNITS
    shape_X = class_NX.shape[1:]
    sample_X = np.full(shape_X, -1, dtype=np.intp)
    most_X = np.full(shape_X, -1.0)
    total_X = np.zeros(shape_X)
    for n, class_X in enumerate(class_NX):
        total_X += weight_NX[n]
        tally_X = np.zeros(shape_X)
        for other_X, weight_X in zip(class_NX, weight_NX, strict=True):
            tally_X += np.where(other_X == class_X, weight_X, 0.0)
        # Later samples of a class have the same tally, so the first sample of the class stays.
        wins_X = (class_X != NO_ANSWER) & (tally_X > most_X)
        sample_X[wins_X] = n
        most_X[wins_X] = tally_X[wins_X]
    share_X = np.zeros(shape_X)
    np.divide(most_X, total_X, out=share_X, where=(sample_X >= 0) & (total_X > 0))
    return Votes(sample_X, share_X)


def is_answered(
    samples: int, winner_X: ArrayLike, share_X: ArrayLike, least_X: ArrayLike
) -> NDArray[np.bool_]:
    """Whether the winner of a vote is given as the answer; serving and replay share this rule.

    With several samples, the winner must hold at least the required share of the vote. With one
    sample there is no such requirement.

    Args:
        samples: number of samples that took part.
        winner_X: whether there is a winner.
        share_X: the winner's share.
        least_X: the required share, `ExitPolicy.lambda_vote`.
    """
    won_X = np.asarray(winner_X, dtype=np.bool_)
    return won_X if samples == 1 else won_X & (np.asarray(share_X) >= np.asarray(least_X))
