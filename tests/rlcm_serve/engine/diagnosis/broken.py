"""Exit processors with a fault, as an incompatible vLLM would cause it."""

from __future__ import annotations

import torch

from rlcm_serve.engine.worker.probed_model import LATEST
from rlcm_serve.engine.worker.processor_v1 import ExitProcessor


class NeverActs(ExitProcessor):
    """As if vLLM did not call it."""

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        return logits


class OtherStates(ExitProcessor):
    """Acts on states that are not those of the rows that sample."""

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        own = LATEST.hidden_NH
        assert own is not None
        LATEST.hidden_NH = self.instead_of(own)
        try:
            return super().apply(logits)
        finally:
            LATEST.hidden_NH = own

    def instead_of(self, states_NH: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class WrongRows(OtherStates):
    """Reads the states of other requests of the batch."""

    def instead_of(self, states_NH: torch.Tensor) -> torch.Tensor:
        return states_NH.roll(1, dims=0)


class OneStepLate(OtherStates):
    """Reads the states of the step before."""

    _before: torch.Tensor | None = None

    def instead_of(self, states_NH: torch.Tensor) -> torch.Tensor:
        before, self._before = self._before, states_NH
        return states_NH if before is None or len(before) != len(states_NH) else before


class ForcesNothing(ExitProcessor):
    """Takes every reading, but what it writes into the logits is lost."""

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        super().apply(logits.clone())
        return logits
