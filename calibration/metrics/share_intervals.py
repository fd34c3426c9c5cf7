"""Intervals of shares: how often rollouts are right, votes win, or something ends.

Resampling fails for a share near 0 or 1, and with few problems: if all ten problems are right, so
is every resample. These intervals are Clopper-Pearson's, which are exact for independent trials,
with an effective number of trials (Korn and Graubard 1998), because rollouts of one problem are
alike. That number is between the number of units and the number of rollouts. It is the number of
units, less what their different sizes take, over the design effect: the variance of the units'
shares, relative to units that are all right or all wrong. The design effect is estimated with two
right and two wrong units besides (Agresti and Caffo 2000), which keeps it near the worst case until
the units show that it is smaller.

The interval covers what other units (problems or groups) of the same kind, and other rollouts of
them, would change. It does not cover a grader's mistakes or a leaked benchmark. In simulations it
contained the truth in at least 93% of the cases, with 5 to 240 problems, 1 to 32 rollouts of each
and shares from 50% to 99% (some are in tests/calibration/metrics/test_share_intervals.py);
percentiles of resamples did so in 4% of them with 5 problems and a share of 99%.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from calibration.errors import CalibrationError
from calibration.metrics.estimates import Estimate

ERROR = 0.05
"""Two-sided, so that intervals are of 95%."""
_PSEUDO = 2.0
"""Units of each kind, right and wrong, by which the design effect is drawn to the worst case."""


def shares_over_problems(
    above_PC: ArrayLike,
    trials_P: ArrayLike,
    *,
    unit_P: NDArray[np.integer[Any]] | None = None,
    rollouts: int | None = None,
) -> tuple[Estimate, ...]:
    """Shares of trials, with intervals; several at once (C). A share of no trials is undefined.

    Example: Pass@1. `above_PC` has the right rollouts of each problem, `trials_P` all of them.

    Args:
        above_PC: trials of each problem that count, from 0 to its trials; fractions are allowed.
        trials_P: trials of each problem.
        unit_P: exchangeable unit of each problem, numbered from 0; None if each is a unit of its
            own.
        rollouts: the most independent trials that there can be; None for the sum of the trials.

    Raises:
        CalibrationError: shapes differ, or a count is negative or larger than its trials.
    """
    above_PC, trials_P = np.asarray(above_PC, np.float64), np.asarray(trials_P, np.float64)
    unit_P = np.arange(trials_P.size) if unit_P is None else unit_P
    if above_PC.shape[:1] != trials_P.shape or unit_P.shape != trials_P.shape:
        raise CalibrationError(
            f"counts {above_PC.shape}, trials {trials_P.shape}, units {unit_P.shape}: give one of "
            "each per problem"
        )
    if not ((above_PC >= 0) & (above_PC <= trials_P[:, None] + 1e-9)).all():
        raise CalibrationError("a count is negative or above its trials: give 0 to the trials")
    if not trials_P.any():
        return tuple(Estimate(None) for _ in range(above_PC.shape[1]))
    sums_UC = np.zeros((int(unit_P.max()) + 1, above_PC.shape[1] + 1))
    np.add.at(sums_UC, unit_P, np.column_stack([above_PC, trials_P]))
    sums_UC = sums_UC[sums_UC[:, -1] > 0]
    most = float(trials_P.sum()) if rollouts is None else float(rollouts)
    return _estimates(sums_UC[:, :-1], sums_UC[:, -1], most)


def difference_of_shares(share: Estimate, minus: Estimate) -> Estimate:
    """A share minus another, with an interval from both intervals (Newcombe 1998, method 10).

    It is for shares of different problems. Of the same problems it is too wide, because what makes
    a problem hard for both does not cancel.
    """
    if share.value is None or minus.value is None:
        return Estimate(None)
    value = share.value - minus.value
    if share.low is None or share.high is None or minus.low is None or minus.high is None:
        return Estimate(value)
    down = np.hypot(share.value - share.low, minus.high - minus.value)
    up = np.hypot(share.high - share.value, minus.value - minus.low)
    return Estimate(value, value - float(down), value + float(up))


def _estimates(
    above_UC: NDArray[np.float64], trials_U: NDArray[np.float64], most: float
) -> tuple[Estimate, ...]:
    total = trials_U.sum()
    share_C = np.clip(above_UC.sum(axis=0) / total, 0.0, 1.0)
    units = total**2 / (trials_U**2).sum()  # as many of equal size (Kish)
    effective_C = np.clip(units / _design_effect(above_UC, trials_U), units, max(units, most))
    yes_C, no_C = share_C * effective_C, (1 - share_C) * effective_C
    # A beta distribution with a parameter of 0 has no quantiles: there the end is 0 or 1.
    low_C = np.where(share_C == 0, 0.0, special.betaincinv(yes_C, no_C + 1, ERROR / 2))
    high_C = np.where(share_C == 1, 1.0, special.betaincinv(yes_C + 1, no_C, 1 - ERROR / 2))
    return tuple(Estimate(*map(float, found)) for found in zip(share_C, low_C, high_C, strict=True))


def _design_effect(
    above_UC: NDArray[np.float64], trials_U: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Variance of the units' shares, pseudo-units included, over that of units of one kind."""
    total, size = trials_U.sum(), trials_U.mean()
    weight = total + 2 * _PSEUDO * size
    mean_C = (above_UC.sum(axis=0) + _PSEUDO * size) / weight
    square_UC = trials_U[:, None] * (above_UC / trials_U[:, None] - mean_C) ** 2
    pseudo_C = _PSEUDO * size * ((1 - mean_C) ** 2 + mean_C**2)
    return np.asarray((square_UC.sum(axis=0) + pseudo_C) / weight / (mean_C * (1 - mean_C)))
