"""Whether more confidence goes with more answers right, whatever the confidence's scale."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.errors import CalibrationError
from calibration.metrics.arguments import check_scores, check_verdicts


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
        confidence: any score, higher for surer.
        correct: 0 or 1.

    Raises:
        CalibrationError: all answers are right or all wrong, or `correct` is neither 0 nor 1.
    """
    score_N, correct_N = check_verdicts(confidence, correct, "AUROC")
    wins, pairs = pairs_within(np.zeros(score_N.size, dtype=np.intp), score_N, correct_N)
    if pairs[0] == 0:
        n_right = int(correct_N.sum())
        raise CalibrationError(
            f"{n_right} right and {score_N.size - n_right} wrong answers: AUROC compares the two, "
            "give both"
        )
    return float(wins[0] / pairs[0])


def within_auroc(problem: ArrayLike, confidence: ArrayLike, correct: ArrayLike) -> float | None:
    """The probability that of one problem's answers a right one has more confidence than a wrong.

    All pairs of a right and a wrong answer of the same problem count alike, whichever the problem,
    and ties count half; 1/2 is what a confidence that only knows the problem gets. This is what
    voting needs of a confidence, and ECE is blind to it (RLCM App. F). Problems whose answers are
    all right or all wrong have no pair and no part in it, so that models are compared on different
    problems; and a problem near half right has more pairs than others.

    Args:
        problem: index of each answer's problem, from 0.
        confidence: any score, higher for surer.
        correct: 0 or 1.

    Returns:
        None if no problem has a right and a wrong answer.

    Raises:
        CalibrationError: as `auroc`, or not one problem per answer.
    """
    score_N, correct_N = check_verdicts(confidence, correct, "AUROC")
    problem_N = np.asarray(problem).ravel()
    if problem_N.size != score_N.size:
        raise CalibrationError(
            f"{problem_N.size} problems and {score_N.size} confidences: give each answer's problem"
        )
    wins_P, pairs_P = pairs_within(problem_N, score_N, correct_N)
    pairs = pairs_P.sum()
    return float(wins_P.sum() / pairs) if pairs else None


def pairs_within(
    problem_N: NDArray[np.integer[Any]],
    score_N: NDArray[np.float64],
    correct_N: NDArray[np.bool_],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Of each problem: pairs of a right and a wrong answer in order, ties half; and all its pairs.

    Args:
        problem_N: index of each answer's problem, from 0.
    """
    order_N = np.lexsort((score_N, problem_N))
    problem_N, score_N, wrong_N = problem_N[order_N], score_N[order_N], ~correct_N[order_N]
    wrong_before_N = np.cumsum(wrong_N) - wrong_N
    new_problem_N = np.append(True, problem_N[1:] != problem_N[:-1])
    new_score_N = new_problem_N | np.append(True, score_N[1:] != score_N[:-1])
    # Wrong answers before this one's problem, before its tie, and up to the end of its tie.
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
