"""Resamples of exchangeable units, and figures of each resample."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError
from calibration.metrics.estimates import Estimate

RESAMPLES = 1000
THREADS = 2
"""Blocks of resamples computed at the same time; the result does not depend on it."""

TAILS = (0.025, 0.975)
"""Quantiles that bound an interval of 95%."""

FEWEST = 20
"""With fewer exchangeable units, percentiles of resamples miss the truth too often: no interval."""

_BLOCK = 16
"""Resamples computed at a time."""


def draw(n_units: int, seed: int, number: int) -> NDArray[np.int64]:
    """How often each unit is in the resample of this number, which has its own random generator."""
    drawn = np.random.default_rng((seed, number)).integers(0, n_units, n_units)
    return np.bincount(drawn, minlength=n_units)


def resampled(
    figures_of: Callable[[NDArray[np.int64]], dict[str, NDArray[np.float64]]],
    n_units: int,
    resamples: int,
    seed: int,
    threads: int,
) -> dict[str, NDArray[np.float64]]:
    """Figures by name: first with every unit drawn once, then for each resample.

    Args:
        figures_of: maps how often each unit was drawn, (T, U), to arrays with T entries.
        n_units: number of units.
        resamples: number of resamples.
        seed: seed of the draws.
        threads: number of threads.

    Raises:
        CalibrationError: there are no resamples.
    """
    if resamples < 1:
        raise CalibrationError(f"resamples is {resamples}: give 1 or more")

    def block(numbers: range) -> dict[str, NDArray[np.float64]]:
        return figures_of(np.stack([draw(n_units, seed, number) for number in numbers]))

    starts = range(0, resamples, _BLOCK)
    blocks = [range(start, min(start + _BLOCK, resamples)) for start in starts]
    with ThreadPoolExecutor(threads) as pool:
        parts = [figures_of(np.ones((1, n_units), dtype=np.int64)), *pool.map(block, blocks)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def percentile_estimate(value_T: NDArray[np.float64], n_units: int) -> Estimate:
    """The first value, with the interval of the resamples' values after it.

    It is None if it is undefined (NaN). Resamples in which it is undefined are left out. There is
    no interval with fewer than `FEWEST` units.
    """
    if np.isnan(value_T[0]):
        return Estimate(None)
    value, defined_T = float(value_T[0]), value_T[1:][~np.isnan(value_T[1:])]
    if n_units < FEWEST or defined_T.size == 0:
        return Estimate(value)
    low, high = np.quantile(defined_T, TAILS).tolist()
    return Estimate(value, low, high)


def with_width(estimate: Estimate) -> Estimate:
    """The estimate, without an interval of no width: resamples that agree say nothing of others.

    Sums of the same numbers in another order differ by rounding, which is no width.
    """
    low, high = estimate.low, estimate.high
    has_none = low is None or high is None or math.isclose(low, high, rel_tol=1e-9, abs_tol=1e-9)
    return Estimate(estimate.value) if has_none else estimate
