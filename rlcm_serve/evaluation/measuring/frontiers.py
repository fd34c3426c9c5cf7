"""Frontiers: tokens and errors along the thresholds of each source, and of what joins exits.

Besides the exits of every source there are, where the run holds what they need, those of the run's
own source under a vote of several samples, and for familiar questions alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration import ExitPolicy
from calibration.metrics.estimates import Estimate
from calibration.metrics.resampling import (
    RESAMPLES,
    THREADS,
    percentile_estimate,
    resampled,
    with_width,
)
from calibration.metrics.share_intervals import shares_over_problems
from calibration.policy.exit_rule import NEVER
from calibration.simulation.procedure import Procedure, simulate
from calibration.simulation.replay import outcomes
from calibration.traces.traces import Traces
from rlcm_serve.evaluation.measuring.equal_error import ALLOWED, crossings
from rlcm_serve.evaluation.measuring.measures import Frontier
from rlcm_serve.evaluation.recorded import Recorded
from rlcm_serve.evaluation.sources import Source

VOTES = (2, 4, 8)
"""Samples of the votes that exits are joined with, up to the rollouts of a problem."""
_THRESHOLDS = 60
_AT_A_TIME = 8
"""Thresholds replayed at once."""


def find_frontiers(recorded: Recorded) -> tuple[Frontier, ...]:
    """The frontiers of every source, then what joins the own source's exits with something else."""
    full = _replay(recorded.with_suffix(recorded.own_source), [NEVER], 1)
    return tuple(_all(recorded, full))


def _all(recorded: Recorded, full: _Replayed) -> Iterator[Frontier]:
    counts = recorded.suffix_tokens_RC is not None
    for source in recorded.sources:
        traces = recorded.with_suffix(source)
        thresholds = _thresholds(traces)
        found = _replay(traces, thresholds, 1)
        yield _frontier(recorded, source, thresholds, found, full, counts_suffix=counts)
        if source is not recorded.own_source:
            continue
        for n in VOTES:
            if n <= traces.rollouts_P.min():
                voted = _replay(traces, thresholds, n)
                yield _frontier(
                    recorded, source, thresholds, voted, full, samples=n, counts_suffix=counts
                )
        unfamiliar_P = ~recorded.own.is_familiar_P
        if unfamiliar_P.any() and not unfamiliar_P.all():
            gated = found.at_full_budget(unfamiliar_P)
            yield _frontier(
                recorded, source, thresholds, gated, full, only_familiar=True, counts_suffix=counts
            )


@dataclass(frozen=True, slots=True)
class _Replayed:
    """Means over a problem's draws (P) under each threshold (T); the first one never fires."""

    tokens_PT: NDArray[np.float64]
    wrong_PT: NDArray[np.float64]
    full_tokens_P: NDArray[np.float64]
    draws: int

    def at_full_budget(self, chosen_P: NDArray[np.bool_]) -> _Replayed:
        """The same where the chosen problems never exit early."""
        chosen = chosen_P[:, None]
        return _Replayed(
            np.where(chosen, self.tokens_PT[:, :1], self.tokens_PT),
            np.where(chosen, self.wrong_PT[:, :1], self.wrong_PT),
            self.full_tokens_P,
            self.draws,
        )


def _thresholds(traces: Traces) -> list[float]:
    """One that never fires, then quantiles of the readings before the end, decreasing."""
    checkpoints_RC = np.arange(traces.tokens_RC.shape[1]) < traces.final_R[:, None]
    readings = traces.confidence_RC[checkpoints_RC]
    steps = np.linspace(1, 0, _THRESHOLDS)
    quantiles = np.unique(np.quantile(readings, steps)) if readings.size else np.empty(0)
    return [NEVER, *quantiles[::-1].tolist()]


def _replay(traces: Traces, thresholds: list[float], samples: int) -> _Replayed:
    """Every draw answers; its answer is wrong if it is not right."""
    procedure = Procedure(samples)
    problem_D = simulate(traces, procedure).problem_D
    draws_P = np.bincount(problem_D, minlength=traces.n_problems)

    def mean(value_D: NDArray[np.generic]) -> NDArray[np.float64]:
        return np.asarray(np.bincount(problem_D, value_D.astype(float)) / draws_P)

    tokens, wrong, full_tokens = [], [], np.empty(0)
    for start in range(0, len(thresholds), _AT_A_TIME):
        chosen = thresholds[start : start + _AT_A_TIME]
        found = outcomes(traces, [ExitPolicy(lambda_high=value) for value in chosen], procedure)
        tokens += [mean(tokens_D) for tokens_D in found.tokens_DT.T]
        wrong += [1 - mean(right_D) for right_D in found.correct_DT.T]
        full_tokens = mean(found.full_tokens_D)
    return _Replayed(np.column_stack(tokens), np.column_stack(wrong), full_tokens, len(problem_D))


def _frontier(
    recorded: Recorded,
    source: Source,
    thresholds: list[float],
    found: _Replayed,
    full: _Replayed,
    *,
    samples: int = 1,
    only_familiar: bool = False,
    counts_suffix: bool,
) -> Frontier:
    own = recorded.own
    errors = shares_over_problems(
        np.clip(found.wrong_PT, 0, 1),
        np.ones(own.n_problems),
        unit_P=own.unit_P,
        rollouts=own.n_rollouts // samples,
    )
    return Frontier(
        source=source,
        threshold=tuple(thresholds),
        tokens=tuple((found.tokens_PT.mean(axis=0) / full.full_tokens_P.mean()).tolist()),
        error=tuple(found.wrong_PT.mean(axis=0).tolist()),
        error_low=tuple(each.low or 0.0 for each in errors),
        error_high=tuple(1.0 if each.high is None else each.high for each in errors),
        at_error=tuple(_at_error(own, found, full)),
        samples=samples,
        only_familiar=only_familiar,
        counts_suffix=counts_suffix,
    )


def _at_error(own: Traces, found: _Replayed, full: _Replayed) -> Iterator[Estimate]:
    """Tokens at each error of `ALLOWED`; a resample of units has a full budget of its own."""
    size_U = np.bincount(own.unit_P).astype(float)

    def sums(value_PT: NDArray[np.float64]) -> NDArray[np.float64]:
        sums_UT = np.zeros((len(size_U), value_PT.shape[1]))
        np.add.at(sums_UT, own.unit_P, value_PT)
        return sums_UT

    tokens_UT, wrong_UT = sums(found.tokens_PT), sums(found.wrong_PT)
    full_U = sums(np.column_stack([full.wrong_PT[:, 0], full.full_tokens_P]))

    def figures_of(drawn_BU: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        weight_B = drawn_BU @ size_U
        wrong_B, budget_B = (drawn_BU @ full_U).T
        tokens_BT = drawn_BU @ tokens_UT / budget_B[:, None]
        error_BT = drawn_BU @ wrong_UT / weight_B[:, None]
        return {
            str(more): crossings(tokens_BT, error_BT, wrong_B / weight_B + more) for more in ALLOWED
        }

    values = resampled(figures_of, len(size_U), RESAMPLES, 0, THREADS)
    for more in ALLOWED:
        yield with_width(percentile_estimate(values[str(more)], len(size_U)))
