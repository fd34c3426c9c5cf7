import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from calibration.simulation.losses import Losses
from calibration.simulation.shuffle import shuffled
from calibration.testing.p_values import PValue, fewest_problems, p_values

LEVELS = (0.005, 0.02, 0.05, 0.1, 0.2, 0.4)


def every_outcome(
    points: Sequence[tuple[float, float]], chances: Sequence[float], n: int
) -> tuple[Losses, NDArray[np.float64]]:
    """All ways in which n units can draw a (loss, weight), one per column, and their chances."""
    at_TU = np.array(list(itertools.product(range(len(points)), repeat=n)))
    values = np.array(points)
    chance_T = np.array(chances)[at_TU].prod(axis=1)
    losses = Losses(values[at_TU, 0].T.copy(), values[at_TU, 1].T.copy())
    if (values[:, 1] == 1).all():
        losses = Losses.unweighted(losses.loss_UT)
    return losses, chance_T


def averaged(rng: np.random.Generator, n: int, runs: int, risk: float, rho: float) -> Losses:
    """Losses of 8 rollouts each with intra-class correlation rho; one run per column."""
    size = (1 - rho) / rho
    wrong_UT = rng.beta(risk * size, (1 - risk) * size, (n, runs))
    return Losses.unweighted(rng.binomial(8, wrong_UT) / 8)


def test_what_it_bets_by_hand() -> None:
    # No loss and just enough units: all wealth is bet, and each unit multiplies it by 1 / 0.9.
    spotless = Losses.unweighted(np.zeros((22, 1)))
    assert p_values(spotless, 0.1, PValue.BETTING, target_level=0.1)[0] == pytest.approx(
        0.9**22, rel=1e-6
    )


@pytest.mark.parametrize(("alpha", "delta"), [(0.05, 0.1), (0.1, 0.033), (0.2, 0.01)])
def test_spotless_losses_need_no_more_units_than_the_exact_test(alpha: float, delta: float) -> None:
    n = fewest_problems(alpha, delta)
    for units, enough in ((n, True), (n - 1, False)):
        spotless = Losses.unweighted(np.zeros((units, 1)))
        assert (p_values(spotless, alpha, PValue.BETTING, target_level=delta)[0] <= delta) == enough


@pytest.mark.parametrize("target_level", [0.1, 0.01, 0.9])
@pytest.mark.parametrize(
    ("points", "chances"),
    [
        ([(0, 1), (1, 1)], [0.75, 0.25]),
        ([(0, 1), (0.5, 1), (1, 1)], [0.6, 0.3, 0.1]),
        ([(0.1, 1), (0.3, 1), (1, 1)], [0.625, 0.25, 0.125]),
        ([(0.25, 1)], [1.0]),
        ([(0, 0), (0, 1), (1, 1)], [0.4, 0.45, 0.15]),
        ([(0, 0.5), (0.5, 0.5), (0, 1), (1, 1)], [0.3, 0.3, 0.4, 0.0]),
        ([(0, 0.25), (0.25, 0.25), (0, 1), (0.75, 1)], [0.2, 0.4, 0.3, 0.1]),
    ],
)
def test_valid_exactly_at_the_null(
    points: list[tuple[float, float]], chances: list[float], target_level: float
) -> None:
    """Over all outcomes, P(p <= u) <= u if the risk is exactly alpha, or above it."""
    values = np.array(points)
    risk = np.array(chances) @ values[:, 0] / (np.array(chances) @ values[:, 1])
    losses, chance_T = every_outcome(points, chances, n=6)
    for alpha in (risk, 0.9 * risk):
        for seed in (0, 1):
            p_T = p_values(losses, float(alpha), PValue.BETTING, seed, target_level)
            for u in (*LEVELS, target_level):
                assert chance_T[p_T <= u].sum() <= u + 1e-12


def test_the_enumeration_would_notice() -> None:
    """If the risk is slightly below alpha, the same sum exceeds u: the bound is tight."""
    losses, chance_T = every_outcome([(0, 1), (1, 1)], [0.8, 0.2], n=10)
    p_T = p_values(losses, 0.25, PValue.BETTING, target_level=0.06)
    assert chance_T[p_T <= 0.06].sum() > 0.06


@pytest.mark.parametrize("before", [0, 1, 9, 40])
def test_bets_are_placed_before_their_unit_is_seen(before: int) -> None:
    """Then wealth is linear in the loss of the unit, and losses of alpha do not change it."""
    n, alpha, target_level, seed = 100, 0.3, 0.1, 5
    order = shuffled(n, seed)
    loss_UT = np.full((n, 4), alpha)
    loss_UT[order[:before]] = [0.28]
    loss_UT[order[before]] = [0.0, 0.1, 0.2, alpha]
    wealth_T = 1 / p_values(Losses.unweighted(loss_UT), alpha, PValue.BETTING, seed, target_level)
    growth_T = wealth_T / wealth_T[-1] - 1
    np.testing.assert_allclose(growth_T, growth_T[0] * np.array([1, 2 / 3, 1 / 3, 0]), atol=1e-12)
    assert 0 < growth_T[0] < 0.95 * alpha / (1 - alpha)  # else all is bet whatever is known


@pytest.mark.parametrize("ratio", [False, True])
def test_valid_and_not_vacuous_with_many_units(ratio: bool) -> None:
    rng, runs, n, alpha, delta = np.random.default_rng(3), 4000, 400, 0.1, 0.1
    losses = averaged(rng, n, runs, alpha, rho=0.5)
    if ratio:
        losses = Losses(losses.loss_UT / 2, np.full(losses.loss_UT.shape, 0.5))
    rejected = float((p_values(losses, alpha, PValue.BETTING, target_level=delta) <= delta).mean())
    assert 0.06 < rejected < delta + 4 * np.sqrt(delta * (1 - delta) / runs)


@pytest.mark.parametrize(("rho", "least"), [(0.2, 0.85), (0.8, 0.85)])
def test_nearly_as_powerful_as_if_the_variance_were_known(rho: float, least: float) -> None:
    """Compared with the test whose critical value is exact for this alternative."""
    rng, runs, n, alpha, delta = np.random.default_rng(4), 2000, 400, 0.1, 0.1
    null_T = averaged(rng, n, runs, alpha, rho).risk_T
    losses = averaged(rng, n, runs, 0.075, rho)
    best = float((losses.risk_T < np.quantile(null_T, delta)).mean())
    power = float((p_values(losses, alpha, PValue.BETTING, target_level=delta) <= delta).mean())
    bentkus = float((p_values(losses, alpha, PValue.HOEFFDING_BENTKUS) <= delta).mean())
    assert power > least * best
    assert power > bentkus + 0.2


def test_aim_is_where_the_power_is() -> None:
    losses = averaged(np.random.default_rng(5), 300, 2000, 0.07, 0.5)
    power = {
        target_level: [
            (p_values(losses, 0.1, PValue.BETTING, target_level=target_level) <= u).mean()
            for u in (0.1, 0.01)
        ]
        for target_level in (0.1, 0.01)
    }
    assert power[0.1][0] > power[0.01][0] + 0.05
    assert power[0.01][1] > power[0.1][1] + 0.05
    each = p_values(losses, 0.1, PValue.BETTING, target_level=np.tile([0.1, 0.01], 1000))
    assert (each[::2] == p_values(losses, 0.1, PValue.BETTING, target_level=0.1)[::2]).all()
    assert (each[1::2] == p_values(losses, 0.1, PValue.BETTING, target_level=0.01)[1::2]).all()


def test_policies_do_not_mix() -> None:
    losses = averaged(np.random.default_rng(6), 300, 50, 0.08, 0.5)
    together = p_values(losses, 0.1, PValue.BETTING, seed=7)
    for t in (0, 20, 49):
        alone = losses.select(np.array([t]))
        assert p_values(alone, 0.1, PValue.BETTING, seed=7)[0] == pytest.approx(together[t])


def test_weights_of_one_are_no_weights() -> None:
    losses = averaged(np.random.default_rng(7), 200, 30, 0.08, 0.5)
    weighted = Losses(losses.loss_UT, np.ones(losses.loss_UT.shape))
    np.testing.assert_allclose(
        p_values(losses, 0.1, PValue.BETTING), p_values(weighted, 0.1, PValue.BETTING), rtol=1e-9
    )


def test_the_order_is_the_seeds() -> None:
    losses = averaged(np.random.default_rng(8), 200, 30, 0.08, 0.5)
    first = p_values(losses, 0.1, PValue.BETTING, seed=1)
    assert (first == p_values(losses, 0.1, PValue.BETTING, seed=1)).all()
    assert (first != p_values(losses, 0.1, PValue.BETTING, seed=2)).any()


def test_hopeless_and_extreme_losses() -> None:
    n = 3000
    losses = Losses.unweighted(np.stack([np.ones(n), np.zeros(n), np.full(n, 0.3)], axis=1))
    p_T = p_values(losses, 0.3, PValue.BETTING)
    assert p_T.tolist() == [1.0, pytest.approx(0, abs=1e-12), 1.0]
    assert p_values(losses, 0.999, PValue.BETTING).max() <= 1
