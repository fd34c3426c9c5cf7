"""Whether higher confidence goes with right answers, independent of the confidence's scale."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.errors import CalibrationError
from calibration.metrics.arguments import check_scores, check_verdicts


@dataclass(frozen=True, slots=True, eq=False)
class RiskCoverage:
    """The risk-coverage curve: answer only above a threshold of the confidence.

    Attributes:
        threshold_K: the distinct confidences, falling; an answer is given if its confidence reaches
            it.
        coverage_K: share of the answers given; the last is 1.
        risk_K: share wrong among the answers given: the selective risk.
        area: area under the curve (AURC), in [0, 1]; lower is better.
    """

    threshold_K: NDArray[np.float64]
    coverage_K: NDArray[np.float64]
    risk_K: NDArray[np.float64]
    area: float


def risk_coverage(confidence: ArrayLike, correct: ArrayLike) -> RiskCoverage:
    """The risk-coverage curve (El-Yaniv & Wiener, JMLR 2010) and its area (arXiv 1805.08206).

    The area is the mean selective risk of the n most confident answers, over n = 1 .. N, with ties
    in random order. The curve has points only where a threshold can separate answers.

    It depends on the number of right answers too, so it compares confidences of the same answers,
    not two models. It does not cover the choice of a threshold: a point chosen by its risk here has
    a larger risk on new answers. Only a test (`certify`) bounds that.

    Args:
        confidence: any score; higher means more confident.
        correct: from 0 to 1.

    Raises:
        CalibrationError: there are no answers, lengths differ, a score is NaN, or `correct` is
            outside [0, 1].
    """
    score_N, correct_N = check_scores(confidence, correct)
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
        confidence: any score; higher means more confident.
        correct: 0 or 1.

    Raises:
        CalibrationError: all answers are right or all wrong, or `correct` is neither 0 nor 1.
    """
    score_N, correct_N = check_verdicts(confidence, correct)
    wins, pairs = pairs_within(np.zeros(score_N.size, dtype=np.intp), score_N, correct_N)
    if pairs[0] == 0:
        n_right = int(correct_N.sum())
        raise CalibrationError(
            f"{n_right} right and {score_N.size - n_right} wrong answers: AUROC needs both"
        )
    return float(wins[0] / pairs[0])


def pairs_within(
    problem_N: NDArray[np.integer[Any]],
    score_N: NDArray[np.float64],
    correct_N: NDArray[np.bool_],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Per problem, the right-wrong pairs in the right order (ties count half), and all pairs.

    Args:
        problem_N: index of each answer's problem, from 0.
        score_N: any score; higher means more confident.
        correct_N: whether the answer is right.
    """
    order_N = np.lexsort((score_N, problem_N))
    problem_N, score_N, wrong_N = problem_N[order_N], score_N[order_N], ~correct_N[order_N]
    wrong_before_N = np.cumsum(wrong_N) - wrong_N
    new_problem_N = np.append(True, problem_N[1:] != problem_N[:-1])
    new_score_N = new_problem_N | np.append(True, score_N[1:] != score_N[:-1])
    # Numbers of wrong answers: before the tie of this answer, up to the end of the tie, and before
    # its problem.
    tie_N = np.cumsum(new_score_N) - 1
    start_K = np.flatnonzero(new_score_N)
    before_K = wrong_before_N[start_K]
    upto_K = np.append(before_K[1:], wrong_N.sum())
    first_P = np.flatnonzero(new_problem_N)
    before_problem_N = np.repeat(wrong_before_N[first_P], np.diff(first_P, append=problem_N.size))
    below_N = (before_K[tie_N] + upto_K[tie_N]) / 2 - before_problem_N
    n_P = np.bincount(problem_N)
    right_P = n_P - np.bincount(problem_N[wrong_N], minlength=n_P.size)
    wins_P = np.bincount(problem_N, np.where(wrong_N, 0.0, below_N))
    return np.asarray(wins_P, dtype=np.float64), right_P * (n_P - right_P)
