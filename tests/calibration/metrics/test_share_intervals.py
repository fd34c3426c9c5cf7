"""Shares with intervals: exact for independent trials, honest for few or equal problems."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from calibration.errors import CalibrationError
from calibration.metrics.estimates import Estimate
from calibration.metrics.share_intervals import shares_over_problems


def share(right_P, rollouts: int, unit_P=None) -> Estimate:
    right_P = np.asarray(right_P, float)
    (found,) = shares_over_problems(
        right_P[:, None], np.full(right_P.size, rollouts), unit_P=unit_P
    )
    return found


@pytest.mark.parametrize("n", [1, 5, 30])
@pytest.mark.parametrize("right", [0, 1])
def test_problems_that_all_agree_have_the_interval_of_as_many_trials(n: int, right: int) -> None:
    found = share([8 * right] * n, 8)
    low, high = proportion_confint(n * right, n, 0.05, "beta")
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.value == right


def test_one_trial_of_each_problem_is_clopper_pearson() -> None:
    found = share([1] * 23 + [0] * 7, 1)
    assert (found.low, found.high) == pytest.approx(proportion_confint(23, 30, 0.05, "beta"))


def test_rollouts_of_one_problem_count_little_where_they_agree() -> None:
    agree = share([8, 0] * 30, 8)
    differ = share([4] * 60, 8)
    assert agree.value == differ.value == 0.5
    assert agree.low == pytest.approx(proportion_confint(30, 60, 0.05, "beta")[0])
    low, high = proportion_confint(240, 480, 0.05, "beta")
    assert agree.low < differ.low < low + 0.02
    assert agree.high > differ.high > high - 0.02


def test_a_group_is_one_trial_where_its_problems_agree() -> None:
    grouped = share([1] * 12, 1, unit_P=np.repeat(np.arange(3), 4))
    assert grouped.low == pytest.approx(proportion_confint(3, 3, 0.05, "beta")[0])


def test_unequal_units_count_as_fewer() -> None:
    sizes = np.array([97, 1, 1, 1])
    (found,) = shares_over_problems(sizes[:, None], sizes)
    equal = share([25] * 4, 25)
    assert found.low < equal.low


def test_a_share_of_nothing_is_undefined() -> None:
    assert shares_over_problems([[0.0]], [0.0]) == (Estimate(None),)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40))
def test_the_interval_holds_the_share_and_mirrors_with_it(right_P: list[int]) -> None:
    found = share(right_P, 4)
    mirrored = share([4 - right for right in right_P], 4)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.low < found.high
    assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((found.low, found.high))


@pytest.mark.parametrize("arguments", [([[1.0]], [1.0, 2.0]), ([[3.0]], [2.0]), ([[-1.0]], [2.0])])
def test_refuses(arguments) -> None:
    with pytest.raises(CalibrationError, match="give"):
        shares_over_problems(*arguments)


DRAWS: dict[str, Callable[[np.random.Generator, float, tuple[int, int]], np.ndarray]] = {
    "all or nothing": lambda rng, share, shape: (rng.random(shape) < share).astype(float),
    "alike": lambda rng, share, shape: np.full(shape, share),
    "mixed": lambda rng, share, shape: rng.beta(2 * share, 2 * (1 - share), shape),
}


@pytest.mark.parametrize("kind", DRAWS)
@pytest.mark.parametrize("truth", [0.5, 0.9, 0.99])
@pytest.mark.parametrize(("problems", "rollouts"), [(8, 8), (60, 4), (240, 8)])
def test_coverage(kind: str, truth: float, problems: int, rollouts: int) -> None:
    rng = np.random.default_rng(3)
    worlds = 400
    right_WP = rng.binomial(rollouts, DRAWS[kind](rng, truth, (worlds, problems)))
    found = [share(right_P, rollouts) for right_P in right_WP]
    covered = np.mean([e.low <= truth <= e.high for e in found])
    assert covered > 0.92  # three standard errors of 400 worlds below 0.95
