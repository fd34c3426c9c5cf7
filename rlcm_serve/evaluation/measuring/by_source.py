"""The measures of one source of confidence on one benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from calibration.metrics.bootstrap import estimate_metrics
from calibration.metrics.budget_cuts import at_end
from calibration.metrics.early_exits import REGRETS, OracleExits, depth_auroc, oracle_distances
from calibration.metrics.estimates import Estimate
from calibration.metrics.ranking import risk_coverage
from calibration.metrics.reliability import ReliabilityBin, bin_numbers, reliability_bins
from calibration.metrics.scores import ScoredRollouts
from calibration.metrics.share_intervals import shares_over_problems
from calibration.metrics.vote_curves import vote_curves
from rlcm_serve.evaluation.measuring.measures import METRICS, SourceMeasures
from rlcm_serve.evaluation.recorded import Recorded
from rlcm_serve.evaluation.sources import Source

_BINS = 10
_HISTOGRAM = 20
_CURVE = 200


def measure_source(recorded: Recorded, source: Source, oracle: OracleExits) -> SourceMeasures:
    """How well a source's confidence matches the answers, at the end and before."""
    traces = recorded.traces(source)
    scored = at_end(traces)
    confidence_R, correct_R = scored.confidence_R, scored.correct_R
    curve = risk_coverage(confidence_R, correct_R)
    thinned = np.unique(np.linspace(0, len(curve.risk_K) - 1, _CURVE).astype(np.intp))
    distances = oracle_distances(traces, oracle, REGRETS)
    return SourceMeasures(
        source=source,
        reading_tokens=recorded.reading_tokens(source),
        missing=recorded.missing(source),
        metrics=estimate_metrics(scored, METRICS),
        depth_auroc=depth_auroc(traces),
        oracle_distance={
            f"{regret:g}": found for regret, found in zip(REGRETS, distances, strict=True)
        },
        bins=tuple(_bins(scored)),
        right=_histogram(confidence_R[correct_R]),
        wrong=_histogram(confidence_R[~correct_R]),
        mean=float(confidence_R.mean()),
        median=float(np.median(confidence_R)),
        coverage=tuple(curve.coverage_K[thinned].tolist()),
        risk=tuple(curve.risk_K[thinned].tolist()),
        risk_interval=tuple(_risk_intervals(scored, curve.threshold_K[thinned])),
        votes=vote_curves(scored, range(1, int(scored.rollouts_P.min()) + 1)),
    )


def _bins(scored: ScoredRollouts) -> Iterator[ReliabilityBin]:
    """Bins whose accuracies have intervals that know which rollouts are of one problem."""
    bins = reliability_bins(scored.confidence_R, scored.correct_R, _BINS)
    bin_R = bin_numbers(scored.confidence_R, _BINS)
    for number, found in zip(np.unique(bin_R).tolist(), bins, strict=True):
        accuracy = _share(scored, bin_R == number, scored.correct_R)
        yield replace(found, accuracy_low=accuracy.low, accuracy_high=accuracy.high)


def _risk_intervals(
    scored: ScoredRollouts, threshold_K: NDArray[np.float64]
) -> Iterator[tuple[float, float]]:
    """Of the share wrong among the rollouts that reach each threshold."""
    for threshold in threshold_K.tolist():
        found = _share(scored, scored.confidence_R >= threshold, ~scored.correct_R)
        yield found.low or 0.0, 1.0 if found.high is None else found.high


def _share(
    scored: ScoredRollouts, among_R: NDArray[np.bool_], counted_R: NDArray[np.bool_]
) -> Estimate:
    """The share of some rollouts that count."""
    counted_P, among_P = (
        np.bincount(scored.problem_R[of_R], minlength=scored.n_problems)
        for of_R in (among_R & counted_R, among_R)
    )
    (found,) = shares_over_problems(counted_P[:, None], among_P, unit_P=scored.units_P)
    return found


def _histogram(confidence_R: NDArray[np.float64]) -> tuple[int, ...]:
    counts, _ = np.histogram(confidence_R, bins=_HISTOGRAM, range=(0.0, 1.0))
    return tuple(counts.tolist())
