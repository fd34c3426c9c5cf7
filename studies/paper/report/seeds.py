"""Differences of metrics on the same problems, averaged over seeds.

A resample draws problems, the same ones for all seeds and for both methods, and averages over the
seeds what each of them comes to. So an interval covers what other problems would have changed. It
does not cover what other seeds would have: of one seed nothing is known about that, and of three
only the three differences say something.
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
"""Metrics of the differences."""


def mean_difference(
    pairs: Sequence[tuple[Result, Result]], names: Sequence[str] = COMPARED
) -> dict[str, Estimate]:
    """Metrics of the second runs minus those of the first, averaged over the pairs.

    The two of a pair are compared on as many rollouts of each problem. With one pair it is
    `calibration.metrics.bootstrap.estimate_difference`. A metric that is undefined for a run has
    the value None.

    Args:
        pairs: of each seed, all on the same problems; at least one.
        names: of `calibration.metrics.weighted_metrics.METRICS`.
    """
    n_units = pairs[0][0].rollouts.scored().n_units
    figures = [[_figures(run, fewest_rollouts(pair), names) for run in pair] for pair in pairs]
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
        noise: of a calibration error, what chance adds to it; None of other metrics.
        value_T: of other metrics, of all problems and then of each resample; empty of an error.
    """

    noise: Noise | None
    value_T: NDArray[np.float64]

    @classmethod
    def of(cls, name: str, figures: Sequence[NDArray[np.float64]]) -> Self:
        """From what `WeightedMetrics` gives for each seed."""
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
        """Both of the same resamples of so many units."""
        if self.noise is not None and other.noise is not None:
            return self.noise.minus(other.noise, TAILS)
        return percentile_estimate(self.value_T - other.value_T, n_units)


def _figures(run: Result, n_rollouts: int, names: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    scored = scored_alike(run, n_rollouts)
    metrics = WeightedMetrics(scored, names)
    return resampled(metrics.figures, scored.n_units, RESAMPLES, 0, THREADS)
