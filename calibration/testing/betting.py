"""Tests by betting against a mean (Waudby-Smith and Ramdas, arXiv 2010.09686).

A gambler with wealth 1 bets, unit after unit, that losses are smaller than alpha says. With the bet
b >= 0, wealth grows by the factor 1 + b (alpha * weight - loss). Under H: risk > alpha, no bet that
is fixed before its unit is seen makes wealth grow on average. By Ville's inequality, wealth then
ever reaches 1 / u with probability at most u. So the inverse of the maximal wealth is a p-value,
whatever the bets are. The bets decide only the power.

Before every unit these bets ask how much is still needed. With wealth W, the remaining units must
win the factor 1 / (target_level · W), where target_level is the level at which the test should have
power. A test at the level target_level · W pays exactly that, so the bets replicate one (Koning and
van Meer, arXiv 2501.03982). Recalculating the target is from STaR-Bets (arXiv 2505.22422). The
replicated test is the exact test of a Poisson number of jumps, whose size matches the second moment
of the losses seen so far. Averaged losses vary less than losses of 0 or 1: they are small jumps,
which increases the power.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibration.simulation.losses import Losses
from calibration.simulation.shuffle import shuffled

Array = NDArray[np.float64]

_GAMES = 4096
_ROWS = 256
# Constants of the method, chosen on synthetic losses; its power hardly depends on them.
_OVERSHOOT = 1.1
"""The target is a little beyond 1 / target_level: bets shrink near it and must not stall."""
_NEXT = 3.0
"""Factor to win next once the target is reached."""
_PRIOR_UNITS = 10.0
"""Prior for the moments: this many units, with losses that are jumps of size `_PRIOR_JUMP`."""
_PRIOR_JUMP = 0.55
_SMALLEST_JUMP = 0.01
_ALL_IN = 1 - 1e-9
"""Largest share of the wealth that a bet may lose, so that its logarithm stays finite."""


def betting_p_values(losses: Losses, alpha_L: Array, seed: int, target_LT: Array) -> Array:
    """P-values of H: risk > alpha, levels (L) x policies (T); see `p_value_table`.

    Args:
        losses: losses of independent units.
        alpha_L: the risks to reject.
        seed: seed of the order in which the units are visited.
        target_LT: for each level and policy, the level at which its test should have the most
            power.
    """
    order_U = shuffled(losses.n_units, seed)
    p_LT = np.empty(target_LT.shape)
    width = max(1, _GAMES // len(alpha_L))
    for start in range(0, losses.n_policies, width):
        columns = slice(start, start + width)
        target_LC = target_LT[:, columns]
        p_LT[:, columns] = _play(losses, columns, order_U, alpha_L[:, None], target_LC)
    return p_LT


def betting_p_values_over(losses: Losses, alpha_A: Array, seed: int, target_level: float) -> Array:
    """The p-values of a single policy for many alphas (A)."""
    order_U = shuffled(losses.n_units, seed)
    return _play(losses, slice(0, 1), order_U, alpha_A, np.array([target_level]))


def smallest_betting_p_value(
    total_loss: float, total_weight: float, n_units: int, alpha: float
) -> float:
    """A number that no betting p-value falls below, whatever the bets and the order of the units.

    A bet must not lose more than all of the wealth on a loss of 1, so it is at most 1 / (1 -
    alpha). The gain of a unit, alpha * weight - loss, is at most alpha * (weight - loss), so all
    gains together are at most alpha * (total_weight - total_loss). Wealth grows the most if every
    unit has the same gain.
    """
    gain = alpha * max(0.0, total_weight - total_loss) / (n_units * (1 - alpha))
    return float(np.exp(-n_units * np.log1p(gain)))


def _play(
    losses: Losses, columns: slice, order_U: NDArray[np.intp], alpha_G: Array, target_G: Array
) -> Array:
    """Inverse of the maximal wealth in each game (G): for each policy, alpha, or pair of them."""
    n_games = np.broadcast_shapes(alpha_G.shape, losses.loss_UT[0, columns].shape)
    moments = _Moments(n_games, alpha_G, losses.is_ratio)
    log_wealth_G, log_best_G = np.zeros(n_games), np.zeros(n_games)
    log_target_G = np.full(n_games, np.log(_OVERSHOOT / target_G))
    left = losses.n_units
    for start in range(0, losses.n_units, _ROWS):
        rows = order_U[start : start + _ROWS]
        loss_RG = losses.loss_UT[rows, columns]
        weight_RG = losses.weight_UT[rows, columns]
        for loss_G, weight_G in zip(loss_RG, weight_RG, strict=True):
            bet_G = moments.bets(log_wealth_G - log_target_G, left)
            growth_G = bet_G * (alpha_G * weight_G - loss_G)
            log_wealth_G += np.log1p(growth_G)
            np.maximum(log_best_G, log_wealth_G, out=log_best_G)
            reached_G = log_wealth_G >= log_target_G - np.log(_OVERSHOOT)
            if reached_G.any():
                log_target_G[reached_G] = log_wealth_G[reached_G] + np.log(_OVERSHOOT * _NEXT)
            moments.add(loss_G, weight_G)
            left -= 1
    return np.exp(-log_best_G)


class _Moments:
    """Moments of the losses seen so far in each game (G), and the bet that follows from them."""

    def __init__(self, n_games: tuple[int, ...], alpha_G: Array, is_ratio: bool) -> None:
        self._alpha_G, self._is_ratio = alpha_G, is_ratio
        self._largest_bet_G = _ALL_IN / (1 - alpha_G)
        self._units = _PRIOR_UNITS
        self._loss_G = np.full(n_games, _PRIOR_UNITS * alpha_G)
        self._square_G = self._loss_G * (alpha_G + (1 - alpha_G) * _PRIOR_JUMP)
        self._weight_G = np.full(n_games, _PRIOR_UNITS)
        self._weight_square_G = self._weight_G.copy()
        self._product_G = self._loss_G.copy()

    def add(self, loss_G: Array, weight_G: Array) -> None:
        """Add one unit."""
        self._units += 1
        self._loss_G += loss_G
        self._square_G += loss_G * loss_G
        if self._is_ratio:
            self._weight_G += weight_G
            self._weight_square_G += weight_G * weight_G
            self._product_G += loss_G * weight_G

    def bets(self, log_level_G: Array, left: int) -> Array:
        """The bets that replicate a test of this level on the remaining units."""
        # The variance of loss - alpha * weight at a risk of alpha, per unit of weight, divided by
        # the same variance for losses of 0 or 1.
        jump_G = self._square_G / self._loss_G
        share_G: Array | float = 1.0
        if self._is_ratio:
            jump_G -= 2 * self._alpha_G * self._product_G / self._loss_G
            jump_G += self._alpha_G * self._weight_square_G / self._weight_G
            share_G = self._weight_G / self._units
        else:
            jump_G -= self._alpha_G
        jump_G /= 1 - self._alpha_G
        np.maximum(jump_G, _SMALLEST_JUMP, out=jump_G)
        log_jumps_G = np.log(left * self._alpha_G * (1 - self._alpha_G) * share_G / jump_G)
        bet_G = _poisson_bets(log_jumps_G, log_level_G)
        bet_G /= jump_G
        return np.minimum(bet_G, self._largest_bet_G, out=bet_G)


_LOG_JUMPS = np.linspace(-4.0, 16.0, 240)
_LOG_LEVELS = np.linspace(-14.0, 0.0, 240)


def _poisson_bets(log_jumps_G: Array, log_level_G: Array) -> Array:
    """The bet against a jump of size 1 that replicates P(Poisson(jumps) <= k), for k of this level.

    It is looked up at the nearest entry of a table: it need not be exact.
    """
    return _poisson_table().take(
        _nearest(_LOG_JUMPS, log_jumps_G) * _LOG_LEVELS.size + _nearest(_LOG_LEVELS, log_level_G)
    )


def _nearest(axis: Array, value_G: Array) -> NDArray[np.intp]:
    place_G = (value_G - axis[0]) * (1 / (axis[1] - axis[0])) + 0.5
    np.minimum(place_G, axis.size - 1, out=place_G)
    nearest_G: NDArray[np.intp] = np.maximum(place_G, 0, out=place_G).astype(np.intp)
    return nearest_G


@cache
def _poisson_table() -> Array:
    """P(k) / P(<= k) of a Poisson number, flattened jumps x levels, for continuous k.

    One jump turns the event <= k into <= k - 1. It costs P(k) of the wealth P(<= k).
    """
    table = np.empty((_LOG_JUMPS.size, _LOG_LEVELS.size))
    for row, log_mean in zip(table, _LOG_JUMPS, strict=True):
        mean = np.exp(log_mean)
        reach = 3 + 7 * np.sqrt(mean)
        # Below k = 0 the distribution function continues smoothly, to 0 at k = -1.
        k = np.linspace(max(mean - reach, -1 + 1e-9), mean + reach, 1000)
        log_level = np.log(np.maximum(special.gammaincc(k + 1, mean), 1e-300))
        log_mass = k * log_mean - mean - special.gammaln(k + 1)
        row[:] = np.interp(_LOG_LEVELS, log_level, np.exp(log_mass - log_level))
    return table.ravel()
