"""Confidence without a probe: signals from the log-probabilities of the sampled tokens.

They use raw logits, before temperature and top-p, without the two stop ids. The confidence C_i of
token i is minus the mean log-probability of the 20 likeliest tokens in its place (DeepConf, arXiv
2508.15260). The signals are:

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
from collections import deque
from typing import NamedTuple

import numpy as np

from rlcm_serve.core import Signal

ENTROPY = "entropy"
"""Not a signal of a rollout: the entropy of the next token in nats, read by special requests."""

TOP_TOKENS = 20
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
    """Computes the signals of one rollout, token by token."""

    def __init__(self, window: int) -> None:
        self.count = 0
        self._log_prob = 0.0
        self._window: deque[float] = deque(maxlen=window)
        self._sum = 0.0  # over the window
        self._lowest = math.inf

    def add(self, log_prob: float, confidence: float) -> None:
        """Adds the next token, with its log-probability and its C_i."""
        window = self._window
        self.count += 1
        self._log_prob += log_prob
        self._sum += confidence - (window[0] if len(window) == window.maxlen else 0.0)
        window.append(confidence)
        if len(window) == window.maxlen:
            self._lowest = min(self._lowest, self._sum / len(window))

    def lose(self, count: int) -> None:
        """Sets the number of tokens after some were missed; from now on all signals are NaN."""
        self.count = count
        self._log_prob = self._sum = self._lowest = math.nan

    def read(self) -> TokenSignals:
        """The signals so far, rounded to float32 as in the table of readings."""
        if not self.count:
            return NO_SIGNALS
        tail = self._sum / max(len(self._window), 1)
        return TokenSignals(
            _single(math.exp(self._log_prob / self.count)),
            _single(_mapped(min(self._lowest, tail))),
            _single(_mapped(tail)),
        )


def _mapped(confidence: float) -> float:
    return confidence / (confidence + HALFWAY)


def _single(value: float) -> float:
    return float(np.float32(value))
