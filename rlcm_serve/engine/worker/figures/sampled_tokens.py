"""Counts each sampled token of a rollout, with its figures (`statistics`).

A row of a chunked or resumed prefill samples a token that vLLM discards. So the distribution is
kept until the sampled token shows up as the request's last token. Only then does the token count.
"""

from __future__ import annotations

from collections.abc import Sequence

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

    __slots__ = ("_counted", "_signals", "_statistics", "latest", "readings", "row")

    def __init__(self, readings: Readings, interval: int) -> None:
        self.readings = readings
        self.latest: SampledBatch | None = None
        self.row = -1  # of `latest`
        self._counted = 0  # where there is no `latest`
        self._statistics = TokenStatistics()
        self._signals = TokenFigures(window_of(interval))

    @property
    def count(self) -> int:
        """The counted tokens; the next one is sampled from the latest distribution."""
        return self._counted if self.latest is None else self.latest.lengths[self.row] - 1

    def leave_batch(self) -> None:
        """Keeps only its own row of the distributions."""
        if self.latest is not None:
            self.latest.is_whole = False
            own = self.latest.distributions.only(self.row)
            self.latest, self.row = SampledBatch([self], [self.count], own), 0

    def forget(self) -> None:
        """Frees the distribution; the next token will not be known."""
        self._counted, self.latest = self.count, None

    def statistics(self, tokens: int) -> Inputs:
        """The `STATISTICS` after `tokens` tokens, at least as many as in the call before."""
        return self._statistics.read(self.readings.figures(0, tokens))

    def signals(self, tokens: int) -> TokenSignals:
        """The token signals after `tokens` tokens, at least as many as in the call before."""
        self._signals.extend(self.readings.figures(self._signals.count, tokens))
        return self._signals.read()


class SampledBatch:
    """Rollouts that sample a token in the same step, row by row, and its distributions.

    It stays the same from step to step while the batch does, so that a step changes little.

    Args:
        members: the rollouts.
        counted: their tokens before the new one.
        distributions: of the new tokens.

    Attributes:
        lengths: the tokens of each, with the new one.
        is_whole: false once a member has left; then the next step is of another batch.
    """

    def __init__(
        self, members: list[SampledTokens], counted: Sequence[int], distributions: Distributions
    ) -> None:
        self.members, self.distributions = members, distributions
        self.lengths = [count + 1 for count in counted]
        self.is_whole = True
        self._places = Places.of([one.readings for one in members])

    def is_of(self, members: list[SampledTokens], lengths: list[int]) -> bool:
        """Whether these rollouts, in this order, have now these lengths."""
        return self.is_whole and self.members == members and self.lengths == lengths

    def count(self, sampled: Sequence[int | None]) -> None:
        """Notes the figures of the tokens that all members sampled."""
        tokens = [token or 0 for token in sampled]
        self.distributions.note(self._places, self.lengths, range(len(tokens)), tokens)

    def count_one(self, row: int, sampled: int) -> None:
        """Notes the figures of the token that one member sampled."""
        place = Places.of([self.members[row].readings])
        self.distributions.note(place, [self.lengths[row]], [row], [sampled])

    def go_on(self, distributions: Distributions) -> None:
        """The members sample one more token each."""
        self.distributions = distributions
        self.lengths = [length + 1 for length in self.lengths]


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
    members, at, lengths, last = map(list, zip(*rows, strict=True))
    before = members[0].latest
    # In nearly all steps, the batch is that of the step before.
    if before is not None and before.is_of(members, lengths):
        before.count(last)
        before.go_on(Distributions.of(logits_NV, at, raw_NV))
        return
    _count_one_by_one(rows)
    batch = SampledBatch(members, lengths, Distributions.of(logits_NV, at, raw_NV))
    for row, tokens in enumerate(members):
        tokens.latest, tokens.row = batch, row


def _count_one_by_one(rows: Sequence[SampledRow]) -> None:
    """Counts tokens where requests have joined, left or moved, or were not observed."""
    for tokens, _, length, last in rows:
        if length == tokens.count:
            continue  # a row of a prefill that was seen before
        if tokens.latest is None or last is None or length != tokens.count + 1:
            _count_missed(tokens, length)
        else:
            tokens.latest.count_one(tokens.row, last)


def _count_missed(tokens: SampledTokens, length: int) -> None:
    """Notes that tokens were not observed: what is summed over them is NaN."""
    missed = range(tokens.count + 1, length + 1)
    unknown_NF = np.full((len(missed), len(FIGURES)), np.nan, np.float32)
    note_figures(Places.of([tokens.readings] * len(missed)), missed, unknown_NF)
