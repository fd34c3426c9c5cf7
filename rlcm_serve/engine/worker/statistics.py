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
    """The statistics of one rollout. Each token takes constant time, however many came before.

    In plain Python: for the few tokens between two readings, each call of numpy takes longer.
    """

    def __init__(self) -> None:
        self._count = 0  # tokens that the sums and extremes below cover
        self._totals = [0.0] * len(FIGURES)
        self._lowest: list[float] = []  # log-probabilities
        self._highest = 0.0  # entropy

    def read(self, figures_TF: Figures) -> npt.NDArray[np.float32]:
        """The `STATISTICS` after the given tokens, shape (12,); NaN if a figure is NaN.

        Args:
            figures_TF: of all tokens so far; at least as many as in the call before.
        """
        new_FT = figures_TF[self._count :].T.tolist()
        self._add(*new_FT)
        if not self._count:
            return np.zeros(len(STATISTICS), np.float32)
        mean = [total / self._count for total in self._totals]
        if any(map(math.isnan, mean)):
            return np.full(len(STATISTICS), np.nan, np.float32)
        is_window = len(new_FT[0]) == WINDOW
        recent_FT = new_FT if is_window else figures_TF[-WINDOW:].T.tolist()
        recent_mean = [sum(recent_T) / len(recent_T) for recent_T in recent_FT]
        log_prob, _, confidence = map(min, recent_FT)
        lowest = self._lowest
        return np.array(
            (
                *(mean[0], lowest[0], recent_mean[0], log_prob, sum(lowest) / len(lowest)),
                *(mean[1], recent_mean[1], self._highest),
                *(mean[2], recent_mean[2], confidence, math.log(self._count)),
            ),
            np.float32,
        )

    def _add(
        self, log_prob_T: list[float], entropy_T: list[float], confidence_T: list[float]
    ) -> None:
        new_FT = (log_prob_T, entropy_T, confidence_T)
        self._count += len(log_prob_T)
        self._totals = [
            total + sum(new_T) for total, new_T in zip(self._totals, new_FT, strict=True)
        ]
        self._highest = max(self._highest, max(entropy_T, default=0.0))
        self._lowest = sorted(self._lowest + log_prob_T)[:LOWEST]
