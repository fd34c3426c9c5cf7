import math

import numpy as np
import pytest

from calibration import (
    CalibrationError,
    binomial_p_value,
    clopper_pearson_upper,
    fewest_problems,
)
from calibration.pvalues import binomial_p_values


def test_binomial_by_hand() -> None:
    # P(Binomial(3, 0.5) <= 1) = (1 + 3) / 8.
    assert binomial_p_value([0, 1, 0], 0.5) == pytest.approx(0.5)
    assert binomial_p_value([0] * 22, 0.1) == pytest.approx(0.9**22)


def test_binomial_is_the_sum_it_stands_for() -> None:
    n, alpha = 40, 0.13
    for wrong in (0, 1, 7, 40):
        total = sum(math.comb(n, k) * alpha**k * (1 - alpha) ** (n - k) for k in range(wrong + 1))
        assert binomial_p_value([1] * wrong + [0] * (n - wrong), alpha) == pytest.approx(total)


def test_none_answered_is_no_evidence() -> None:
    assert binomial_p_value([], 0.1) == 1.0
    assert binomial_p_values(np.array([0, 0]), np.array([0, 50]), 0.1).tolist() == [
        1.0,
        pytest.approx(0.9**50),
    ]


@pytest.mark.parametrize("loss", [0.5, -1, 2, math.nan])
def test_binomial_refuses_averaged_losses(loss: float) -> None:
    with pytest.raises(CalibrationError, match=r"0 or 1, one rollout per problem"):
        binomial_p_value([0, loss], 0.1)


@pytest.mark.parametrize("alpha", [0, 1, -0.1, math.nan])
def test_rates_outside_0_1_are_refused(alpha: float) -> None:
    with pytest.raises(CalibrationError, match=f"alpha is {alpha}"):
        binomial_p_value([0], alpha)
    with pytest.raises(CalibrationError, match="delta is"):
        clopper_pearson_upper(0, 10, alpha)


def test_p_values_are_valid_at_the_null() -> None:
    """Exactly, over all outcomes: P(p <= u) <= u when the risk is alpha."""
    n, alpha = 60, 0.1
    wrong = np.arange(n + 1)
    p = binomial_p_values(wrong, np.full(n + 1, n), alpha)
    mass = np.diff(p, prepend=0.0)
    for u in (0.01, 0.033, 0.05, 0.1, 0.5):
        assert mass[p <= u].sum() <= u + 1e-12


def test_clopper_pearson_inverts_the_test() -> None:
    for wrong, answered in ((0, 22), (3, 60), (59, 60)):
        bound = float(clopper_pearson_upper(wrong, answered, 0.1))
        assert float(binomial_p_values(np.array(wrong), np.array(answered), bound)) == (
            pytest.approx(0.1)
        )
    assert float(clopper_pearson_upper(0, 22, 0.1)) == pytest.approx(1 - 0.1 ** (1 / 22))


def test_clopper_pearson_at_its_edges() -> None:
    assert clopper_pearson_upper([5, 0], [5, 0], 0.1).tolist() == [1.0, 1.0]


def test_clopper_pearson_covers() -> None:
    """Exactly, over all outcomes: the bound lies below the risk with probability <= delta."""
    n, delta = 80, 0.1
    bound = clopper_pearson_upper(np.arange(n + 1), np.full(n + 1, n), delta)
    for risk in (0.01, 0.05, 0.2, 0.5):
        below = np.flatnonzero(bound < risk)
        mass = sum(math.comb(n, int(k)) * risk**k * (1 - risk) ** (n - k) for k in below)
        assert mass <= delta + 1e-12


def test_fewest_problems() -> None:
    assert fewest_problems(0.1, 0.1) == 22
    assert fewest_problems(0.05, 0.1) == 45
    assert binomial_p_value([0] * 22, 0.1) <= 0.1 < binomial_p_value([0] * 21, 0.1)
