"""Tests by betting against a mean (Waudby-Smith and Ramdas, arXiv 2010.09686).

A gambler with wealth 1 bets, unit after unit, that losses are smaller than alpha says. With the bet
b >= 0 wealth grows by the factor 1 + b (alpha * weight - loss). Under H: risk > alpha no bet that
is fixed before its unit is seen makes wealth grow on average, so by Ville's inequality wealth ever
reaches 1 / u with probability at most u: the inverse of its maximum is a p-value, whatever the
bets. The bets only decide the power.

These ask, before every unit, what is still needed: with wealth W they must win the factor
1 / (aim W) from the units left, aim being the level at which the test shall have power. That is
what a test at the level aim W pays, so they bet as would replicate one (Koning and van Meer, arXiv
2501.03982; recalculating the target is from STaR-Bets, arXiv 2505.22422): the exact test of a
Poisson number of jumps, of a size that matches the second moment of the losses seen so far.
Averaged losses vary less than losses of 0 or 1: they are small jumps, and the test gains by it.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibration.simulation.losses import Losses
from calibration.simulation.shuffle import shuffled

Array = NDArray[np.float64]

_COLUMNS = 4096
_ROWS = 256
# Constants of the method, chosen on synthetic losses; its power hardly depends on them.
_OVERSHOOT = 1.1
"""The target is a little beyond 1 / aim: bets shrink as they near it, and must not stall."""
_NEXT = 3.0
"""How much more to win once the target is reached."""
_PRIOR_UNITS = 10.0
"""Before there are losses to go by, they are taken for so many units, and jumps of this size."""
_PRIOR_JUMP = 0.55
_SMALLEST_JUMP = 0.01
_ALL_IN = 1 - 1e-9
"""The share of its wealth a bet may lose: all but enough to keep its logarithm finite."""


def betting_p_values(losses: Losses, alpha: float, seed: int, aim_T: Array) -> Array:
    """One p-value per policy (T) of H: risk > alpha; see `calibration.testing.p_values.p_values`.

    Args:
        losses: of independent units.
        alpha: the risk to refute.
        seed: of the order in which the units are met.
        aim_T: the level at which each policy's test shall be most powerful.
    """
    order_U = shuffled(losses.n_units, seed)
    p_T = np.empty(losses.n_policies)
    for start in range(0, losses.n_policies, _COLUMNS):
        columns = slice(start, start + _COLUMNS)
        p_T[columns] = _play(losses, columns, order_U, np.array([alpha]), aim_T[columns])
    return p_T


def betting_p_values_over(losses: Losses, alpha_A: Array, seed: int, aim: float) -> Array:
    """The p-values of the only policy for many alphas (A)."""
    order_U = shuffled(losses.n_units, seed)
    return _play(losses, slice(0, 1), order_U, alpha_A, np.array([aim]))


def _play(
    losses: Losses, columns: slice, order_U: NDArray[np.intp], alpha_G: Array, aim_G: Array
) -> Array:
    """Inverse of the greatest wealth in each game (G): one per policy, or one per alpha."""
    n_games = np.broadcast_shapes(alpha_G.shape, losses.loss_UT[0, columns].shape)
    moments = _Moments(n_games, alpha_G, losses.is_ratio)
    log_wealth_G, log_best_G = np.zeros(n_games), np.zeros(n_games)
    log_target_G = np.full(n_games, np.log(_OVERSHOOT / aim_G))
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
    """What the losses so far say about those to come, in each game (G), and the bet on it."""

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
        """Take in one more unit."""
        self._units += 1
        self._loss_G += loss_G
        self._square_G += loss_G * loss_G
        if self._is_ratio:
            self._weight_G += weight_G
            self._weight_square_G += weight_G * weight_G
            self._product_G += loss_G * weight_G

    def bets(self, log_level_G: Array, left: int) -> Array:
        """The bets that replicate a test of this level on the units left."""
        # The variance of loss - alpha * weight, were the risk alpha, per unit of weight and divided
        # by what it is for losses of 0 or 1.
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

    Looked up at the nearest entry of a table: it need not be exact.
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
    """P(k) / P(<= k) of a Poisson number, flattened jumps x levels, k running continuously.

    One jump turns the event <= k into <= k - 1: it costs P(k) of the P(<= k) that the wealth is
    worth.
    """
    table = np.empty((_LOG_JUMPS.size, _LOG_LEVELS.size))
    for row, log_mean in zip(table, _LOG_JUMPS, strict=True):
        mean = np.exp(log_mean)
        reach = 3 + 7 * np.sqrt(mean)
        # Below 0 the distribution function goes on smoothly, to 0 at k = -1.
        k = np.linspace(max(mean - reach, -1 + 1e-9), mean + reach, 1000)
        log_level = np.log(np.maximum(special.gammaincc(k + 1, mean), 1e-300))
        log_mass = k * log_mean - mean - special.gammaln(k + 1)
        row[:] = np.interp(_LOG_LEVELS, log_level, np.exp(log_mass - log_level))
    return table.ravel()
