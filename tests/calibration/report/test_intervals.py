"""Intervals of a report's tokens cover; those of its shares are the intervals of all shares."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

from calibration.policy.exit_rule import FULL_BUDGET
from calibration.report.intervals import intervals, ratio_interval
from calibration.simulation.procedure import ONE_SAMPLE
from rlcm_serve.store.rehearsals.figures import AnswerUnderLevel, level_rehearsed
from tests.calibration.recordings import sure

RUNS = 2000


def test_tokens_are_covered() -> None:
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(RUNS):
        full_U = rng.lognormal(5, 0.6, 100)
        tokens_U = full_U * rng.beta(2, 3, 100)
        low, high = ratio_interval(tokens_U, full_U) or (0, 0)
        covered += low <= 0.4 <= high
    assert covered / RUNS > 0.93


def test_one_unit_says_nothing_of_tokens() -> None:
    assert ratio_interval(np.ones(1), np.ones(1)) is None


@pytest.mark.parametrize("share", [0.0, 1 / 3, 1.0])
def test_units_that_agree_say_nothing_of_others(share: float) -> None:
    """Two questions without a saved token are no evidence that nothing is ever saved."""
    whole_U = np.array([3.0, 7.0, 11.0])
    assert ratio_interval(share * whole_U, whole_U) is None
    rows = [AnswerUnderLevel(9, 9, False, True, True, True, None)] * 2
    saved = level_rehearsed(0.1, rows).saved
    assert (saved.of, saved.value, saved.interval) == (2, 0.0, None)


def test_one_rollout_of_each_problem_is_clopper_pearson() -> None:
    """A report, a rehearsal and an evaluation have the same interval for the same answers."""
    (found,) = intervals([FULL_BUDGET], sure(None, 60, wrong=6), ONE_SAMPLE, None)
    assert found.full_right.interval == pytest.approx(proportion_confint(54, 60, 0.05, "beta"))
    answers = [
        AnswerUnderLevel(9, 8, False, True, True, has_place=True, right=number >= 6)
        for number in range(60)
    ]
    wrong = level_rehearsed(0.1, answers).wrong.interval
    assert wrong == pytest.approx(proportion_confint(6, 60, 0.05, "beta"))
