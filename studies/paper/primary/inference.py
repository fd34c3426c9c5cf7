"""Intervals that cover other seeds and other problems, Holm's correction, and power.

Seeds and problems are crossed: every run of a method answers the same problems. A difference of two
methods varies with the seed (S), with the problems (P), and with both together. Seeds are few, so
their part has a t distribution; problems are many and are resampled, the same resample for all
seeds and methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats
from statsmodels.stats.multitest import multipletests


@dataclass(frozen=True, slots=True)
class Crossed:
    """A mean difference over seeds, with its standard error over seeds and problems.

    Attributes:
        mean: of the seeds' differences, on the problems as they are.
        seed_error, problem_error: parts of the standard error.
        df: degrees of freedom (Satterthwaite).
    """

    mean: float
    seed_error: float
    problem_error: float
    df: float

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return sqrt(self.seed_error**2 + self.problem_error**2)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The two-sided interval."""
        reach = float(stats.t.ppf((1 + level) / 2, self.df)) * self.error
        return self.mean - reach, self.mean + reach

    def p_above(self, bound: float) -> float:
        """One-sided p-value of the hypothesis that the difference is at most `bound`."""
        if self.error == 0:  # all seeds and problems differ by the same
            return float(self.mean <= bound)
        return float(stats.t.sf((self.mean - bound) / self.error, self.df))

    def p_differs(self) -> float:
        """Two-sided p-value of the hypothesis that the difference is 0."""
        return min(1.0, 2 * min(self.p_above(0.0), replace(self, mean=-self.mean).p_above(0.0)))


def crossed(
    difference_S: NDArray[np.float64], resampled_ST: NDArray[np.float64], n_problems: int
) -> Crossed:
    """The mean difference of two methods, with an error that covers other seeds and problems.

    The variance between seeds also holds the interaction of seeds and problems. So the variance of
    the mean over resamples enters without the share of that interaction, which it holds once more.

    Args:
        difference_S: of each seed, on the problems as they are.
        resampled_ST: of each seed, on resamples of the problems, the same for all seeds.
        n_problems: that were resampled.
    """
    n_seeds = len(difference_S)
    of_seeds = float(difference_S.var(ddof=1)) / n_seeds
    of_mean = float(resampled_ST.mean(0).var(ddof=1))
    of_each = float(resampled_ST.var(1, ddof=1).mean())
    twice = max(of_each - of_mean, 0.0) / (n_seeds - 1)
    of_problems = max(of_mean - twice, 0.0)
    mean = float(difference_S.mean())
    whole = of_seeds + of_problems
    if whole == 0:
        return Crossed(mean, 0.0, 0.0, n_seeds - 1)
    in_seeds, in_problems = of_seeds / whole, of_problems / whole
    df = 1 / (in_seeds**2 / (n_seeds - 1) + in_problems**2 / (n_problems - 1))
    return Crossed(mean, sqrt(of_seeds), sqrt(of_problems), df)


def resamples(n_problems: int, number: int, seed: int) -> NDArray[np.float64]:
    """How often each problem is in each resample (T, P)."""
    draw = np.random.default_rng(seed)
    shares = np.full(n_problems, 1 / n_problems)
    return draw.multinomial(n_problems, shares, size=number).astype(np.float64)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's adjusted p-values, by the name of the hypothesis."""
    adjusted = multipletests(list(p_values.values()), method="holm")[1]
    return {name: float(p) for name, p in zip(p_values, adjusted, strict=True)}


def power(effect: float, seed_sd: float, problem_error: float, n_seeds: int, alpha: float) -> float:
    """The chance that a two-sided test at `alpha` finds a true difference.

    Args:
        effect: the true difference.
        seed_sd: standard deviation of the difference between seeds.
        problem_error: standard error of the difference over problems.
    """
    error, df = _error_and_df(seed_sd, problem_error, n_seeds)
    bound = stats.t.ppf(1 - alpha / 2, df)
    shift = effect / error
    found = stats.nct.sf(bound, df, shift) + stats.nct.cdf(-bound, df, shift)
    return float(np.nan_to_num(found, nan=1.0))  # far out, scipy's distribution is undefined


def power_within(
    margin: float, seed_sd: float, problem_error: float, n_seeds: int, alpha: float
) -> float:
    """The chance that a one-sided test at `alpha` shows a loss below `margin` if there is none.

    Args:
        margin: the loss that counts as none.
        seed_sd, problem_error: as of `power`.
    """
    error, df = _error_and_df(seed_sd, problem_error, n_seeds)
    found = stats.nct.sf(stats.t.ppf(1 - alpha, df), df, margin / error)
    return float(np.nan_to_num(found, nan=1.0))


def _error_and_df(seed_sd: float, problem_error: float, n_seeds: int) -> tuple[float, float]:
    of_seeds = seed_sd**2 / n_seeds
    whole = max(of_seeds + problem_error**2, 1e-24)
    df = (n_seeds - 1) * (whole / of_seeds) ** 2 if of_seeds else 1e6
    return sqrt(whole), min(df, 1e6)


def smallest_effect(
    seed_sd: float, problem_error: float, n_seeds: int, alpha: float, wanted: float = 0.8
) -> float:
    """The smallest true difference that is found with power `wanted`; 0 without any spread."""
    error = sqrt(seed_sd**2 / n_seeds + problem_error**2)
    if error == 0:
        return 0.0

    def missing(effect: float) -> float:
        return power(effect, seed_sd, problem_error, n_seeds, alpha) - wanted

    return float(optimize.brentq(missing, 1e-9 * error, 40 * error))
