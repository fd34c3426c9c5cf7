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
    """The statistics of one rollout. A token takes constant time, however many came before it."""

    def __init__(self) -> None:
        self.count = 0
        self._total_F = np.zeros(len(FIGURES))
        self._lowest = np.empty(0, np.float32)  # log-probabilities, in any order
        self._highest = 0.0  # entropy
        self._recent_TF = np.empty((0, len(FIGURES)), np.float32)

    def extend(self, figures_TF: Figures) -> None:
        """Adds the next tokens. After a figure that is NaN, all statistics are."""
        if not len(figures_TF):
            return
        self.count += len(figures_TF)
        self._total_F += figures_TF.sum(axis=0, dtype=np.float64)
        self._highest = max(self._highest, float(figures_TF[:, 1].max()))
        lowest = np.concatenate((self._lowest, figures_TF[:, 0]))
        if len(lowest) > LOWEST:
            lowest.partition(LOWEST - 1)
        self._lowest = lowest[:LOWEST]
        self._recent_TF = np.concatenate((self._recent_TF, figures_TF))[-WINDOW:]

    def read(self) -> npt.NDArray[np.float32]:
        """The `STATISTICS` so far, shape (12,)."""
        if not self.count:
            return np.zeros(len(STATISTICS), np.float32)
        if np.isnan(self._total_F).any():
            return np.full(len(STATISTICS), np.nan, np.float32)
        mean, recent = (self._total_F / self.count).tolist(), self._recent_TF
        recent_mean = (recent.sum(axis=0, dtype=np.float64) / len(recent)).tolist()
        recent_least = recent.min(axis=0).tolist()
        return np.array(
            (
                *(mean[0], self._lowest.min(), recent_mean[0], recent_least[0]),
                self._lowest.mean(dtype=np.float64),
                *(mean[1], recent_mean[1], self._highest),
                *(mean[2], recent_mean[2], recent_least[2], math.log(self.count)),
            ),
            np.float32,
        )
