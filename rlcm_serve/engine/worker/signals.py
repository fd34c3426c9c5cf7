"""Confidence without a probe: signals from the log-probabilities of the sampled tokens.

They are made from the figures of each token (`rlcm_serve.engine.worker.statistics`); C_i is the
confidence of token i there (DeepConf, arXiv 2508.15260). The signals are:

- sequence probability: exp of the mean log-probability of the reasoning tokens so far;
- tail: the mean of C_i over the last window of `GROUP_INTERVALS` intervals;
- lowest group: the lowest such mean of any window so far.

As long as there are fewer tokens than a window holds, all of them form one window. The last two
signals are mapped to (0, 1) by c / (c + 10), which keeps their order. Before the first token, all
three are 0.

Imports neither torch nor vLLM.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rlcm_serve.core import Signal
from rlcm_serve.engine.worker.statistics import TOP_TOKENS, Figures

ENTROPY = "entropy"
"""Not a signal of a rollout: the entropy of the next token in nats, read by special requests."""

GROUP_INTERVALS = 4
HALFWAY = 10.0
"""The token confidence, in nats, that is mapped to 0.5."""


class TokenSignals(NamedTuple):
    """The three signals after some token, in the order of `Signal` after the probe."""

    sequence_probability: float
    lowest_group: float
    tail: float


NO_SIGNALS = TokenSignals(0.0, 0.0, 0.0)


def window_of(interval: int) -> int:
    """Tokens in one group if readings are `interval` tokens apart."""
    return GROUP_INTERVALS * interval


def definition(signal: Signal, interval: int) -> str:
    """A signal with everything its value depends on; part of a certificate's fingerprint."""
    if signal is Signal.PROBE:
        raise ValueError("a probe is identified by its digest, not by a definition")
    if signal is Signal.SEQUENCE_PROBABILITY:
        return f"signal:{signal}"
    return f"signal:{signal} top={TOP_TOKENS} window={window_of(interval)} half={HALFWAY:g}"


class TokenFigures:
    """Computes the signals of one rollout. A token takes constant time."""

    def __init__(self, window: int) -> None:
        self.count = 0
        self._window = window
        self._log_prob = 0.0
        self._confidence: npt.NDArray[np.float64] = np.empty(
            0
        )  # of the last tokens, at most a window
        self._lowest = math.inf

    def extend(self, figures_TF: Figures) -> None:
        """Adds the next tokens. After a figure that is NaN, all signals are."""
        if not len(figures_TF):
            return
        self.count += len(figures_TF)
        self._log_prob += float(figures_TF[:, 0].sum(dtype=np.float64))
        before, window = len(self._confidence), self._window
        confidence = np.concatenate((self._confidence, figures_TF[:, 2]), dtype=np.float64)
        sums = np.concatenate(((0.0,), confidence.cumsum()))
        first = max(before + 1, window)  # a group ends at each new token, once it is long enough
        ends = sums[first:]
        if len(ends):
            groups = ends - sums[first - window :][: len(ends)]
            self._lowest = min(self._lowest, float(groups.min()) / window)
        self._confidence = confidence[-window:]

    def read(self) -> TokenSignals:
        """The signals so far, rounded to float32 as in the table of readings."""
        if not self.count:
            return NO_SIGNALS
        if math.isnan(self._log_prob):
            return TokenSignals(math.nan, math.nan, math.nan)
        tail = float(self._confidence.mean())
        return TokenSignals(
            _single(math.exp(self._log_prob / self.count)),
            _single(_mapped(min(self._lowest, tail))),
            _single(_mapped(tail)),
        )


def _mapped(confidence: float) -> float:
    return confidence / (confidence + HALFWAY)


def _single(value: float) -> float:
    return float(np.float32(value))
