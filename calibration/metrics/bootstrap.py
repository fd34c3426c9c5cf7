"""Intervals by resampling problems (bootstrap), and differences of two runs on the same problems.

A resample draws as many exchangeable units as there are, with replacement. A unit is a problem with
all its rollouts, or a group of problems. The interval is between the 2.5% and the 97.5% quantile of
the metric over the resamples. Resamples of a calibration error are biased; its interval is that of
`calibration.metrics.gap_intervals`.

The interval covers what other problems of the same kind, and other rollouts of them, would change.
It does not cover what all problems share: a grader's mistakes, a leaked benchmark, or problems of
another kind. It is an approximation that needs some tens of units: with fewer than
`resampling.FEWEST`, or if all resamples agree, there is none. The interval of a share such as the
accuracy is not from resamples, but from `calibration.metrics.share_intervals`, which knows few
units and shares of 0 and 1.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.errors import CalibrationError
from calibration.metrics.estimates import Estimate
from calibration.metrics.gap_intervals import ERRORS, Noise
from calibration.metrics.resampling import (
    FEWEST,
    RESAMPLES,
    TAILS,
    THREADS,
    percentile_estimate,
    resampled,
    with_width,
)
from calibration.metrics.scores import ScoredRollouts
from calibration.metrics.share_intervals import difference_of_shares, shares_over_problems
from calibration.metrics.weighted_metrics import METRICS, WeightedMetrics


def estimate_metrics(
    scored: ScoredRollouts,
    names: Sequence[str] = METRICS,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    threads: int = THREADS,
) -> dict[str, Estimate]:
    """Metrics with their intervals.

    An undefined metric (`auroc` if all rollouts are right) has the value None. Resamples in which a
    metric is undefined are left out of its interval. Few units give no intervals, except of the
    accuracy.

    Args:
        scored: the rollouts.
        names: names from METRICS, in the order of the result.
        resamples: number of resamples; calls with the same seed and units draw the same ones.
        seed: seed of the draws.
        threads: number of threads; the result does not depend on it.

    Raises:
        CalibrationError: a name is unknown, or there are no resamples.
    """
    run = _Resampled(scored, names, resamples, seed, threads)
    return {name: run.estimate(name) for name in names}


def estimate_difference(
    one: ScoredRollouts,
    other: ScoredRollouts,
    names: Sequence[str] = METRICS,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    threads: int = THREADS,
) -> dict[str, Estimate]:
    """Metrics of `other` minus those of `one`, both on the same problems, with paired intervals.

    Every resample draws the same units for both runs, so that what makes a problem hard for both
    cancels. Where resamples give no interval, that of the accuracy is from the intervals of both
    runs, and wider. Problem p must be the same in both; the number of rollouts may differ.

    An interval that excludes 0 says that the two runs differ on problems like these. Without any
    difference, one comparison in twenty excludes 0 by chance.

    Args:
        one: rollouts of the first run.
        other: rollouts of the second.
        names: see `estimate_metrics`.
        resamples: see `estimate_metrics`.
        seed: see `estimate_metrics`.
        threads: see `estimate_metrics`.

    Raises:
        CalibrationError: the problems or groups differ; see also `estimate_metrics`.
    """
    one, other = _numbered_alike(one), _numbered_alike(other)
    if one.n_problems != other.n_problems or not np.array_equal(one.units_P, other.units_P):
        raise CalibrationError(
            f"{one.n_problems} problems in {one.n_units} units and {other.n_problems} in "
            f"{other.n_units}: a paired difference needs the same problems in the same order; "
            "select the problems that both have"
        )
    first, second = (_Resampled(run, names, resamples, seed, threads) for run in (one, other))
    return {name: second.minus(first, name) for name in names}


def _numbered_alike(scored: ScoredRollouts) -> ScoredRollouts:
    """The same rollouts, their units numbered by their first problems.

    Traces number units by what was recorded, so two runs number the same units differently.
    """
    _, first_U, unit_P = np.unique(scored.units_P, return_index=True, return_inverse=True)
    return replace(scored, unit_P=np.argsort(np.argsort(first_U))[unit_P])


def mean_over_problems(
    value_P: ArrayLike,
    *,
    unit_P: NDArray[np.integer[Any]] | None = None,
    resamples: int = RESAMPLES,
) -> Estimate:
    """The plain mean over problems, with its interval.

    Args:
        value_P: one number per problem, for example its tokens per rollout.
        unit_P: exchangeable unit of each problem, numbered from 0; None if each is a unit of its
            own.
        resamples: see `estimate_metrics`.

    Raises:
        CalibrationError: there are no problems, a value is not finite, or there is not one unit per
            problem.
    """
    value_P = np.asarray(value_P, dtype=np.float64)
    (mean,) = ratios_over_problems(
        value_P[:, None], np.ones(value_P.shape), unit_P=unit_P, resamples=resamples
    )
    return mean


def ratios_over_problems(
    above_PC: ArrayLike,
    below_P: ArrayLike,
    *,
    unit_P: NDArray[np.integer[Any]] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    threads: int = THREADS,
) -> tuple[Estimate, ...]:
    """Ratios of two sums over problems, with intervals; several numerators at once (C).

    Example: markers per rollout. `above_PC` counts each marker in all rollouts of a problem,
    `below_P` the rollouts. A ratio is undefined if its denominator is 0.

    Args:
        above_PC: numerators of each problem.
        below_P: the common denominator of each problem.
        unit_P: see `mean_over_problems`.
        resamples: see `estimate_metrics`.
        seed: see `estimate_metrics`.
        threads: number of threads; the result does not depend on it.

    Raises:
        CalibrationError: see `mean_over_problems`.
    """
    above_PC, below_P = np.asarray(above_PC, np.float64), np.asarray(below_P, np.float64)
    n_problems = below_P.size
    unit_P = np.arange(n_problems) if unit_P is None else unit_P
    if n_problems == 0 or above_PC.shape[:1] != below_P.shape or unit_P.shape != below_P.shape:
        raise CalibrationError(
            f"numerators {above_PC.shape}, denominators {below_P.shape}, units {unit_P.shape}: "
            "give one of each per problem, and at least one problem"
        )
    if not (np.isfinite(above_PC).all() and np.isfinite(below_P).all()):
        raise CalibrationError("a number of a problem is nan or infinite: leave that problem out")
    n_units = int(unit_P.max()) + 1
    sums_UC = np.zeros((n_units, above_PC.shape[1] + 1))
    np.add.at(sums_UC, unit_P, np.column_stack([above_PC, below_P]))

    def ratios(weight_TU: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        sums_TC = weight_TU.astype(np.float64) @ sums_UC
        above_TC, below_T1 = sums_TC[:, :-1], sums_TC[:, -1:]
        ratio_TC = np.full(above_TC.shape, np.nan)
        np.divide(above_TC, below_T1, out=ratio_TC, where=below_T1 != 0)
        return {"ratio": ratio_TC}

    ratio_TC = resampled(ratios, n_units, resamples, seed, threads)["ratio"]
    return tuple(with_width(percentile_estimate(ratio_T, n_units)) for ratio_T in ratio_TC.T)


class _Resampled:
    """Figures of one set of rollouts: first the original, then each resample, on the first axis."""

    def __init__(
        self, scored: ScoredRollouts, names: Sequence[str], resamples: int, seed: int, threads: int
    ) -> None:
        metrics = WeightedMetrics(scored, names)
        self.scored, self.n_units = scored, scored.n_units
        self.figures = resampled(metrics.figures, self.n_units, resamples, seed, threads)

    def estimate(self, name: str) -> Estimate:
        if name == "accuracy":
            return self._accuracy()
        if name in ERRORS and self.n_units >= FEWEST:
            return with_width(self._noise(name).estimate(TAILS))
        return with_width(percentile_estimate(_values(name, self.figures[name]), self.n_units))

    def minus(self, other: Self, name: str) -> Estimate:
        if name in ERRORS and self.n_units >= FEWEST:
            return with_width(self._noise(name).minus(other._noise(name), TAILS))
        mine, theirs = (_values(name, run.figures[name]) for run in (self, other))
        found = with_width(percentile_estimate(mine - theirs, self.n_units))
        if name == "accuracy" and found.low is None:
            return difference_of_shares(self._accuracy(), other._accuracy())
        return found

    def _accuracy(self) -> Estimate:
        scored = self.scored
        (found,) = shares_over_problems(
            scored.right_P[:, None], scored.rollouts_P, unit_P=scored.units_P
        )
        return found

    def _noise(self, name: str) -> Noise:
        return Noise.of(name, self.figures[name][0], self.figures[name][1:])


def _values(name: str, figure_T: NDArray[np.float64]) -> NDArray[np.float64]:
    """A metric from its figures, as `WeightedMetrics.figures` defines them."""
    return ERRORS[name](figure_T) if name in ERRORS else figure_T
