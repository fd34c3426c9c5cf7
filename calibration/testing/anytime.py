"""Tests that stay valid however often one looks: betting without a horizon (arXiv 2009.03167).

As in `calibration.testing.betting`, a gambler bets that losses are smaller than alpha says, and
1 / the largest wealth so far is a p-value by Ville's inequality. There the bets aim at the number
of units that is left. Here nobody knows it: more units may come as long as anybody wants. So the
wealth is shared out in equal parts among gamblers, each of whom always bets the same, and is added
up. Its logarithm is smaller than that of the best of them by at most log(number of gamblers), at
every moment. The added wealth does not depend on the order of the units; only its maximum on the
way does.

Whatever the losses are, all p-values of all policies hold at all times together: where the risk is
above alpha, p <= u ever happens with probability at most u.

**Labels of a share of the units.** Let w be the weight of a unit, l its loss, f a prediction of l
from the unit's recordings, and A = 1 if the unit has a label, which was drawn with the probability
pi, a function of the recordings too. Given the recordings, A is independent of the label. With a
guess g = (1 - b) alpha w + b f for some trust b,

    X = g + A / pi (l - g),        E[X | recordings] = E[l | recordings],

so alpha w - X has the same mean as the gain alpha w - l of a unit with a label. Units are
independent draws from one population, and X depends on one unit alone. So under the null the wealth
does not grow on average with any unit, whatever the predictions and the probabilities are worth:
inverted, constant or adversarial ones cost power alone. Nothing is estimated from other units, as
the mean of the predictions would be (prediction-powered inference, arXiv 2301.09633, and its active
form, arXiv 2403.03208): a unit without a label bets with its own prediction. The monitors of a
service test the opposite hypothesis with the same X (`calibration.monitoring.risk_test`).

With b = 0, the wealth is that of the plain test on the units with a label, weighted by their
inverse probabilities; with pi = 1 everywhere, it is the plain test, whatever is predicted. Nobody
knows which trust is best, so the gamblers of each bet have several. What a bet can lose at most
depends on the smallest probability, which is fixed before.

It does not cover labels that somebody chose, labels of which those of some answers are missing, or
predictions that were learned from the labels of the test.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibration.simulation.losses import Losses

Array = NDArray[np.float64]

BETS = (np.arange(10) + 1) / 10
"""The bets, as shares of the largest that a loss of 1 cannot turn into debt. Under losses of 0 or
1, the share s is the best bet at a risk of (1 - s) alpha."""
TRUSTS = (0.0, 0.5, 1.0)
"""How far gamblers trust predictions, where only a share of the units has a label."""
_COLUMNS = 1024


def anytime_p_values(losses: Losses, alpha: float) -> Array:
    """One p-value per policy (T) of H: risk > alpha; see `calibration.testing.p_values.p_values`.

    Args:
        losses: losses of independent units, in the order in which the gambler sees them. The order
            must not depend on the losses.
        alpha: the risk to reject.
    """
    p_T = np.empty(losses.n_policies)
    for start in range(0, losses.n_policies, _COLUMNS):
        columns = slice(start, start + _COLUMNS)
        p_T[columns] = _play(losses.select(columns), alpha)
    return p_T


def anytime_p_values_over(losses: Losses, alpha_A: Array) -> Array:
    """The p-values of a single policy for many alphas (A)."""
    return _play(losses, alpha_A)


def units_until(losses: Losses, alpha: float, level_T: Array) -> Array:
    """Per policy (T), the units after which the p-value is at most a level; infinity if it never
    is. Arguments: see `anytime_p_values`."""
    until_T = np.full(losses.n_policies, np.inf)
    for seen, log_wealth_T in enumerate(_log_wealth(losses, alpha), 1):
        until_T[(log_wealth_T >= -np.log(level_T)) & np.isinf(until_T)] = seen
        if np.isfinite(until_T).all():
            break
    return until_T


def fewest_right(alpha: float, level: float) -> int:
    """The units, all of weight 1 and without a loss, after which the p-value is at most a level."""
    growth_B = np.log1p(BETS * alpha / (1 - alpha))

    def log_wealth(units: int) -> float:
        return float(special.logsumexp(units * growth_B) - np.log(len(BETS)))

    too_few, enough = 0, 1
    while log_wealth(enough) < -np.log(level):
        too_few, enough = enough, 2 * enough
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if log_wealth(middle) < -np.log(level):
            too_few = middle
        else:
            enough = middle
    return enough


def _play(losses: Losses, alpha_G: Array | float) -> Array:
    """Inverse of the maximal wealth in each game (G): one game per policy, or one per alpha."""
    log_best_G = np.zeros(np.broadcast_shapes(np.shape(alpha_G), losses.loss_UT.shape[1:]))
    for log_wealth_G in _log_wealth(losses, alpha_G):
        np.maximum(log_best_G, log_wealth_G, out=log_best_G)
    return np.exp(-log_best_G)


def _log_wealth(losses: Losses, alpha_G: Array | float) -> Iterator[Array]:
    """The logarithm of the wealth in each game after each unit."""
    n_games = np.broadcast_shapes(np.shape(alpha_G), losses.loss_UT.shape[1:])
    whole_G = np.broadcast_to(np.asarray(alpha_G), n_games)
    bet_BG, gains = _bets(whole_G, losses), _gains(losses, alpha_G)
    # What each gambler has, as a share of the wealth of all.
    share_BG = np.full(bet_BG.shape, 1 / len(bet_BG))
    log_wealth_G = np.zeros(n_games)
    for gain in gains:
        # A loss of 1 may take everything from a gambler; rounding must not take more.
        share_BG *= np.maximum(1 + bet_BG * gain, 0)
        growth_G = share_BG.sum(axis=0)
        share_BG /= growth_G
        log_wealth_G += np.log(growth_G)
        yield log_wealth_G


def _bets(alpha_G: Array, losses: Losses) -> Array:
    """The bets of all gamblers (B) in each game, as multiples of a unit's gain."""
    if losses.drawn is None:
        return np.multiply.outer(BETS, 1 / (1 - alpha_G))
    # The largest loss of a gambler: that of a wrong answer with the smallest probability.
    most_G = [
        (1 - (1 - trust) * alpha_G) / losses.drawn.least - trust * alpha_G for trust in TRUSTS
    ]
    return np.concatenate([np.multiply.outer(BETS, 1 / most) for most in most_G])


def _gains(losses: Losses, alpha_G: Array | float) -> Iterator[Array]:
    """What a bet of 1 wins with each unit, in the shape of the bets or of the games."""
    drawn = losses.drawn
    if drawn is None:
        for loss_T, weight_T in zip(losses.loss_UT, losses.weight_UT, strict=True):
            yield alpha_G * weight_T - loss_T
        return
    trust_B1 = np.repeat(TRUSTS, len(BETS))[:, None]
    rows = losses.loss_UT, losses.weight_UT, drawn.predicted_UT, drawn.inverse_U1
    for loss_T, weight_T, predicted_T, inverse in zip(*rows, strict=True):
        # alpha w - g, so that alpha w - X = surplus - A / pi (l - alpha w + surplus).
        surplus_BG = trust_B1 * (alpha_G * weight_T - predicted_T)
        yield surplus_BG + inverse * (alpha_G * weight_T - loss_T - surplus_BG)
