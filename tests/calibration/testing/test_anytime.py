"""The anytime test: valid at every time, and what it bets."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.errors import CalibrationError
from calibration.simulation.losses import DrawnLabels, Losses
from calibration.testing.anytime import BETS, _bets, _gains, units_until
from calibration.testing.betting import smallest_betting_p_value
from calibration.testing.p_values import PValue, p_values, upper_bounds
from tests.calibration.testing.test_betting import every_outcome

LEVELS = (0.02, 0.05, 0.1, 0.2, 0.4)


def anytime(losses: Losses, alpha: float) -> np.ndarray:
    return p_values(losses, alpha, PValue.ANYTIME)


def wealth_of_each_gambler(loss_U: np.ndarray, weight_U: np.ndarray, alpha: float) -> np.ndarray:
    """Bets x times, without any of the tested code."""
    gain_U = alpha * weight_U - loss_U
    return np.cumprod(1 + BETS[:, None] / (1 - alpha) * gain_U, axis=1)


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=40),
    st.floats(0.01, 0.9),
)
@settings(max_examples=100)
def test_it_is_the_inverse_of_the_largest_mean_wealth(
    drawn: list[tuple[float, float]], alpha: float
) -> None:
    weight_U = np.array([weight for _, weight in drawn])
    loss_U = np.array([share for share, _ in drawn]) * weight_U
    mean_U = wealth_of_each_gambler(loss_U, weight_U, alpha).mean(axis=0)
    losses = Losses(loss_U[:, None], weight_U[:, None])
    assert anytime(losses, alpha)[0] == pytest.approx(1 / max(1.0, mean_U.max()), rel=1e-9)


@pytest.mark.parametrize(
    ("points", "chances"),
    [
        ([(0, 1), (1, 1)], [0.75, 0.25]),
        ([(0, 1), (0.5, 1), (1, 1)], [0.6, 0.3, 0.1]),
        ([(0, 0), (0, 1), (1, 1)], [0.4, 0.45, 0.15]),
        ([(0, 0.5), (0.5, 0.5), (0, 1), (1, 1)], [0.3, 0.3, 0.4, 0.0]),
    ],
)
def test_it_is_small_at_any_time_no_more_often_than_its_level(
    points: Sequence[tuple[float, float]], chances: Sequence[float]
) -> None:
    losses, chance_T = every_outcome(points, chances, 6)
    values, share = np.array(points), np.array(chances)
    alpha = float((share * values[:, 0]).sum() / (share * values[:, 1]).sum())
    looks = [Losses(losses.loss_UT[:n], losses.weight_UT[:n]) for n in range(1, 7)]
    smallest_T = np.min([anytime(seen, alpha) for seen in looks], axis=0)
    for level in LEVELS:
        assert chance_T[smallest_T <= level].sum() <= level + 1e-12


def test_more_units_never_raise_it() -> None:
    rng = np.random.default_rng(0)
    loss_UT = (rng.random((300, 20)) < 0.1).astype(float)
    looks = [anytime(Losses.unweighted(loss_UT[:n]), 0.15) for n in (50, 100, 200, 300)]
    assert (np.diff(looks, axis=0) <= 0).all()


def test_the_wealth_after_a_batch_does_not_depend_on_the_order_within_it() -> None:
    rng = np.random.default_rng(1)
    loss_U = (rng.random(200) < 0.05).astype(float)
    ends = [
        wealth_of_each_gambler(order_U, np.ones(200), 0.1).mean(axis=0)[-1]
        for order_U in (loss_U, np.sort(loss_U), np.sort(loss_U)[::-1])
    ]
    assert ends == pytest.approx([ends[0]] * 3, rel=1e-9)


def test_a_column_has_the_same_p_value_alone_and_among_many() -> None:
    rng = np.random.default_rng(2)
    loss_UT = rng.random((60, 2500)) * 0.3
    together = anytime(Losses.unweighted(loss_UT), 0.2)
    for column in (0, 1023, 1024, 2499):
        alone = anytime(Losses.unweighted(loss_UT[:, [column]]), 0.2)
        assert alone[0] == pytest.approx(together[column], rel=1e-12)


def test_no_p_value_is_below_what_bets_can_reach() -> None:
    rng = np.random.default_rng(3)
    weight_UT = rng.random((80, 300))
    loss_UT = weight_UT * (rng.random((80, 300)) < 0.03)
    losses = Losses(loss_UT, weight_UT)
    totals = zip(losses.total_loss_T, losses.total_weight_T, strict=True)
    least_T = [smallest_betting_p_value(loss, weight, 80, 0.2) for loss, weight in totals]
    assert (anytime(losses, 0.2) >= least_T).all()


def test_the_upper_bound_is_the_last_alpha_that_is_rejected() -> None:
    rng = np.random.default_rng(4)
    losses = Losses.unweighted((rng.random((200, 3)) < 0.08).astype(float))
    for column, bound in enumerate(upper_bounds(losses, 0.1, PValue.ANYTIME)):
        one = losses.select(np.array([column]))
        assert anytime(one, bound)[0] <= 0.1 < anytime(one, bound / 1.02)[0]


def test_losses_that_take_everything_leave_the_careful_gamblers() -> None:
    loss_U = np.array([1.0] * 5 + [0.0] * 400)
    assert anytime(Losses.unweighted(loss_U[:, None]), 0.2)[0] < 1e-10


def test_the_first_rejection_is_where_the_p_value_reaches_its_level() -> None:
    rng = np.random.default_rng(5)
    losses = Losses.unweighted((rng.random((120, 8)) < 0.12).astype(float))
    until_T = units_until(losses, 0.2, np.full(8, 0.1))
    for column, until in enumerate(until_T):
        one = losses.select(np.array([column]))
        looks = range(1, 121)
        found = [n for n in looks if anytime(one.take(np.arange(n)), 0.2)[0] <= 0.1]
        assert until == (found[0] if found else np.inf)


@given(st.floats(0.01, 0.9), st.floats(0.02, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=200)
def test_with_labels_of_a_share_no_bet_wins_on_average_or_ends_in_debt(
    alpha: float, least: float, more: float, weight: float, predicted: float
) -> None:
    """One unit, whose loss is `weight` with the chance alpha, exactly: all outcomes of a bet."""
    probability, prediction = least + more * (1 - least), predicted * weight
    outcomes = [
        (loss * weight, labelled, chance * (probability if labelled else 1 - probability))
        for loss, chance in ((1, alpha), (0, 1 - alpha))
        for labelled in (True, False)
    ]
    mean, smallest = 0.0, np.inf
    for loss, labelled, chance in outcomes:
        drawn = DrawnLabels(
            np.array([[labelled]]), np.array([[probability]]), least, np.array([[prediction]])
        )
        losses = Losses(np.array([[loss]]), np.array([[weight]])).with_labels(drawn)
        (gain,) = _gains(losses, alpha)
        factor_BG = 1 + _bets(np.array([alpha]), losses) * gain
        mean = mean + chance * factor_BG
        smallest = min(smallest, factor_BG.min())
    assert mean == pytest.approx(1, abs=1e-9)
    assert smallest >= -1e-9


def test_with_a_label_of_every_unit_predictions_change_nothing() -> None:
    rng = np.random.default_rng(6)
    losses = Losses.unweighted((rng.random((150, 4)) < 0.05).astype(float))
    every = np.ones((150, 1))
    drawn = DrawnLabels(every > 0, every, 1.0, rng.random((150, 4)))
    assert anytime(losses.with_labels(drawn), 0.1) == pytest.approx(anytime(losses, 0.1), rel=1e-9)


@pytest.mark.parametrize("kind", [kind for kind in PValue if kind is not PValue.ANYTIME])
def test_other_tests_do_not_take_missing_labels_for_right_answers(kind: PValue) -> None:
    every = np.full((40, 1), 0.5)
    drawn = DrawnLabels(np.arange(40)[:, None] % 2 == 0, every, 0.5, every)
    losses = Losses.unweighted(np.zeros((40, 1))).with_labels(drawn)
    with pytest.raises(CalibrationError, match=f"the test {kind} needs the loss of every unit"):
        p_values(losses, 0.1, kind)
    with pytest.raises(CalibrationError, match="use the anytime test"):
        upper_bounds(losses, 0.1, kind)


def test_good_predictions_reject_where_labels_alone_do_not() -> None:
    rng = np.random.default_rng(7)
    loss_U1 = (rng.random((600, 1)) < 0.12).astype(float)
    share_U1 = np.full((600, 1), 0.2)
    labelled_U1 = rng.random((600, 1)) < 0.2
    good = DrawnLabels(labelled_U1, share_U1, 0.2, loss_U1)
    useless = DrawnLabels(labelled_U1, share_U1, 0.2, np.full((600, 1), 0.5))
    losses = Losses.unweighted(loss_U1)
    assert anytime(losses.with_labels(good), 0.2) < anytime(losses.with_labels(useless), 0.2) / 10
