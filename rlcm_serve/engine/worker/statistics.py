"""Twelve statistics of a rollout's own tokens, which a probe can read beside the state.

Each reasoning token has three figures: its log-probability, the entropy of the distribution it was
sampled from, and DeepConf's confidence in its place, which is minus the mean log-probability of the
`TOP_TOKENS` likeliest tokens (arXiv 2508.15260). All three are in nats and of the model's own
distribution: raw logits, before temperature and top-p, without the two stop ids.

The statistics summarise the tokens so far. A recent one is over the last `WINDOW` tokens, or over
all while there are fewer; the window is the same for every interval between readings. Before the
first token, all statistics are 0.

Imports neither torch nor vLLM.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

TOP_TOKENS = 20
WINDOW = 32
LOWEST = 5

FIGURES = ("log-probability", "entropy", "confidence")
"""Of one token, in this order."""

STATISTICS = (
    *("mean log-probability", "lowest log-probability", "recent mean log-probability"),
    *("recent lowest log-probability", f"mean of the {LOWEST} lowest log-probabilities"),
    *("mean entropy", "recent mean entropy", "highest entropy"),
    *("mean confidence", "recent mean confidence", "recent lowest confidence", "log of the depth"),
)
"""The statistics, in the order in which probes read them."""

DEFINITION = f"window={WINDOW} top={TOP_TOKENS} lowest={LOWEST}"
"""Everything their values depend on. A probe's configuration names it, so its digest covers it."""

Figures = npt.NDArray[np.float32]
"""The `FIGURES` (F) of consecutive tokens (T), shape (T, F)."""


class TokenStatistics:
    """The statistics of one rollout. Each token takes constant time, however many came before."""

    def __init__(self) -> None:
        self._count = 0  # tokens that the sums and extremes below cover
        self._total_F = np.zeros(len(FIGURES))
        self._lowest = np.empty(0, np.float32)  # log-probabilities, in any order
        self._highest = 0.0  # entropy

    def read(self, figures_TF: Figures) -> npt.NDArray[np.float32]:
        """The `STATISTICS` after the given tokens, shape (12,); NaN if a figure is NaN.

        Args:
            figures_TF: of all tokens so far; at least as many as in the call before.
        """
        self._add(figures_TF[self._count :])
        if not self._count:
            return np.zeros(len(STATISTICS), np.float32)
        mean = (self._total_F / self._count).tolist()
        if any(map(math.isnan, mean)):
            return np.full(len(STATISTICS), np.nan, np.float32)
        recent_TF, lowest = figures_TF[-WINDOW:], self._lowest.tolist()
        recent_mean = (np.add.reduce(recent_TF, dtype=np.float64) / len(recent_TF)).tolist()
        recent_least = np.minimum.reduce(recent_TF).tolist()
        return np.array(
            (
                *(mean[0], min(lowest), recent_mean[0], recent_least[0], sum(lowest) / len(lowest)),
                *(mean[1], recent_mean[1], self._highest),
                *(mean[2], recent_mean[2], recent_least[2], math.log(self._count)),
            ),
            np.float32,
        )

    def _add(self, new_TF: Figures) -> None:
        if not len(new_TF):
            return
        self._count += len(new_TF)
        self._total_F += np.add.reduce(new_TF, dtype=np.float64)
        self._highest = max(self._highest, float(new_TF[:, 1].max()))
        lowest = np.concatenate((self._lowest, new_TF[:, 0]))
        if len(lowest) > LOWEST:
            lowest.partition(LOWEST - 1)
        self._lowest = lowest[:LOWEST]
