"""The common part of both processors: track requests, take readings, force stops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from rlcm_serve.core import Signal
from rlcm_serve.engine.worker.exit_control import ControlSpec, ExitControl
from rlcm_serve.engine.worker.figures.distributions import Distributions
from rlcm_serve.engine.worker.figures.sampled_tokens import SampledRow, SampledTokens, count_sampled
from rlcm_serve.engine.worker.readings.table import Inputs, Readings, TableAddress
from rlcm_serve.engine.worker.signals import ENTROPY
from rlcm_serve.engine.worker.statistics import STATISTICS

if TYPE_CHECKING:
    from rlcm_serve.engine.worker.probed_model import LatestStates

_SIGNALS = tuple(Signal)
_UNKNOWN = np.full(len(STATISTICS), np.nan, np.float32)


class Tracked:
    """A request under exit control, with its latest states and, if tracked, its tokens.

    Attributes:
        row: of the state at its last token, in `states_NH`; that at each draft follows.
        length: its reasoning tokens at that state.
        drafts: the tokens after it that were verified with it; the first of them may be kept.
    """

    __slots__ = ("control", "drafts", "length", "row", "states_NH", "tokens")

    def __init__(self, control: ExitControl) -> None:
        self.control = control
        self.row, self.length = -1, 0
        self.drafts: Sequence[int] = ()
        self.states_NH: torch.Tensor | None = None
        tracks = control.spec.tracks_tokens
        self.tokens = SampledTokens(control.readings, control.spec.interval) if tracks else None

    def leave_batch(self) -> None:
        """Keeps only its own rows of the states, in case the request returns to the batch."""
        if self.states_NH is not None:
            own = slice(self.row, self.row + 1 + len(self.drafts))
            self.states_NH, self.row = self.states_NH[own].clone(), 0
        if self.tokens is not None:
            self.tokens.leave_batch()

    def closed_at(self, tokens: int, last_token: int) -> int | None:
        """The reasoning tokens before the closing token, if it is among the tokens kept since.

        Args:
            tokens: all tokens so far.
            last_token: the last of them; those before it were drafts.
        """
        if not self.drafts:
            return tokens - 1 if self.control.is_end(last_token) else None
        accepted = self.drafts[: max(0, tokens - 1 - self.length)]
        for at, token in enumerate((*accepted, last_token)):
            if self.control.is_end(token):
                return tokens - 1 - len(accepted) + at
        return None

    def row_at(self, tokens: int) -> int:
        """The row of the state after `tokens` tokens, which was kept."""
        return self.row + min(max(0, tokens - self.length), len(self.drafts))

    def statistics(self, tokens: int, kept: int) -> Inputs:
        """The `STATISTICS` after `tokens` tokens, `kept` without drafts; NaN if not known."""
        if self.tokens is not None:
            return self.tokens.statistics(tokens, kept)
        given = self.control.spec.statistics
        return np.array(given, np.float32) if given else _UNKNOWN

    def signals(self, tokens: int, kept: int, probe: float) -> tuple[float, ...]:
        """All signals in the order of `Signal`; empty if they are not recorded."""
        if self.tokens is None or not self.control.spec.table.signals:
            return ()
        return (probe, *self.tokens.signals(tokens, kept))

    def end_thinking(self, measured: Measured) -> None:
        """Reports c_end; nothing is read from now on."""
        self.control.end(*measured)
        self.states_NH = self.tokens = None


class Due(NamedTuple):
    """A reading that is due.

    Attributes:
        tracked: the request.
        tokens: its reasoning tokens so far, with drafts.
        row: of the state after them.
        kept: those tokens that are no drafts.
    """

    tracked: Tracked
    tokens: int
    row: int
    kept: int


class Measured(NamedTuple):
    """A reading, as `ExitControl` takes it."""

    tokens: int
    confidence: float
    signals: tuple[float, ...] = ()
    inputs: Inputs | None = None


def measure(
    due: Sequence[Due], latest: LatestStates, hidden_NH: torch.Tensor | None = None
) -> list[Measured]:
    """Takes readings together, from the latest states or from earlier states that were kept."""
    rows, statistics_NS, inputs_NI = [one.row for one in due], None, None
    records = any(one.tracked.control.spec.table.inputs for one in due)
    if latest.reads_tokens or records:
        statistics_NS = np.stack([one.tracked.statistics(one.tokens, one.kept) for one in due])
    probes = latest.confidence(rows, hidden_NH, statistics_NS)
    if records and statistics_NS is not None:
        inputs_NI = np.hstack((latest.states(rows, hidden_NH), statistics_NS))
    return [
        _measured(one, probe, None if inputs_NI is None else inputs_NI[at])
        for at, (one, probe) in enumerate(zip(due, probes, strict=True))
    ]


def _measured(due: Due, probe: float, inputs: Inputs | None) -> Measured:
    signals = due.tracked.signals(due.tokens, due.kept, probe)
    reads = due.tracked.control.spec.reads
    confidence = signals[_SIGNALS.index(Signal(reads))] if signals else probe
    return Measured(due.tokens, confidence, signals, inputs)


class Tracker:
    """The requests under exit control in one worker, by the table and slot of their readings.

    Each front end of the engine has a table of its own.
    """

    def __init__(self) -> None:
        self._by_slot: dict[tuple[TableAddress, int], Tracked] = {}

    def follow(self, spec: ControlSpec) -> Tracked:
        """The request with these instructions: new, or back after a preemption."""
        known = self._by_slot.get((spec.table, spec.slot))
        if known is None or known.control.spec != spec:
            known = Tracked(ExitControl(spec, Readings(spec.table, spec.slot, spec.ticket)))
            self._by_slot[spec.table, spec.slot] = known
            if spec.tracks_tokens:
                self._forget_finished()
        return known

    def _forget_finished(self) -> None:
        """Frees the distributions of finished requests; each is as large as the vocabulary."""
        for tracked in self._by_slot.values():
            if tracked.tokens is not None and not tracked.control.readings.wanted:
                tracked.tokens.forget()


class Step:
    """One step of a batch: visits rows one by one, then takes all due readings together."""

    def __init__(self, latest: LatestStates) -> None:
        self._latest = latest
        self._due: list[Due] = []
        self._prompts: list[Due] = []
        self._sampled: list[SampledRow] = []

    def visit(
        self,
        tracked: Tracked,
        row: int,
        tokens: int,
        last_token: int | None,
        drafts: Sequence[int] = (),
    ) -> None:
        """Notes the rows in which a request samples.

        Args:
            tracked: the request.
            row: the row that samples token `tokens` + 1; the row at each draft follows.
            tokens: the request's tokens so far, without drafts.
            last_token: the last of them.
            drafts: the tokens after it that are verified in this step.
        """
        control = tracked.control
        if not control.thinking:
            return
        if last_token is not None and (closed := tracked.closed_at(tokens, last_token)) is not None:
            # c_end is read at the state before the closing token. That state was kept in the step
            # that sampled the token; after a preemption, that may be several steps ago.
            due = Due(tracked, closed, tracked.row_at(closed), closed)
            (measured,) = measure([due], self._latest, tracked.states_NH)
            tracked.end_thinking(measured)
            return
        if tracked.drafts:
            control.keep(tokens)
        tracked.row, tracked.states_NH = row, self._latest.hidden_NH
        tracked.length, tracked.drafts = tokens, drafts
        thinking = drafts and list(takewhile(lambda token: not control.is_end(token), drafts))
        if tokens == 0 and control.spec.table.prompt:
            self._prompts.append(Due(tracked, tokens, row, tokens))
        if control.reads_at(tokens):
            self._due.append(Due(tracked, tokens, row, tokens))
        if thinking:
            for at in range(1, 1 + len(thinking)):
                if control.reads_at(tokens + at):
                    self._due.append(Due(tracked, tokens + at, row + at, tokens))
        if tracked.tokens is not None:
            self._sampled.append(SampledRow(tracked.tokens, row, tokens, last_token, thinking))

    def force_stops(self, logits: torch.Tensor) -> None:
        """Takes the due readings; a request that must stop is left with its stop id alone."""
        if self._sampled:
            count_sampled(self._sampled, logits, self._latest.logits_NV)
        if self._prompts:
            self._note_prompts()
        if not self._due:
            return
        stopped: set[Tracked] = set()
        for due, measured in zip(self._due, measure(self._due, self._latest), strict=True):
            control, row = due.tracked.control, due.row
            if due.tracked in stopped:
                continue  # a row at a draft after the exit
            if control.spec.reads == ENTROPY:
                entropy = Distributions.of(logits, [row]).entropy(0)
                stop = control.read(due.tokens, entropy)
            else:
                stop = control.read(*measured)
            if stop is not None:
                logits[row] = float("-inf")
                logits[row, stop] = 0.0
                stopped.add(due.tracked)

    def _note_prompts(self) -> None:
        """Reports the states at which first tokens are sampled.

        A chunk of a prefill ends at another token of the prompt; the last chunk's state replaces
        its.
        """
        states_NH = self._latest.states([one.row for one in self._prompts])
        for one, state_H in zip(self._prompts, states_NH, strict=True):
            one.tracked.control.readings.note_prompt(state_H)
