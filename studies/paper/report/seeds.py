"""Differences of metrics on the same problems, averaged over seeds.

A resample draws problems, the same for all seeds and both methods, and averages the metric over the
seeds. So an interval covers the variation due to problems. It does not cover the variation due to
seeds: one seed says nothing about it, and three seeds give only three differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibration.metrics.estimates import Estimate
from calibration.metrics.gap_intervals import ERRORS, Noise
from calibration.metrics.resampling import RESAMPLES, TAILS, THREADS, percentile_estimate, resampled
from calibration.metrics.weighted_metrics import WeightedMetrics
from studies.paper.report.results_index import fewest_rollouts, scored_alike
from studies.paper.result import Result

COMPARED = ("accuracy", "pce", "ece", "auroc")
"""The metrics that are compared."""


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
    theirs, ours = zip(*figures, strict=True)
    return {
        name: _Mean.of(name, [run[name] for run in ours]).minus(
            _Mean.of(name, [run[name] for run in theirs]), n_units
        )
        for name in names
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Mean:
    """A metric averaged over seeds.

    Attributes:
        noise: for a calibration error, the part due to chance; None for other metrics.
        value_T: for other metrics, on all problems, then on each resample; empty for an error.
    """

    noise: Noise | None
    value_T: NDArray[np.float64]

    @classmethod
    def of(cls, name: str, figures: Sequence[NDArray[np.float64]]) -> Self:
        """The mean of the results of `WeightedMetrics` for each seed."""
        if name not in ERRORS:
            return cls(None, np.mean(figures, axis=0))
        noises = [Noise.of(name, figure[0], figure[1:]) for figure in figures]
        mean = Noise(
            float(np.mean([noise.value for noise in noises])),
            np.mean([noise.most_T for noise in noises], axis=0),
            np.mean([noise.least_T for noise in noises], axis=0),
        )
        return cls(mean, np.empty(0))

    def minus(self, other: Self, n_units: int) -> Estimate:
        """The difference; both means must come from the same resamples of `n_units` units."""
        if self.noise is not None and other.noise is not None:
            return self.noise.minus(other.noise, TAILS)
        return percentile_estimate(self.value_T - other.value_T, n_units)


def _figures(run: Result, n_rollouts: int, names: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    scored = scored_alike(run, n_rollouts)
    metrics = WeightedMetrics(scored, names)
    return resampled(metrics.figures, scored.n_units, RESAMPLES, 0, THREADS)
