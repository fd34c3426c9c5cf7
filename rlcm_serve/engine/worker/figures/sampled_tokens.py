"""Counts each sampled token of a rollout, with its figures (`statistics`).

A row of a chunked or resumed prefill samples a token that vLLM discards, and so may a row after
drafts. So distributions are kept until the sampled token shows up as the request's last token. Only
then does the token count. The figures of drafts are noted at once, because a reading after them
needs them; a refused draft's are overwritten before they count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from copy import copy
from itertools import accumulate
from typing import NamedTuple

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
        """The counted tokens; the next one is sampled from its first latest distribution."""
        return self._counted if self.latest is None else self.latest.lengths[self.row] - 1

    def leave_batch(self) -> None:
        """Keeps only its own rows of the distributions."""
        if self.latest is not None:
            self.latest.is_whole = False
            self.latest, self.row = self.latest.only(self.row), 0

    def forget(self) -> None:
        """Frees the distribution; the next token will not be known."""
        self._counted, self.latest = self.count, None

    def statistics(self, tokens: int, kept: int) -> Inputs:
        """The `STATISTICS` after `tokens` tokens, of which `kept` are no drafts.

        At least as many are kept as in the call before.
        """
        figures_TF = self.readings.figures(0, tokens)
        settled = self._statistics.read(figures_TF[:kept])
        return settled if tokens <= kept else copy(self._statistics).read(figures_TF)

    def signals(self, tokens: int, kept: int) -> TokenSignals:
        """The token signals after `tokens` tokens, of which `kept` are no drafts.

        At least as many are kept as in the call before.
        """
        self._signals.extend(self.readings.figures(self._signals.count, min(tokens, kept)))
        if tokens <= kept:
            return self._signals.read()
        signals = copy(self._signals)
        signals.extend(self.readings.figures(kept, tokens))
        return signals.read()


class SampledRow(NamedTuple):
    """A rollout in a step's batch.

    Attributes:
        tokens: the rollout's counted tokens.
        row: its row in the batch; a row for each draft follows.
        length: its tokens, without drafts.
        last: the last of them.
        drafts: the tokens after it that are verified in this step.
    """

    tokens: SampledTokens
    row: int
    length: int
    last: int | None
    drafts: Sequence[int] = ()


class SampledBatch:
    """Rollouts of one table of readings that sample in the same step, and its distributions.

    It stays the same from step to step while the batch does, so that a step changes little.

    Args:
        members: the rollouts.
        counted: their tokens before the new one.
        distributions: of the new tokens, member by member.
        spans: rows of each member: one, and one more for each draft.

    Attributes:
        lengths: the tokens of each, with the new one.
        is_whole: whether the next step may be of the same batch: no member has left, and there are
            no drafts.
    """

    def __init__(
        self,
        members: list[SampledTokens],
        counted: Sequence[int],
        distributions: Distributions,
        spans: Sequence[int],
    ) -> None:
        self.members, self.distributions, self._spans = members, distributions, spans
        self.lengths = [count + 1 for count in counted]
        self._rows = list(accumulate(spans, initial=0))
        self.is_whole = self._rows[-1] == len(members)
        self._places = Places.of([one.readings for one in members])

    def is_of(self, members: list[SampledTokens], lengths: list[int]) -> bool:
        """Whether these rollouts, in this order, have now these lengths."""
        return self.is_whole and self.members == members and self.lengths == lengths

    def only(self, member: int) -> SampledBatch:
        """A copy of one member's rows, so that the memory of the others can be freed."""
        span = self._spans[member]
        own = self.distributions.only(self._rows[member], span)
        return SampledBatch([self.members[member]], [self.lengths[member] - 1], own, [span])

    def samples(self, member: int, length: int) -> bool:
        """Whether a row of this member samples its token number `length`."""
        return 0 <= length - self.lengths[member] < self._spans[member]

    def count(self, sampled: Sequence[int | None]) -> None:
        """Notes the figures of the tokens that all members sampled, without drafts."""
        tokens = [token or 0 for token in sampled]
        self.distributions.note(self._places, self.lengths, range(len(tokens)), tokens)

    def count_one(self, member: int, length: int, sampled: Sequence[int]) -> None:
        """Notes the figures of tokens of one member.

        Args:
            member: its number.
            length: tokens of the member, with the first of these.
            sampled: consecutive tokens.
        """
        places = Places.of([self.members[member].readings] * len(sampled))
        row = self._rows[member] + length - self.lengths[member]
        lengths, rows = (range(start, start + len(sampled)) for start in (length, row))
        self.distributions.note(places, lengths, rows, sampled)

    def go_on(self, distributions: Distributions) -> None:
        """The members sample one more token each."""
        self.distributions = distributions
        self.lengths = [length + 1 for length in self.lengths]


def count_sampled(
    rows: Sequence[SampledRow], logits_NV: torch.Tensor, raw_NV: torch.Tensor | None
) -> None:
    """Counts the last tokens that are new, and keeps the distributions of the next ones.

    Args:
        rows: of this step's batch.
        logits_NV, raw_NV: see `Distributions.of`.
    """
    for own in _by_table(rows):
        _count_in_one_table(own, logits_NV, raw_NV)


def _by_table(rows: Sequence[SampledRow]) -> Iterable[Sequence[SampledRow]]:
    """The rows of each table of readings; each front end of the engine has one."""
    table = rows[0].tokens.readings.table
    if all(row.tokens.readings.table is table for row in rows):
        return (rows,)
    tables: dict[int, list[SampledRow]] = defaultdict(list)
    for row in rows:
        tables[id(row.tokens.readings.table)].append(row)
    return tables.values()


def _count_in_one_table(
    rows: Sequence[SampledRow], logits_NV: torch.Tensor, raw_NV: torch.Tensor | None
) -> None:
    members, first, lengths, last, drafts = map(list, zip(*rows, strict=True))
    before = members[0].latest
    # In nearly all steps, the batch is that of the step before.
    if before is not None and before.is_of(members, lengths) and not any(drafts):
        before.count(last)
        before.go_on(Distributions.of(logits_NV, first, raw_NV))
        return
    _count_one_by_one(rows)
    spans = [1 + len(own) for own in drafts]
    every = [row + at for row, span in zip(first, spans, strict=True) for at in range(span)]
    batch = SampledBatch(members, lengths, Distributions.of(logits_NV, every, raw_NV), spans)
    for member, tokens in enumerate(members):
        tokens.latest, tokens.row = batch, member
        if drafts[member]:
            batch.count_one(member, lengths[member] + 1, drafts[member])


def _count_one_by_one(rows: Sequence[SampledRow]) -> None:
    """Counts tokens where requests have joined, left or moved, or were not observed."""
    for tokens, _, length, last, _ in rows:
        if length == tokens.count:
            continue  # a row of a prefill that was seen before, or every draft was refused
        if tokens.latest is None or last is None or not tokens.latest.samples(tokens.row, length):
            _count_missed(tokens, length)
        else:
            tokens.latest.count_one(tokens.row, length, [last])


def _count_missed(tokens: SampledTokens, length: int) -> None:
    """Notes that tokens were not observed: what is summed over them is NaN."""
    missed = range(tokens.count + 1, length + 1)
    unknown_NF = np.full((len(missed), len(FIGURES)), np.nan, np.float32)
    note_figures(Places.of([tokens.readings] * len(missed)), missed, unknown_NF)
