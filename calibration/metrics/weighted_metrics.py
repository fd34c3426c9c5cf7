"""All metrics of graded rollouts with integer weights of units, for many weightings at once.

A resample of a bootstrap draws units with replacement, so it is a weight for each unit: how often
it was drawn. Most metrics are ratios of weighted sums, computed for many resamples by one matrix
product. Ranked metrics take one pass over the rollouts in the order of confidence.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError
from calibration.metrics.ranking import pairs_within
from calibration.metrics.reliability import N_BINS, bin_numbers
from calibration.metrics.scores import ScoredRollouts
from calibration.metrics.scoring import log_losses

METRICS = (
    "accuracy",
    "ece",
    "pce",
    "adaptive_ece",
    "brier",
    "nll",
    "auroc",
    "aurc",
    "within_auroc",
)
"""The metrics of graded rollouts.

All rollouts have the same weight. `accuracy` is the share of right rollouts: Pass@1, if all
problems have the same number of rollouts.
"""

_RANKED = ("adaptive_ece", "auroc", "aurc")

_CELLS = 1 << 16
"""Rollouts x resamples processed at a time."""


class WeightedMetrics:
    """Metrics of a set of rollouts, as a function of how often each unit was drawn.

    Args:
        scored: the rollouts; each counts as often as its unit was drawn.
        names: names from METRICS.
        n_bins: number of bins of `ece`, `pce` and `adaptive_ece`.

    Raises:
        CalibrationError: a name is unknown, or there are no bins.
    """

    def __init__(
        self, scored: ScoredRollouts, names: Sequence[str] = METRICS, n_bins: int = N_BINS
    ) -> None:
        if unknown := sorted(set(names) - set(METRICS)):
            raise CalibrationError(f"no metrics {unknown}: known are {list(METRICS)}")
        self.names = tuple(names)
        self._sums = _Sums(scored, n_bins)
        ranks = any(name in _RANKED for name in names)
        self._ranking = _Ranking(scored, n_bins) if ranks else None

    def figures(self, weight_TU: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        """The figures of each metric by name: an array with resamples (T) first.

        For a calibration error these are the gaps of its bins, (T, B); for any other metric its
        values, (T,), NaN where it is undefined.

        Args:
            weight_TU: how often each unit was drawn; at least one unit was.
        """
        found = self._sums.figures(weight_TU)
        if self._ranking is not None:
            found |= self._ranking.figures(weight_TU)
        return {name: found[name] for name in self.names}


class _Sums:
    """Sums over each unit's rollouts; metrics are ratios of them.

    The columns are counts of rollouts and of right rollouts; sums of the Brier score and of the log
    loss; sums of the two results of `pairs_within`; and for each bin of equal width the sum of
    correctness minus confidence over its rollouts. The counts of bins cancel: |S_b| |acc(S_b) -
    conf(S_b)| is the absolute value of such a sum.
    """

    def __init__(self, scored: ScoredRollouts, n_bins: int) -> None:
        confidence_R, correct_R = scored.confidence_R, scored.correct_R.astype(np.float64)
        unit_R, n_units, gap_R = scored.unit_R, scored.n_units, correct_R - confidence_R

        def summed(index: NDArray[np.integer[Any]], values: NDArray[Any]) -> NDArray[np.float64]:
            return np.asarray(np.bincount(index, values, minlength=n_units), dtype=np.float64)

        cell_R = unit_R * n_bins + bin_numbers(confidence_R, n_bins)
        gap_UB = np.bincount(cell_R, gap_R, minlength=n_units * n_bins).reshape(-1, n_bins)
        wins_P, pairs_P = pairs_within(scored.problem_R, confidence_R, scored.correct_R)
        columns = (
            summed(unit_R, np.ones(scored.n_rollouts)),
            summed(unit_R, correct_R),
            summed(unit_R, gap_R**2),
            summed(unit_R, log_losses(confidence_R, correct_R)),
            summed(scored.units_P, wins_P),
            summed(scored.units_P, pairs_P),
        )
        self._sums_UK = np.column_stack([*columns, gap_UB])

    def figures(self, weight_TU: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        """Figures of the metrics that are ratios."""
        sums_TK = weight_TU.astype(np.float64) @ self._sums_UK
        rollouts_T, right_T, squares_T, losses_T, wins_T, pairs_T = sums_TK[:, :6].T
        gap_TB = sums_TK[:, 6:] / rollouts_T[:, None]
        within_T = np.full(len(wins_T), np.nan)
        np.divide(wins_T, pairs_T, out=within_T, where=pairs_T > 0)
        return {
            "accuracy": right_T / rollouts_T,
            "ece": gap_TB,
            "pce": gap_TB,
            "brier": squares_T / rollouts_T,
            "nll": losses_T / rollouts_T,
            "within_auroc": within_T,
        }


class _Ranking:
    """Rollouts by falling confidence, in groups (K) of equal confidence.

    Attributes:
        unit_R: unit of each rollout.
        wrong_R: 1 where it is wrong, 0 where it is right.
        gap_R: correctness minus confidence.
        first_K: the first rollout of each group.
        rollouts_U, wrong_U: counts of each unit.
        n_bins: number of bins of `adaptive_ece`.
    """

    def __init__(self, scored: ScoredRollouts, n_bins: int) -> None:
        order_R = np.argsort(-scored.confidence_R)
        confidence_R, correct_R = scored.confidence_R[order_R], scored.correct_R[order_R]
        self.unit_R = scored.unit_R[order_R].astype(np.intp)
        self.wrong_R = (~correct_R).astype(np.uint8)
        self.gap_R = correct_R - confidence_R
        self.first_K = np.flatnonzero(np.append(True, confidence_R[1:] != confidence_R[:-1]))
        self.rollouts_U = np.bincount(self.unit_R)
        self.wrong_U = np.bincount(self.unit_R[~correct_R], minlength=scored.n_units)
        self.n_bins = n_bins

    def figures(self, weight_TU: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        """Figures of the metrics that need the order."""
        all_T, wrong_T = weight_TU @ self.rollouts_U, weight_TU @ self.wrong_U
        # As few bytes as possible, because the access is random.
        weight_TU = weight_TU.astype(np.min_scalar_type(weight_TU.max()))
        sums = _RankSums(all_T, wrong_T, self.n_bins)
        for rows, first_K in self._parts(len(weight_TU)):
            weight_TR = weight_TU.take(self.unit_R[rows], axis=1)
            sums.add(weight_TR, self.wrong_R[rows], self.gap_R[rows], first_K)
        return sums.figures()

    def _parts(self, n_resamples: int) -> Iterator[tuple[slice, NDArray[np.intp]]]:
        """Adjacent rows that begin with a group, and the starts of groups within them."""
        first_K = self.first_K
        begins = np.flatnonzero(np.diff(first_K // max(1, _CELLS // n_resamples), prepend=-1))
        ends = np.append(begins[1:], len(first_K))
        row_K = np.append(first_K, len(self.unit_R))
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            yield slice(row_K[begin], row_K[end]), first_K[begin:end] - row_K[begin]


class _RankSums:
    """Accumulates the terms of the ranked metrics, by falling confidence.

    Take a group of c rollouts with equal confidence, e of them wrong. Up to and including it there
    are A rollouts, E of them wrong. The j-th of the group in random order has the expected risk
    ((E - e) + j e/c) / (A - c + j) = e/c + (E - A e/c) / (A - c + j). Over the group, the first
    term sums to e, the second to (E - A e/c) (H(A) - H(A - c)), where H(n) = 1 + 1/2 + ... + 1/n.
    """

    def __init__(self, all_T: NDArray[np.int64], wrong_T: NDArray[np.int64], n_bins: int) -> None:
        self._all_T, self._wrong_T = all_T, wrong_T
        self._harmonic = np.append(0.0, np.cumsum(1 / np.arange(1, int(all_T.max()) + 1)))
        self._edge_TB = all_T[:, None] * (np.arange(1, n_bins) / n_bins)
        # Sums up to each edge, including 0 and the end.
        self._gap_TB = np.zeros((len(all_T), n_bins + 1))
        self._wins_T, self._area_T = np.zeros(len(all_T)), wrong_T.astype(np.float64)
        # Totals of all groups so far: rollouts, wrong rollouts, gaps, H(rollouts).
        self._A_T1 = self._E_T1 = np.zeros((len(all_T), 1), dtype=np.int64)
        self._G_T1 = self._H_T1 = np.zeros((len(all_T), 1))

    def add(
        self,
        weight_TR: NDArray[Any],
        wrong_R: NDArray[np.uint8],
        gap_R: NDArray[np.float64],
        first_K: NDArray[np.intp],
    ) -> None:
        """Add the next groups."""
        c_TK, e_TK = weight_TR, weight_TR * wrong_R
        tied = len(first_K) < len(wrong_R)
        if tied:
            c_TK = np.add.reduceat(c_TK, first_K, axis=1, dtype=np.int64)
            e_TK = np.add.reduceat(e_TK, first_K, axis=1, dtype=np.int64)
        A_TK = self._A_T1 + np.cumsum(c_TK, axis=1, dtype=np.int64)
        E_TK = self._E_T1 + np.cumsum(e_TK, axis=1, dtype=np.int64)
        H_TK = self._harmonic.take(A_TK)
        # A group that was not drawn has no rate and adds nothing.
        rate_TK = e_TK / np.maximum(c_TK, 1) if tied else wrong_R
        excess_TK = E_TK - A_TK * rate_TK
        self._area_T += (excess_TK * np.diff(H_TK, axis=1, prepend=self._H_T1)).sum(axis=1)
        # A right rollout wins against all wrong ones behind its group, and half of those in it.
        behind_TK = self._wrong_T[:, None] - E_TK + e_TK / 2
        self._wins_T += ((c_TK - e_TK) * behind_TK).sum(axis=1)
        self._add_gaps(weight_TR, gap_R, first_K, A_TK)
        self._A_T1, self._E_T1, self._H_T1 = A_TK[:, -1:], E_TK[:, -1:], H_TK[:, -1:]

    def _add_gaps(
        self,
        weight_TR: NDArray[Any],
        gap_R: NDArray[np.float64],
        first_K: NDArray[np.intp],
        A_TK: NDArray[np.int64],
    ) -> None:
        """The gaps up to each edge within these groups; within a group they grow linearly."""
        reached = (self._edge_TB > self._A_T1) & (self._edge_TB <= A_TK[:, -1:])
        for t in np.flatnonzero(reached.any(axis=1)).tolist():
            g_K = np.add.reduceat(weight_TR[t] * gap_R, first_K)
            G_K = self._G_T1[t] + np.append(0.0, np.cumsum(g_K))
            edges = self._edge_TB[t, reached[t]]
            at_edges = np.interp(edges, np.append(self._A_T1[t], A_TK[t]), G_K)
            self._gap_TB[t, np.flatnonzero(reached[t]) + 1] = at_edges
        self._G_T1 = self._G_T1 + (weight_TR @ gap_R)[:, None]

    def figures(self) -> dict[str, NDArray[np.float64]]:
        """The figures, after all groups were added."""
        self._gap_TB[:, -1] = self._G_T1[:, 0]
        pairs_T = (self._all_T - self._wrong_T) * self._wrong_T
        auroc_T = np.full(len(pairs_T), np.nan)
        np.divide(self._wins_T, pairs_T, out=auroc_T, where=pairs_T > 0)
        return {
            "adaptive_ece": np.diff(self._gap_TB, axis=1) / self._all_T[:, None],
            "auroc": auroc_T,
            "aurc": self._area_T / self._all_T,
        }
