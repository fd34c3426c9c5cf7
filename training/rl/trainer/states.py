"""The policy's final-layer states at chosen tokens, taken from a forward pass that runs anyway."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class CutStates:
    """Listens to a model's backbone and keeps, while it reads, the states at the cuts.

    Args:
        backbone: what the head's input comes out of, after the final norm, as `last_hidden_state`.
    """

    def __init__(self, backbone: nn.Module) -> None:
        self._cuts: Sequence[Sequence[int]] | None = None
        self._width = 0
        self._rows: list[Tensor] = []
        backbone.register_forward_hook(self._keep)

    @contextmanager
    def reading(self, cuts: Sequence[Sequence[int]], width: int) -> Iterator[list[Tensor]]:
        """The states of every rollout, once all of them have passed through the backbone.

        Args:
            cuts: of each rollout (in the order of the passes), how many of its tokens come before
                a cut; 0 is the end of the prompt.
            width: the last positions of each pass that are the padded completion.

        Yields:
            A list that is filled meanwhile: float32 of shape (cuts, hidden) for each rollout.
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
            at = torch.tensor(self._cuts[len(self._rows)], device=hidden_TH.device)
            self._rows.append(hidden_TH[at + first - 1].float())
