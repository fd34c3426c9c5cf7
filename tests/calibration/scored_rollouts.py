"""Graded rollouts for the tests, drawn by rule."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calibration.metrics.scores import ScoredRollouts


def drawn(
    seed: int = 0,
    problems: int = 40,
    rollouts: int | Sequence[int] = 5,
    levels: int | None = None,
    groups: int | None = None,
    slope: float = 1.5,
) -> ScoredRollouts:
    """Rollouts of problems of several difficulties, answers 0 (right) to 3 and none.

    Args:
        rollouts: of each problem, or of the first, the second and so on.
        levels: distinct confidences, so that some are tied; None for as many as rollouts.
        groups: that the problems are divided among; None for none.
        slope: 1 for calibrated confidences, more for too extreme ones.
    """
    rng = np.random.default_rng(seed)
    problem_R = np.repeat(np.arange(problems), rollouts)
    ease_P = rng.normal(0, 1, problems)
    logit_R = ease_P[problem_R] + rng.normal(0, 1, problem_R.size)
    confidence_R = 1 / (1 + np.exp(-slope * logit_R))
    correct_R = rng.random(problem_R.size) < 1 / (1 + np.exp(-logit_R))
    if levels is not None:
        confidence_R = np.rint(confidence_R * (levels - 1)) / (levels - 1)
    return ScoredRollouts(
        problem_R=problem_R,
        correct_R=correct_R,
        confidence_R=confidence_R,
        answer_class_R=np.where(correct_R, 0, rng.integers(-1, 4, problem_R.size) * 2 - 1).clip(-1),
        unit_P=None if groups is None else np.arange(problems) % groups,
    )


def shuffled(scored: ScoredRollouts, seed: int = 0) -> ScoredRollouts:
    """The same rollouts in another order."""
    return rows(scored, np.random.default_rng(seed).permutation(scored.n_rollouts))


def rows(scored: ScoredRollouts, row_R: np.ndarray) -> ScoredRollouts:
    """Some of the rollouts, in this order; every problem must keep one."""
    return replace(
        scored,
        problem_R=scored.problem_R[row_R],
        correct_R=scored.correct_R[row_R],
        confidence_R=scored.confidence_R[row_R],
        answer_class_R=scored.answer_class_R[row_R],
    )
