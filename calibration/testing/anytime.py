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
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from calibration.simulation.losses import Losses

Array = NDArray[np.float64]

BETS = (np.arange(10) + 1) / 10
"""The bets, as shares of the largest that a loss of 1 cannot turn into debt. Under losses of 0 or
1, the share s is the best bet at a risk of (1 - s) alpha."""
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
        p_T[columns] = _play(losses.loss_UT[:, columns], losses.weight_UT[:, columns], alpha)
    return p_T


def anytime_p_values_over(losses: Losses, alpha_A: Array) -> Array:
    """The p-values of a single policy for many alphas (A)."""
    return _play(losses.loss_UT, losses.weight_UT, alpha_A)


def units_until(losses: Losses, alpha: float, level_T: Array) -> Array:
    """Per policy (T), the units after which the p-value is at most a level; infinity if it never
    is. Arguments: see `anytime_p_values`."""
    until_T = np.full(losses.n_policies, np.inf)
    steps = _log_wealth(losses.loss_UT, losses.weight_UT, alpha)
    for seen, log_wealth_T in enumerate(steps, 1):
        until_T[(log_wealth_T >= -np.log(level_T)) & np.isinf(until_T)] = seen
    return until_T


def _play(loss_UT: Array, weight_UT: Array, alpha_G: Array | float) -> Array:
    """Inverse of the maximal wealth in each game (G): one game per policy, or one per alpha."""
    log_best_G = np.zeros(np.broadcast_shapes(np.shape(alpha_G), loss_UT.shape[1:]))
    for log_wealth_G in _log_wealth(loss_UT, weight_UT, alpha_G):
        np.maximum(log_best_G, log_wealth_G, out=log_best_G)
    return np.exp(-log_best_G)


def _log_wealth(loss_UT: Array, weight_UT: Array, alpha_G: Array | float) -> Iterator[Array]:
    """The logarithm of the wealth in each game after each unit."""
    n_games = np.broadcast_shapes(np.shape(alpha_G), loss_UT.shape[1:])
    bet_BG = np.multiply.outer(BETS, np.broadcast_to(1 / (1 - np.asarray(alpha_G)), n_games))
    # What each gambler has, as a share of the wealth of all.
    share_BG = np.full(bet_BG.shape, 1 / len(BETS))
    log_wealth_G = np.zeros(n_games)
    for loss_T, weight_T in zip(loss_UT, weight_UT, strict=True):
        # A loss of 1 may take everything from a gambler; rounding must not take more.
        share_BG *= np.maximum(1 + bet_BG * (alpha_G * weight_T - loss_T), 0)
        growth_G = share_BG.sum(axis=0)
        share_BG /= growth_G
        log_wealth_G += np.log(growth_G)
        yield log_wealth_G
