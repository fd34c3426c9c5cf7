"""Counts each sampled token of a rollout, with its figures (`statistics`).

A row of a chunked or resumed prefill samples a token that vLLM discards. So the distribution is
kept until the sampled token shows up as the request's last token. Only then does the token count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch

from rlcm_serve.engine.worker.figures.distributions import Distributions
from rlcm_serve.engine.worker.readings.table import Inputs, Places, Readings, note_figures
from rlcm_serve.engine.worker.signals import TokenFigures, TokenSignals, window_of
from rlcm_serve.engine.worker.statistics import FIGURES, TokenStatistics


class SampledTokens:
    """The counted tokens of one rollout, and the distribution of the next one.

    Their figures are in the table of readings. They are summed up when a reading is due.
    """

    __slots__ = ("_signals", "_statistics", "count", "latest", "readings", "row")

    def __init__(self, readings: Readings, interval: int) -> None:
        self.readings = readings
        self.count = 0
        self.latest: SampledStep | None = None
        self.row = -1  # of `latest`
        self._statistics = TokenStatistics()
        self._signals = TokenFigures(window_of(interval))

    def leave_batch(self) -> None:
        """Keeps only its own row of the distributions."""
        if self.latest is not None:
            own = self.latest.distributions.only(self.row)
            self.latest, self.row = SampledStep.of([self], [self.count], own), 0

    def statistics(self, tokens: int) -> Inputs:
        """The `STATISTICS` after `tokens` tokens, at least as many as in the call before."""
        return self._statistics.read(self.readings.figures(0, tokens))

    def signals(self, tokens: int) -> TokenSignals:
        """The token signals after `tokens` tokens, at least as many as in the call before."""
        self._signals.extend(self.readings.figures(self._signals.count, tokens))
        return self._signals.read()


@dataclass(frozen=True, slots=True)
class SampledStep:
    """Rollouts that sampled a token in the same step, row by row, and its distributions.

    Attributes:
        members: the rollouts.
        lengths: their tokens once the new one is counted.
        distributions: of the new tokens.
        places: of the rollouts in the table of readings.
    """

    members: list[SampledTokens]
    lengths: list[int]
    distributions: Distributions
    places: Places

    @classmethod
    def of(
        cls,
        members: list[SampledTokens],
        lengths: Sequence[int],
        distributions: Distributions,
        places: Places | None = None,
    ) -> Self:
        """The step in which rollouts of these lengths sample one more token."""
        places = places or Places.of([one.readings for one in members])
        return cls(members, [length + 1 for length in lengths], distributions, places)


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
    members, lengths = [row[0] for row in rows], [row[2] for row in rows]
    before, last = members[0].latest, [row[3] for row in rows]
    places = None
    if before is not None and before.members == members and before.lengths == lengths:
        # In nearly all steps, the batch is that of the step before.
        places = before.places
        _count(before, members, range(len(rows)), last)
    else:
        _count_one_by_one(rows)
    distributions = Distributions.of(logits_NV, [row[1] for row in rows], raw_NV)
    step = SampledStep.of(members, lengths, distributions, places)
    for at, tokens in enumerate(members):
        tokens.latest, tokens.row = step, at


def _count(
    step: SampledStep,
    members: Sequence[SampledTokens],
    rows: Sequence[int],
    sampled: Sequence[int | None],
) -> None:
    """Counts the tokens that some members sampled in a step, in these rows of it."""
    figures_NF = step.distributions.figures(rows, [token or 0 for token in sampled])
    lengths = [step.lengths[row] for row in rows]
    every = len(rows) == len(step.members)
    places = step.places if every else Places.of([one.readings for one in members])
    note_figures(places, lengths, figures_NF)
    for tokens, length in zip(members, lengths, strict=True):
        tokens.count = length


def _count_one_by_one(rows: Sequence[SampledRow]) -> None:
    """Counts tokens where requests have joined, left or moved, or were not observed."""
    for tokens, _, length, last in rows:
        if length == tokens.count:
            continue  # a row of a prefill that was seen before
        if tokens.latest is None or last is None or length != tokens.count + 1:
            _count_missed(tokens, length)
        else:
            _count(tokens.latest, [tokens], [tokens.row], [last])


def _count_missed(tokens: SampledTokens, length: int) -> None:
    """Notes that tokens were not observed: what is summed over them is NaN."""
    missed = range(tokens.count + 1, length + 1)
    unknown_NF = np.full((len(missed), len(FIGURES)), np.nan, np.float32)
    note_figures(Places.of([tokens.readings] * len(missed)), missed, unknown_NF)
    tokens.count = length
