import numpy as np
import pytest

from calibration import CalibrationError, Promise, fixed_sequence
from calibration.fwer import delta_per_level


def test_stops_at_the_first_failure() -> None:
    assert fixed_sequence([0.01, 0.1, 0.11, 0.01], 0.1).tolist() == [True, True, False, False]
    assert fixed_sequence([0.2, 0.0], 0.1).tolist() == [False, False]
    assert fixed_sequence([], 0.1).tolist() == []


def test_refuses_a_delta_that_is_no_rate() -> None:
    with pytest.raises(CalibrationError, match="delta is 0"):
        fixed_sequence([0.1], 0)


def test_shares_of_delta() -> None:
    alphas = (0.05, 0.1, 0.2)
    assert delta_per_level(0.1, alphas, Promise.POINTWISE) == 0.1
    assert delta_per_level(0.1, alphas, Promise.SIMULTANEOUS) == pytest.approx(0.1 / 3)


@pytest.mark.parametrize("copies", [1, 20])
def test_family_wise_error_at_the_null(copies: int) -> None:
    """Twenty nulls after two alternatives; independent (1 draw each) or all equal."""
    rng = np.random.default_rng(copies)
    runs, delta, first_null = 20_000, 0.1, 2
    null_p = np.repeat(rng.random((runs, 20 // copies)), copies, axis=1)
    p = np.concatenate([rng.beta(0.1, 5, (runs, first_null)), null_p], axis=1)
    errors = np.array([fixed_sequence(row, delta)[first_null:].any() for row in p])
    assert errors.mean() <= delta + 3 * np.sqrt(delta * (1 - delta) / runs)
    assert errors.mean() > 0.05  # not trivially safe: the alternatives are passed
    # Without the sequence, independent nulls would be rejected far more often.
    naive = (null_p <= delta).any(axis=1).mean()
    assert naive == pytest.approx(delta if copies == 20 else 1 - 0.9**20, abs=0.02)
