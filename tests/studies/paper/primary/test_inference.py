"""Intervals over seeds and problems, and power, on simulated runs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from studies.paper.primary.inference import (
    Crossed,
    crossed,
    holm,
    power,
    power_within,
    resamples,
    smallest_effect,
)

SEEDS, PROBLEMS, TIMES = 10, 300, 1000
WEIGHTS = resamples(PROBLEMS, 1000, seed=0)
"""As in the study."""


def simulated(
    draw: np.random.Generator, mean: float, seed_sd: float, problem_sd: float, both_sd: float
) -> Crossed:
    """The interval of one study in which differences are mean + seed + problem + both."""
    difference_SP: NDArray[np.float64] = (
        mean
        + seed_sd * draw.standard_normal((SEEDS, 1))
        + problem_sd * draw.standard_normal((1, PROBLEMS))
        + both_sd * draw.standard_normal((SEEDS, PROBLEMS))
    )
    return crossed(difference_SP.mean(1), difference_SP @ WEIGHTS.T / PROBLEMS, PROBLEMS)


@pytest.mark.parametrize(
    ("seed_sd", "problem_sd", "both_sd"),
    [(1.0, 0.0, 0.1), (0.0, 5.0, 1.0), (0.5, 3.0, 2.0), (0.0, 0.0, 3.0), (1.0, 8.0, 0.0)],
)
def test_the_crossed_interval_covers_whatever_varies(
    seed_sd: float, problem_sd: float, both_sd: float
) -> None:
    draw = np.random.default_rng(1)
    found = [simulated(draw, 2.0, seed_sd, problem_sd, both_sd) for _ in range(TIMES)]
    covered = np.mean([low <= 2.0 <= high for low, high in (one.interval() for one in found)])
    assert 0.94 <= covered <= 0.96


def test_seeds_alone_do_not_cover_other_problems() -> None:
    draw = np.random.default_rng(2)
    found = [simulated(draw, 0.0, 0.2, 5.0, 0.5) for _ in range(TIMES)]
    reach = stats.t.ppf(0.975, SEEDS - 1)
    naive = np.mean([abs(one.mean) <= reach * one.seed_error for one in found])
    assert naive < 0.75


def test_power_is_the_share_of_studies_that_find_the_difference() -> None:
    draw = np.random.default_rng(3)
    found = [simulated(draw, 0.9, 0.8, 2.0, 0.5) for _ in range(TIMES)]
    seen = np.mean([one.p_differs() < 0.05 for one in found])
    seed_sd = np.sqrt(0.8**2 + 0.5**2 / PROBLEMS)
    expected = power(0.9, float(seed_sd), 2.0 / np.sqrt(PROBLEMS), SEEDS, 0.05)
    assert seen == pytest.approx(expected, abs=0.09)


def test_power_at_no_difference_is_alpha_and_the_smallest_effect_has_its_power() -> None:
    assert power(0.0, 1.0, 0.2, SEEDS, 0.05) == pytest.approx(0.05, abs=1e-6)
    assert smallest_effect(0.0, 0.0, SEEDS, 0.05) == 0
    effect = smallest_effect(1.0, 0.2, SEEDS, 0.05)
    assert power(effect, 1.0, 0.2, SEEDS, 0.05) == pytest.approx(0.8, abs=1e-6)
    assert smallest_effect(1.0, 0.2, 40, 0.05) < effect


def test_with_one_problem_for_all_it_is_students_t() -> None:
    difference_S = np.array([0.1, 0.4, 0.3, 0.2])
    found = crossed(difference_S, np.repeat(difference_S[:, None], 50, axis=1), 100)
    interval = stats.t.interval(0.95, 3, difference_S.mean(), stats.sem(difference_S))
    assert found.interval() == pytest.approx(interval)
    expected = stats.ttest_1samp(difference_S, 0)
    assert found.p_differs() == pytest.approx(expected.pvalue)
    above = stats.ttest_1samp(difference_S, -0.02, alternative="greater")
    assert found.p_above(-0.02) == pytest.approx(above.pvalue)


def test_holm_by_hand() -> None:
    adjusted = holm({"a": 0.01, "b": 0.04, "c": 0.03})
    assert adjusted == pytest.approx({"a": 0.03, "c": 0.06, "b": 0.06})


def test_resamples_hold_as_many_problems_as_there_are() -> None:
    assert (WEIGHTS.sum(1) == PROBLEMS).all()
    assert WEIGHTS.mean() == pytest.approx(1)


def test_power_within_a_margin_is_the_share_of_studies_that_show_it() -> None:
    draw = np.random.default_rng(5)
    found = [simulated(draw, 0.0, 0.8, 2.0, 0.5) for _ in range(TIMES)]
    seen = np.mean([one.p_above(-1.0) < 0.01 for one in found])
    expected = power_within(
        1.0, np.hypot(0.8, 0.5 / np.sqrt(PROBLEMS)), 2 / np.sqrt(PROBLEMS), 10, 0.01
    )
    assert seen == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize(("by", "p"), [(0.0, 1.0), (0.25, 0.0)])
def test_differences_that_are_all_alike_have_no_error(by: float, p: float) -> None:
    one = crossed(np.full(SEEDS, by), np.full((SEEDS, 20), by), PROBLEMS)
    assert (one.mean, one.error, one.interval()) == (by, 0.0, (by, by))
    assert one.p_differs() == p
