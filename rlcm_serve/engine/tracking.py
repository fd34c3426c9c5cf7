"""What both model runners' processors do alike: follow requests, read what is due, force stops.

Imports neither torch nor vLLM: the front end loads the V2 processor too, to validate requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcm_serve.engine.control import ControlSpec, ExitControl
from rlcm_serve.engine.readings import Readings

if TYPE_CHECKING:
    import torch

    from rlcm_serve.engine.probed_model import LatestStates


class Tracked:
    """A controlled request: its exit control, and where its latest state is."""

    def __init__(self, control: ExitControl) -> None:
        self.control = control
        self.row = -1
        self.states_NH: torch.Tensor | None = None

    def leave_batch(self) -> None:
        """Keeps its own row of the states alone: it may return, but may also have finished."""
        if self.states_NH is not None:
            self.states_NH, self.row = self.states_NH[self.row : self.row + 1].clone(), 0


class Tracker:
    """The controlled requests of one worker, by the slot of their readings."""

    def __init__(self) -> None:
        self._by_slot: dict[int, Tracked] = {}

    def follow(self, spec: ControlSpec) -> Tracked:
        """The request of this spec: a new one, or one that is back after a preemption."""
        known = self._by_slot.get(spec.slot)
        if known is None or known.control.spec != spec:
            known = Tracked(ExitControl(spec, Readings(spec.table, spec.slot, spec.ticket)))
            self._by_slot[spec.slot] = known
        return known


class Step:
    """One step of a batch: rows are visited one by one, then those that are due read together."""

    def __init__(self, latest: LatestStates) -> None:
        self._latest = latest
        self._due: list[tuple[int, ExitControl, int]] = []

    def visit(self, tracked: Tracked, row: int, tokens: int, last_token: int | None) -> None:
        """Notes a request whose row samples token `tokens` + 1, having sampled `last_token`."""
        control = tracked.control
        if not control.thinking:
            return
        if last_token is not None and control.is_end(last_token):
            # c_end is the state before that token: kept from the step that sampled it, which a
            # preemption may have put several steps back.
            control.end(tokens - 1, *self._latest.confidence([tracked.row], tracked.states_NH))
            tracked.states_NH = None
            return
        if control.reads_at(tokens):
            self._due.append((row, control, tokens))
        tracked.row, tracked.states_NH = row, self._latest.hidden_NH

    def force_stops(self, logits: torch.Tensor) -> None:
        """Takes the readings that are due; one that stops a request leaves it a single id."""
        if not self._due:
            return
        confidences = self._latest.confidence([row for row, _, _ in self._due])
        for (row, control, tokens), confidence in zip(self._due, confidences, strict=True):
            stop = control.read(tokens, confidence)
            if stop is not None:
                logits[row] = float("-inf")
                logits[row, stop] = 0.0
