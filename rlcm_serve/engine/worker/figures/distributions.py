"""The next token's distribution in each row of a batch: one pass over the logits.

The tensors stay on their device, and a step copies three numbers per row to the host. On a CPU, the
pass goes over few rows at a time, so that what it works on stays in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rlcm_serve.engine.worker.readings.table import Places, note_figures
from rlcm_serve.engine.worker.statistics import TOP_TOKENS, Figures

Floats = npt.NDArray[np.float32]

_CACHED = 2**20
"""Logits that a CPU handles at a time: 4 MiB, and as much again for each of two results."""

_SMALL = 2**7
"""A vocabulary is small if so many rows are handled at a time."""

_BLOCK = 64
"""Neighbouring tokens, of which only the likeliest is compared at first; see `_likeliest`."""

_IMPOSSIBLE = -1e4
"""Log-probabilities from here on are those of a token that is never sampled, as exp is then 0."""


class Distributions:
    """The next token's distribution in some rows of a batch (N), over the vocabulary (V).

    Args:
        logits_NV: raw logits, less any number in each row, which nobody overwrites.
        figures_NF: the logarithm of the normaliser, the entropy, and DeepConf's confidence.
    """

    def __init__(self, logits_NV: torch.Tensor, figures_NF: torch.Tensor) -> None:
        self._logits_NV, self._figures_NF = logits_NV, figures_NF

    @classmethod
    def of(
        cls, logits_NV: torch.Tensor, rows: Sequence[int], raw_NV: torch.Tensor | None = None
    ) -> Distributions:
        """The distributions in `rows` of float32 logits at temperature 1.

        Args:
            logits_NV: overwritten by the sampler later.
            rows: which of them.
            raw_NV: the model's own logits. If they have another type, the sampler works on a copy
                of them, so they need not be copied once more.
        """
        if list(rows) != list(range(len(logits_NV))):
            at = torch.tensor(rows, device=logits_NV.device)
            logits_NV, raw_NV = logits_NV[at], None if raw_NV is None else raw_NV[at]
        if _are_few(logits_NV):
            return cls(*_of_few(logits_NV))
        overwritten = raw_NV is None or raw_NV.data_ptr() == logits_NV.data_ptr()
        kept_NV = logits_NV.clone() if raw_NV is None or overwritten else raw_NV
        return cls(kept_NV, _figures(logits_NV))

    def note(
        self, places: Places, lengths: Sequence[int], rows: Sequence[int], sampled: Sequence[int]
    ) -> None:
        """Notes the figures of sampled tokens in the table of readings.

        Args:
            places: of the requests that sampled them.
            lengths: tokens of each request, with the new one.
            rows: in which the tokens were sampled.
            sampled: the tokens.
        """
        if (own := self._on_host()) is None:
            note_figures(places, lengths, self.figures(rows, sampled))
        else:
            _loops().note(*own, np.array((lengths, rows, sampled)), *places)

    def figures(self, rows: Sequence[int], sampled: Sequence[int]) -> Figures:
        """The figures of the tokens sampled in these rows, shape (len(rows), 3); on the host."""
        at = np.array((rows, sampled))
        found: Figures
        if (own := self._on_host()) is not None:
            logits_NV, figures_NF = own
            found = figures_NF[at[0]]
            found[:, 0] = logits_NV[at[0], at[1]] - found[:, 0]
            return found
        there = torch.from_numpy(at).to(self._logits_NV.device)
        there_NF = self._figures_NF[there[0]]
        there_NF[:, 0] = self._logits_NV[there[0], there[1]].float() - there_NF[:, 0]
        found = there_NF.cpu().numpy()
        return found

    def _on_host(self) -> tuple[Floats, Floats] | None:
        """The logits and the figures in numpy, if they are float32 on the host."""
        if self._logits_NV.device.type != "cpu" or self._logits_NV.dtype is not torch.float32:
            return None
        return self._logits_NV.numpy(), self._figures_NF.numpy()

    def entropy(self, row: int) -> float:
        """The entropy of one row, in nats."""
        return float(self._figures_NF[row, 1])

    def only(self, row: int, count: int) -> Distributions:
        """A copy of `count` rows from `row` on, so that the memory of the others can be freed."""
        own = slice(row, row + count)
        return Distributions(self._logits_NV[own].clone(), self._figures_NF[own].clone())


def _are_few(logits_NV: torch.Tensor) -> bool:
    on_host, vocabulary = logits_NV.device.type == "cpu", logits_NV.shape[1]
    return on_host and max(vocabulary * _SMALL, logits_NV.numel()) <= _CACHED


def prepare(device: torch.device) -> None:
    """Compiles what the distributions on this device need, so that no request waits for it."""
    if device.type == "cpu":
        _loops()


@cache
def _loops() -> Any:
    """The compiled loops; loaded when needed, because the front end imports this module too."""
    return import_module("rlcm_serve.engine.worker.figures.few_logits")


def _of_few(logits_NV: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The logits less the highest of their row, and their figures, for batches of a small model."""
    relative_NV = torch.empty_like(logits_NV, memory_format=torch.contiguous_format)
    figures_NF = logits_NV.new_empty((len(logits_NV), 3))
    top = min(TOP_TOKENS, logits_NV.shape[1] - 2)
    written = relative_NV.numpy(), figures_NF.numpy()
    _loops().summarise(logits_NV.contiguous().numpy(), top, _IMPOSSIBLE, *written)
    return relative_NV, figures_NF


def _figures(logits_NV: torch.Tensor) -> torch.Tensor:
    """The figures of float32 logits."""
    rows, vocabulary = logits_NV.shape
    at_once = rows
    if logits_NV.device.type == "cpu":
        at_once = min(rows, max(1, _CACHED // vocabulary))
    found_NF = logits_NV.new_empty((rows, 3))
    scratch_2NV = logits_NV.new_empty((2, at_once, vocabulary))
    for start in range(0, rows, at_once):
        part = slice(start, min(start + at_once, rows))
        own_2NV = scratch_2NV[:, : part.stop - start]
        _figures_at_once(logits_NV[part], found_NF[part], own_2NV)
    return found_NF


def _figures_at_once(
    logits_NV: torch.Tensor, found_NF: torch.Tensor, scratch_2NV: torch.Tensor
) -> None:
    """Writes into `found_NF`, and works in `scratch_2NV`: new memory costs more than the work."""
    top_NK = _likeliest(logits_NV, min(TOP_TOKENS, logits_NV.shape[1] - 2))
    highest_N = top_NK.amax(dim=1)
    relative_NV = torch.sub(logits_NV, highest_N[:, None], out=scratch_2NV[0])
    # An impossible token adds nothing to the entropy: the limit of p log p is 0.
    relative_NV.clamp_(min=_IMPOSSIBLE)
    chance_NV = torch.softmax(relative_NV, dim=1, out=scratch_2NV[1])
    log_N = chance_NV.amax(dim=1).log_().neg_()  # of the normaliser: the highest odds are 1
    torch.add(log_N, highest_N, out=found_NF[:, 0])
    torch.sub(log_N, torch.linalg.vecdot(chance_NV, relative_NV), out=found_NF[:, 1])
    torch.sub(found_NF[:, 0], top_NK.mean(dim=1), out=found_NF[:, 2])


def _likeliest(logits_NV: torch.Tensor, top: int) -> torch.Tensor:
    """The `top` highest logits of each row, in any order.

    The highest logits lie in the blocks with the highest maxima, so one cheap pass over the
    vocabulary leaves few candidates.
    """
    size = logits_NV.shape[1]
    blocks = size // _BLOCK
    if blocks > 4 * top:
        blocks_NBV = torch.unflatten(logits_NV[:, : blocks * _BLOCK], 1, (blocks, _BLOCK))
        chosen = blocks_NBV.amax(dim=2).topk(top, dim=1, sorted=False).indices
        candidates = blocks_NBV.gather(1, chosen[:, :, None].expand(-1, -1, _BLOCK)).flatten(1)
        logits_NV = torch.cat((candidates, logits_NV[:, blocks * _BLOCK :]), dim=1)
    if logits_NV.device.type == "cpu":  # there, a sort of short rows is faster than a selection
        return torch.from_numpy(np.sort(logits_NV.numpy(), axis=1)[:, -top:])
    return logits_NV.topk(top, dim=1, sorted=False).values
