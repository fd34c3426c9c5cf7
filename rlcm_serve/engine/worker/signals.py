"""Confidence without a probe: signals made of how likely a model found the tokens that it drew.

All of raw logits, before temperature and top-p, without the two stop ids. With C_i the confidence
of token i, minus the mean log-probability of the 20 tokens that were likeliest in its place
(DeepConf, arXiv 2508.15260):

- sequence probability: exp of the mean log-probability of the reasoning tokens so far;
- tail: the mean of C_i over the last window of `GROUP_INTERVALS` intervals;
- lowest group: the lowest such mean of any window so far.

While there are fewer tokens than a window has, all of them are the one window. The last two are
mapped to (0, 1) by c / (c + 10), which keeps their order. Before the first token nothing speaks
for an answer: all three are 0.

Imports neither torch nor vLLM.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

import numpy as np

from rlcm_serve.core import Signal

ENTROPY = "entropy"
"""What a request reads that is no signal of a rollout: how open the next token is, in nats."""

TOP_TOKENS = 20
GROUP_INTERVALS = 4
HALFWAY = 10.0
"""The token confidence that is mapped to one half, nats."""


class TokenSignals(NamedTuple):
    """The three signals after some token; in the order of `Signal`, where they follow the probe."""

    sequence_probability: float
    lowest_group: float
    tail: float


NO_SIGNALS = TokenSignals(0.0, 0.0, 0.0)


def window_of(interval: int) -> int:
    """Tokens of a group, if readings are `interval` tokens apart."""
    return GROUP_INTERVALS * interval


def definition(signal: Signal, interval: int) -> str:
    """A signal with all that its value depends on; part of the fingerprint of what is certified."""
    if signal is Signal.PROBE:
        raise ValueError("a probe is told by its digest")
    if signal is Signal.SEQUENCE_PROBABILITY:
        return f"signal:{signal}"
    return f"signal:{signal} top={TOP_TOKENS} window={window_of(interval)} half={HALFWAY:g}"


class TokenFigures:
    """The tokens of one rollout, added one by one, and the signals they make."""

    def __init__(self, window: int) -> None:
        self.count = 0
        self._log_prob = 0.0
        self._window: deque[float] = deque(maxlen=window)
        self._sum = 0.0  # over the window
        self._lowest = math.inf

    def add(self, log_prob: float, confidence: float) -> None:
        """The next token: the log-probability it had, and its C_i."""
        window = self._window
        self.count += 1
        self._log_prob += log_prob
        self._sum += confidence - (window[0] if len(window) == window.maxlen else 0.0)
        window.append(confidence)
        if len(window) == window.maxlen:
            self._lowest = min(self._lowest, self._sum / len(window))

    def lose(self, count: int) -> None:
        """There are `count` tokens, and not all of them are known: from now on signals are NaN."""
        self.count = count
        self._log_prob = self._sum = self._lowest = math.nan

    def read(self) -> TokenSignals:
        """The signals so far, as exactly as a table of readings keeps them (float32)."""
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
