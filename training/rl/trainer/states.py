"""The policy's final-layer states at chosen tokens, read during an existing forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class CutStates:
    """A hook on a model's backbone that keeps the states at the cuts inside `reading`.

    Args:
        backbone: the module whose `last_hidden_state`, after the final norm, the head reads.
        averaged: how many of the last states before a cut are averaged.
    """

    def __init__(self, backbone: nn.Module, averaged: int = 1) -> None:
        self._averaged = averaged
        self._cuts: Sequence[Sequence[int]] | None = None
        self._width = 0
        self._rows: list[Tensor] = []
        backbone.register_forward_hook(self._keep)

    @contextmanager
    def reading(self, cuts: Sequence[Sequence[int]], width: int) -> Iterator[list[Tensor]]:
        """Collects the states of every rollout that passes through the backbone.

        Args:
            cuts: for each rollout, in the order of the passes, the number of completion tokens
                before each cut; 0 is the end of the prompt.
            width: number of columns of the padded completion, the last ones of each pass.

        Yields:
            A list that the passes fill: float32 of shape (cuts, hidden) for each rollout.
        """
        self._cuts, self._width, self._rows = cuts, width, []
        try:
            yield self._rows
        finally:
            self._cuts = None

    def _keep(self, backbone: nn.Module, inputs: Any, output: Any) -> None:
        if self._cuts is None:
            return
        hidden_RTH = output.last_hidden_state.detach()
        first = hidden_RTH.shape[1] - self._width
        for hidden_TH in hidden_RTH:
            at_B = torch.tensor(self._cuts[len(self._rows)], device=hidden_TH.device)
            self._rows.append(states_before(hidden_TH, at_B + first, self._averaged))


def states_before(hidden_TH: Tensor, at_B: Tensor, averaged: int) -> Tensor:
    """The mean of the last `averaged` states before each position; float32, shape (B, hidden)."""
    back_K = torch.arange(1, averaged + 1, device=hidden_TH.device)
    at_BK = (at_B[:, None] - back_K).clamp(min=0)
    return hidden_TH[at_BK].float().mean(1)
