"""Differences of metrics on the same problems, averaged over seeds.

Seeds and problems are crossed: every run answers the same problems. With several seeds, an interval
covers other seeds and other problems (`studies.paper.primary.inference`). A single seed says
nothing about others, so its interval covers other problems alone.

Resamples of a calibration error are biased (`calibration.metrics.gap_intervals`); where it is close
to 0, they hardly differ. So its interval over several seeds reaches at least as far as the one over
problems alone, which allows for that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from calibration.metrics.bootstrap import mean_over_problems
from calibration.metrics.estimates import Estimate
from calibration.metrics.gap_intervals import ERRORS, Noise
from calibration.metrics.resampling import (
    FEWEST,
    RESAMPLES,
    TAILS,
    THREADS,
    percentile_estimate,
    resampled,
)
from calibration.metrics.weighted_metrics import WeightedMetrics
from studies.paper.primary.inference import crossed, resamples
from studies.paper.report.results_index import fewest_rollouts, scored_alike
from studies.paper.result import Result

COMPARED = ("accuracy", "pce", "ece", "auroc")
"""The metrics that are compared."""

Figures = Mapping[str, NDArray[np.float64]]
"""What `WeightedMetrics` gives, by metric: on all problems, then on each resample."""


def mean_difference(
    pairs: Sequence[tuple[Result, Result]],
    names: Sequence[str] = COMPARED,
    n_rollouts: int | None = None,
) -> dict[str, Estimate]:
    """Metrics of the second runs minus those of the first, averaged over the pairs.

    Both runs of a pair are compared on the same number of rollouts per problem. With one pair, the
    result equals `calibration.metrics.bootstrap.estimate_difference`. A metric that is undefined
    for a run has the value None.

    Args:
        pairs: one for each seed, all on the same problems; at least one.
        names: names in `calibration.metrics.weighted_metrics.METRICS`.
        n_rollouts: of each problem; None: of each pair as many as both runs have.
    """
    n_units = pairs[0][0].rollouts.scored().n_units
    figures = [
        [_figures(run, n_rollouts or fewest_rollouts(pair), names) for run in pair]
        for pair in pairs
    ]
    if len(pairs) == 1:
        theirs, ours = figures[0]
        return {name: _of_one(name, theirs, ours, n_units) for name in names}
    return {name: _of_several(name, figures, n_units) for name in names}


def mean_slope(
    runs: Mapping[float, Sequence[Result]], names: Sequence[str], n_rollouts: int
) -> dict[str, Estimate]:
    """How metrics change per unit of a weight: by least squares in each seed, then the mean.

    Args:
        runs: by weight, the same two seeds or more of each, all on the same problems.
        names: names in `calibration.metrics.weighted_metrics.METRICS`.
        n_rollouts: of each problem.
    """
    weight_W = np.array([*runs])
    centred_W = weight_W - weight_W.mean()
    share_W = centred_W / (centred_W**2).sum()
    figures = [[_figures(run, n_rollouts, names) for run in own] for own in runs.values()]
    n_units = next(iter(runs.values()))[0].rollouts.scored().n_units
    found = {}
    for name in names:
        total = ERRORS.get(name, np.asarray)
        metric_WST = np.array([[total(run[name]) for run in own] for own in figures])
        slope_ST = np.tensordot(share_W, metric_WST, axes=1)
        found[name] = _estimate(slope_ST[:, 0], slope_ST[:, 1:], n_units)
    return found


def mean_over_seeds(value_SP: NDArray[np.float64]) -> Estimate:
    """The mean of a value of each seed (S) and problem (P), with its interval."""
    if len(value_SP) == 1:
        return mean_over_problems(value_SP[0])
    n_problems = value_SP.shape[1]
    weight_TP = resamples(n_problems, RESAMPLES, seed=0)
    return _estimate(value_SP.mean(1), value_SP @ weight_TP.T / n_problems, n_problems)


def _of_one(name: str, theirs: Figures, ours: Figures, n_units: int) -> Estimate:
    if name in ERRORS:
        return _noise(name, [ours]).minus(_noise(name, [theirs]), TAILS)
    return percentile_estimate(ours[name] - theirs[name], n_units)


def _of_several(name: str, pairs: Sequence[Sequence[Figures]], n_units: int) -> Estimate:
    total = ERRORS.get(name, np.asarray)
    difference_ST = np.array([total(ours[name]) - total(theirs[name]) for theirs, ours in pairs])
    found = _estimate(difference_ST[:, 0], difference_ST[:, 1:], n_units)
    if name not in ERRORS or found.low is None or found.high is None:
        return found
    theirs, ours = ([pair[place] for pair in pairs] for place in (0, 1))
    over_problems = _noise(name, ours).minus(_noise(name, theirs), TAILS)
    assert over_problems.low is not None
    assert over_problems.high is not None
    low, high = min(found.low, over_problems.low), max(found.high, over_problems.high)
    return Estimate(found.value, low, high)


def _noise(name: str, runs: Sequence[Figures]) -> Noise:
    """A calibration error, averaged over seeds, with the part that is due to chance."""
    noises = [Noise.of(name, run[name][0], run[name][1:]) for run in runs]
    return Noise(
        float(np.mean([noise.value for noise in noises])),
        np.mean([noise.most_T for noise in noises], axis=0),
        np.mean([noise.least_T for noise in noises], axis=0),
    )


def _estimate(
    value_S: NDArray[np.float64], resampled_ST: NDArray[np.float64], n_units: int
) -> Estimate:
    """The mean over seeds; without an interval if resamples leave too little to tell."""
    if not np.isfinite(value_S).all():
        return Estimate(None)
    defined_ST = resampled_ST[:, np.isfinite(resampled_ST).all(axis=0)]
    if n_units < FEWEST or 2 * defined_ST.shape[1] < resampled_ST.shape[1]:
        return Estimate(float(value_S.mean()))
    found = crossed(value_S, defined_ST, n_units)
    return Estimate(found.mean, *found.interval())


def _figures(run: Result, n_rollouts: int, names: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    scored = scored_alike(run, n_rollouts)
    metrics = WeightedMetrics(scored, names)
    return resampled(metrics.figures, scored.n_units, RESAMPLES, 0, THREADS)
