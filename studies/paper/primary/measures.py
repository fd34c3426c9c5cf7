"""What the primary comparison measures of one run, as functions of weights over problems.

Weights are counts of a resample: row t of `weight_TP` says how often resample t holds each problem.
Weights of one are the problems themselves. A figure is an array over resamples (T).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.metrics.ranking import pairs_within

Figures = NDArray[np.float64]

_BINS = 10
_AT_A_TIME = 50
"""Resamples whose bins are filled at one time."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The test of one run: K rollouts of each of P problems.

    Attributes:
        problems: ids.
        right_PK: 1 where the final answer is right, else 0.
        confidence_PK: at the end of the reasoning, by the probe that read it.
        tokens_P: mean tokens of a rollout under the certified exits.
        full_tokens_P: the same without exits.
    """

    problems: tuple[str, ...]
    right_PK: tuple[tuple[int, ...], ...]
    confidence_PK: Mapping[str, tuple[tuple[float, ...], ...]]
    tokens_P: tuple[float, ...]
    full_tokens_P: tuple[float, ...]

    def right(self, on_P: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Which rollouts are right (P, K), on some of the problems."""
        found: NDArray[np.float64] = np.array(self.right_PK, dtype=np.float64)[on_P]
        return found

    def confidence(self, probe: str, on_P: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The confidences that a probe reads (P, K), on some of the problems."""
        found: NDArray[np.float64] = np.array(self.confidence_PK[probe], dtype=np.float64)[on_P]
        return found


def mean_over(value_P: NDArray[np.float64], weight_TP: Figures) -> Figures:
    """The weighted mean over problems; accuracy and tokens are such means."""
    found: Figures = (weight_TP @ value_P) / weight_TP.sum(1)
    return found


def mixed(right_PK: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Problems that are right in some rollouts and wrong in others."""
    share_P = right_PK.mean(1)
    return np.asarray((share_P > 0) & (share_P < 1))


def mixed_in_all(runs: Sequence[NDArray[np.float64]]) -> NDArray[np.bool_]:
    """Problems that are mixed in every run: the one set on which all are compared within."""
    return np.asarray(np.all([mixed(right_PK) for right_PK in runs], axis=0))


def within_question(
    confidence_PK: NDArray[np.float64],
    right_PK: NDArray[np.float64],
    common_P: NDArray[np.bool_],
    weight_TP: Figures,
) -> Figures:
    """AUROC within a question, the mean over the common problems; ties count half.

    Args:
        common_P: problems that are mixed in this run, as those of `mixed_in_all` are.
    """
    n_problems, n_rollouts = right_PK.shape
    problem_N = np.repeat(np.arange(n_problems), n_rollouts)
    wins_P, pairs_P = pairs_within(problem_N, confidence_PK.ravel(), right_PK.ravel() > 0)
    auroc_P = np.where(common_P, wins_P / np.maximum(pairs_P, 1), 0.0)
    found: Figures = (weight_TP @ auroc_P) / (weight_TP @ common_P.astype(np.float64))
    return found


def resolution(
    confidence_PK: NDArray[np.float64], right_PK: NDArray[np.float64], weight_TP: Figures
) -> Figures:
    """Murphy's resolution: the variance of the share right over ten bins of equal mass.

    The bins are those of each resample's own confidences, so a monotone change of the confidences
    changes nothing: it measures what they tell, not whether they are calibrated. Rollouts of equal
    confidence count as right in the share of them that is, so a constant confidence tells nothing.
    """
    order_N = np.argsort(confidence_PK.ravel(), kind="stable")
    _, start_V, tie_N = np.unique(
        confidence_PK.ravel()[order_N], return_index=True, return_inverse=True
    )
    problem_N = np.repeat(np.arange(len(right_PK)), right_PK.shape[1])[order_N]
    right_N = right_PK.ravel()[order_N]
    parts = np.array_split(weight_TP, max(1, -(-len(weight_TP) // _AT_A_TIME)))
    found = []
    for part_TP in parts:
        weight_TN = part_TP[:, problem_N]
        mass_TV = np.add.reduceat(weight_TN, start_V, axis=1)
        hits_TV = np.add.reduceat(weight_TN * right_N, start_V, axis=1)
        share_TV = hits_TV / np.maximum(mass_TV, 1e-12)
        found.append(_between_bins(weight_TN, weight_TN * share_TV[:, tie_N]))
    return np.concatenate(found)


def _between_bins(weight_TN: Figures, hits_TN: Figures) -> Figures:
    """The variance between bins; rollouts are in the order of their confidence."""
    total_T = weight_TN.sum(1)
    middle_TN = np.cumsum(weight_TN, axis=1) - weight_TN / 2
    bin_TN = np.minimum((middle_TN / total_T[:, None] * _BINS).astype(int), _BINS - 1)
    slot_TN = bin_TN + _BINS * np.arange(len(weight_TN))[:, None]
    size = _BINS * len(weight_TN)
    mass_TB = np.bincount(slot_TN.ravel(), weight_TN.ravel(), size).reshape(-1, _BINS)
    hits_TB = np.bincount(slot_TN.ravel(), hits_TN.ravel(), size).reshape(-1, _BINS)
    share_TB = hits_TB / np.maximum(mass_TB, 1e-12)
    mean_T = hits_TN.sum(1) / total_T
    return np.asarray((mass_TB * (share_TB - mean_T[:, None]) ** 2).sum(1) / total_T)
