"""One answer out of several samples (RLCM §5.2)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from calibration.errors import CalibrationError

NO_ANSWER = -1
"""The class of a sample in which no answer could be read."""


@dataclass(frozen=True, slots=True)
class Vote:
    """The outcome of a vote.

    Attributes:
        winner: the class with the most weight; None (abstain) if no sample holds an answer.
        share: the winner's weight over the weight of all samples, those without an answer
            included; 0 if nobody won or all weights are 0.
        tally: weight of each answer class, in the order first seen; without NO_ANSWER.
    """

    winner: int | None
    share: float
    tally: dict[int, float]


def majority_vote(classes: Sequence[int]) -> Vote:
    """The most frequent answer class.

    A tie goes to the class seen first, so that the same samples always give the same answer; the
    paper breaks ties at random, which a table of results should average over instead.

    Args:
        classes: answer class of each sample, NO_ANSWER where there is none.
    """
    return confidence_vote(classes, [1.0] * len(classes))


def confidence_vote(classes: Sequence[int], confidences: Sequence[float]) -> Vote:
    """The answer class with the highest total confidence; a tie goes to the class seen first.

    Args:
        classes: answer class of each sample, NO_ANSWER where there is none.
        confidences: weight of each sample, in [0, 1].

    Raises:
        CalibrationError: not one confidence per sample, or one outside [0, 1], or a class below -1.
    """
    if len(classes) != len(confidences):
        raise CalibrationError(
            f"{len(classes)} answer classes and {len(confidences)} confidences: give one per sample"
        )
    weights: dict[int, list[float]] = {}
    for answer_class, confidence in zip(classes, confidences, strict=True):
        if answer_class < NO_ANSWER:
            raise CalibrationError(f"answer class is {answer_class}: give {NO_ANSWER} or more")
        if not 0 <= confidence <= 1:
            raise CalibrationError(f"confidence is {confidence}: give a number from 0 to 1")
        if answer_class != NO_ANSWER:
            weights.setdefault(answer_class, []).append(confidence)
    # fsum rounds once, so that the order of the samples cannot decide a close vote.
    tally = {answer_class: math.fsum(values) for answer_class, values in weights.items()}
    if not tally:
        return Vote(winner=None, share=0.0, tally={})
    winner = max(tally, key=tally.__getitem__)
    total = math.fsum(confidences)
    return Vote(winner, share=tally[winner] / total if total > 0 else 0.0, tally=tally)
