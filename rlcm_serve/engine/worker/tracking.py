"""The common part of both processors: track requests, take readings, force stops.

Imports neither torch nor vLLM: the front end also loads the V2 processor, to validate requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcm_serve.core import Signal
from rlcm_serve.engine.worker.exit_control import ControlSpec, ExitControl
from rlcm_serve.engine.worker.readings import Readings
from rlcm_serve.engine.worker.signals import ENTROPY
from rlcm_serve.engine.worker.token_signals import (
    Distributions,
    SampledRow,
    SampledTokens,
    count_sampled,
)

if TYPE_CHECKING:
    import torch

    from rlcm_serve.engine.worker.probed_model import LatestStates

_SIGNALS = tuple(Signal)


class Tracked:
    """A request under exit control, with its latest state and, if recorded, its tokens."""

    def __init__(self, control: ExitControl) -> None:
        self.control = control
        self.row = -1
        self.states_NH: torch.Tensor | None = None
        records = control.spec.tracks_tokens
        self.tokens = SampledTokens(control.readings, control.spec.interval) if records else None

    def leave_batch(self) -> None:
        """Keeps only its own row of the states, in case the request returns to the batch."""
        if self.states_NH is not None:
            self.states_NH, self.row = self.states_NH[self.row : self.row + 1].clone(), 0
        if self.tokens is not None:
            self.tokens.leave_batch()

    def reading(self, probe: float) -> tuple[float, tuple[float, ...]]:
        """The confidence and, if tokens are recorded, all signals in the order of `Signal`."""
        if self.tokens is None:
            return probe, ()
        signals = (probe, *self.tokens.figures.read())
        return signals[_SIGNALS.index(Signal(self.control.spec.reads))], signals

    def end_thinking(self, tokens: int, probe: float) -> None:
        """Reports c_end after `tokens` tokens; nothing is read from now on."""
        self.control.end(tokens, *self.reading(probe))
        self.states_NH = self.tokens = None


class Tracker:
    """The requests under exit control in one worker, by the slot of their readings."""

    def __init__(self) -> None:
        self._by_slot: dict[int, Tracked] = {}

    def follow(self, spec: ControlSpec) -> Tracked:
        """The request with these instructions: new, or back after a preemption."""
        known = self._by_slot.get(spec.slot)
        if known is None or known.control.spec != spec:
            known = Tracked(ExitControl(spec, Readings(spec.table, spec.slot, spec.ticket)))
            self._by_slot[spec.slot] = known
            if spec.tracks_tokens:
                self._forget_finished()
        return known

    def _forget_finished(self) -> None:
        """Frees the distributions of finished requests; each is as large as the vocabulary."""
        for tracked in self._by_slot.values():
            if tracked.tokens is not None and not tracked.control.readings.wanted:
                tracked.tokens.distributions = None


class Step:
    """One step of a batch: visits rows one by one, then takes all due readings together."""

    def __init__(self, latest: LatestStates) -> None:
        self._latest = latest
        self._due: list[tuple[int, Tracked, int]] = []
        self._sampled: list[SampledRow] = []

    def visit(self, tracked: Tracked, row: int, tokens: int, last_token: int | None) -> None:
        """Notes a row that samples token `tokens` + 1; `last_token` is the token before."""
        control = tracked.control
        if not control.thinking:
            return
        if last_token is not None and control.is_end(last_token):
            # c_end is read at the state before the closing token. That state was kept in the step
            # that sampled the token; after a preemption, that may be several steps ago.
            (probe,) = self._latest.confidence([tracked.row], tracked.states_NH)
            tracked.end_thinking(tokens - 1, probe)
            return
        if control.reads_at(tokens):
            self._due.append((row, tracked, tokens))
        if tracked.tokens is not None:
            self._sampled.append(SampledRow(tracked.tokens, row, tokens, last_token))
        tracked.row, tracked.states_NH = row, self._latest.hidden_NH

    def force_stops(self, logits: torch.Tensor) -> None:
        """Takes the due readings; a request that must stop is left with its stop id alone."""
        if self._sampled:
            count_sampled(self._sampled, logits)
        if not self._due:
            return
        probes = self._latest.confidence([row for row, _, _ in self._due])
        for (row, tracked, tokens), probe in zip(self._due, probes, strict=True):
            control = tracked.control
            if control.spec.reads == ENTROPY:
                stop = control.read(tokens, Distributions.of(logits[row : row + 1]).entropy(0))
            else:
                stop = control.read(tokens, *tracked.reading(probe))
            if stop is not None:
                logits[row] = float("-inf")
                logits[row, stop] = 0.0
