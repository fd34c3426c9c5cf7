"""Counts each sampled token of a rollout, with its figures (`statistics`).

A row of a chunked or resumed prefill samples a token that vLLM discards. So the distribution is
kept until the sampled token shows up as the request's last token. Only then does the token count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import torch

from rlcm_serve.engine.worker.distributions import Distributions
from rlcm_serve.engine.worker.readings.table import Inputs, Readings, note_figures
from rlcm_serve.engine.worker.signals import TokenFigures, TokenSignals, window_of
from rlcm_serve.engine.worker.statistics import FIGURES, TokenStatistics


class SampledTokens:
    """The counted tokens of one rollout, and the distribution of the next one.

    Their figures are in the table of readings. They are summed up when a reading is due.
    """

    __slots__ = ("_signals", "_statistics", "count", "distributions", "readings", "row")

    def __init__(self, readings: Readings, interval: int) -> None:
        self.readings = readings
        self.count = 0
        self.distributions: Distributions | None = None
        self.row = -1  # of `distributions`
        self._statistics = TokenStatistics()
        self._signals = TokenFigures(window_of(interval))

    def leave_batch(self) -> None:
        """Keeps only its own row of the distributions."""
        if self.distributions is not None:
            self.distributions, self.row = self.distributions.only(self.row), 0

    def statistics(self, tokens: int) -> Inputs:
        """The `STATISTICS` after `tokens` tokens, at least as many as in the call before."""
        return self._statistics.read(self.readings.figures(0, tokens))

    def signals(self, tokens: int) -> TokenSignals:
        """The token signals after `tokens` tokens, at least as many as in the call before."""
        self._signals.extend(self.readings.figures(self._signals.count, tokens))
        return self._signals.read()


SampledRow = tuple[SampledTokens, int, int, int | None]
"""A rollout, its row in the batch, its length in tokens, and its last token."""


def count_sampled(
    rows: Sequence[SampledRow], logits_NV: torch.Tensor, raw_NV: torch.Tensor | None
) -> None:
    """Counts the last tokens that are new, and keeps the distributions of the next ones.

    Args:
        rows: of this step's batch.
        logits_NV, raw_NV: see `Distributions.of`.
    """
    _count_new(rows)
    distributions = Distributions.of(logits_NV, [row for _, row, _, _ in rows], raw_NV)
    for at, (tokens, _, _, _) in enumerate(rows):
        tokens.distributions, tokens.row = distributions, at


class _New:
    """Tokens of several rollouts that were sampled from the same distributions."""

    def __init__(self) -> None:
        self.readings: list[Readings] = []
        self.tokens: list[int] = []  # of each rollout, with the new one
        self.rows: list[int] = []  # of the distributions
        self.sampled: list[int] = []

    def add(self, tokens: SampledTokens, length: int, sampled: int) -> None:
        """Adds a rollout of `length` tokens that ends in token `sampled`."""
        self.readings.append(tokens.readings)
        self.tokens.append(length)
        self.rows.append(tokens.row)
        self.sampled.append(sampled)


def _count_new(rows: Sequence[SampledRow]) -> None:
    """Counts tokens together that were sampled in the same step, as nearly all of them are."""
    together: defaultdict[Distributions, _New] = defaultdict(_New)
    for tokens, _, length, last in rows:
        if length == tokens.count:
            continue  # a row of a prefill that was seen before
        if tokens.distributions is None or last is None or length != tokens.count + 1:
            _count_missed(tokens, length)
        else:
            together[tokens.distributions].add(tokens, length, last)
        tokens.count = length
    for distributions, new in together.items():
        figures_NF = distributions.figures(new.rows, new.sampled)
        note_figures(new.readings, new.tokens, figures_NF)


def _count_missed(tokens: SampledTokens, length: int) -> None:
    """Notes that tokens were not observed: what is summed over them is NaN."""
    missed = range(tokens.count + 1, length + 1)
    unknown_NF = np.full((len(missed), len(FIGURES)), np.nan, np.float32)
    note_figures([tokens.readings] * len(missed), missed, unknown_NF)
