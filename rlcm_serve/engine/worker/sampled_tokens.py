"""Counts each sampled token of a rollout, with its figures (`statistics`).

A row of a chunked or resumed prefill samples a token that vLLM discards. So the distribution is
kept until the sampled token shows up as the request's last token. Only then does the token count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from rlcm_serve.engine.worker.distributions import Distributions
from rlcm_serve.engine.worker.readings import Inputs, Readings, TableAddress, note_figures
from rlcm_serve.engine.worker.signals import TokenFigures, TokenSignals, window_of
from rlcm_serve.engine.worker.statistics import FIGURES, TokenStatistics


class SampledTokens:
    """The counted tokens of one rollout, and the distribution of the next one.

    Their figures are in the table of readings. They are summed up when a reading is due.
    """

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
        self._statistics.extend(self.readings.figures(self._statistics.count, tokens))
        return self._statistics.read()

    def signals(self, tokens: int) -> TokenSignals:
        """The token signals after `tokens` tokens, at least as many as in the call before."""
        self._signals.extend(self.readings.figures(self._signals.count, tokens))
        return self._signals.read()


class SampledRow(NamedTuple):
    """A rollout of `length` tokens that ends in token `last`, and its row in the batch."""

    tokens: SampledTokens
    row: int
    length: int
    last: int | None


def count_sampled(
    rows: Sequence[SampledRow], logits_NV: torch.Tensor, raw_NV: torch.Tensor | None
) -> None:
    """Counts the last tokens that are new, and keeps the distributions of the next ones.

    Args:
        rows: of this step's batch.
        logits_NV, raw_NV: see `Distributions.of`.
    """
    _count_new(one for one in rows if one.length != one.tokens.count)
    distributions = Distributions.of(logits_NV, [one.row for one in rows], raw_NV)
    for row, one in enumerate(rows):
        one.tokens.distributions, one.tokens.row = distributions, row


class _New(NamedTuple):
    """Tokens of several rollouts that were sampled from the same distributions."""

    requests: list[tuple[int, int, int]]  # slot, ticket, tokens
    rows: list[int]
    sampled: list[int]


def _count_new(new: Iterable[SampledRow]) -> None:
    """Counts tokens together that were sampled in the same step, as nearly all of them are."""
    together: dict[tuple[Distributions, TableAddress], _New] = {}
    for tokens, _, length, last in new:
        readings, distributions = tokens.readings, tokens.distributions
        if distributions is None or last is None or length != tokens.count + 1:
            _count_missed(tokens, length)
            continue
        tokens.count = length
        own = together.setdefault((distributions, readings.address), _New([], [], []))
        own.requests.append((readings.slot, readings.ticket, length))
        own.rows.append(tokens.row)
        own.sampled.append(last)
    for (distributions, address), own in together.items():
        note_figures(address, own.requests, distributions.figures(own.rows, own.sampled))


def _count_missed(tokens: SampledTokens, length: int) -> None:
    """Notes that tokens were not observed: what is summed over them is NaN."""
    readings = tokens.readings
    missed = range(tokens.count + 1, length + 1)
    unknown_NF = np.full((len(missed), len(FIGURES)), np.nan, np.float32)
    note_figures(
        readings.address, [(readings.slot, readings.ticket, at) for at in missed], unknown_NF
    )
    tokens.count = length
