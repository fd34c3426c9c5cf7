"""Forward passes with less padding: rollouts of similar length share a pass.

TRL pads all rollouts of a step to the longest one. The mask removes that padding from loss and
gradient, so computing it is a waste. Here each pass is only as wide as its longest rollout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

_OF_PROMPTS = ("prompt_ids", "prompt_mask")
_OF_COMPLETIONS = (
    *("completion_ids", "completion_mask"),
    *("old_per_token_logps", "sampling_per_token_logps", "importance_sampling_ratio"),
)


class Pass(NamedTuple):
    """Some rows of a padded batch.

    Attributes:
        rows: indices of the rows.
        ids, mask: their token ids and mask, without columns that are padding in all of them.
        width: number of completion columns.
    """

    rows: Tensor
    ids: Tensor
    mask: Tensor
    width: int


def passes(ids_RT: Tensor, mask_RT: Tensor, width: int, size: int) -> Iterator[Pass]:
    """All rows, `size` in each pass, in order of length.

    Args:
        ids_RT: prompts, padded on the left, and completions, padded on the right.
        mask_RT: 0 for padding.
        width: columns of the completions.
        size: rows in a pass.
    """
    prompts = ids_RT.shape[1] - width
    order = mask_RT[:, prompts:].sum(1).argsort(stable=True)
    for rows in torch.split(order, size):
        used = mask_RT[rows].any(0).nonzero()[:, 0]
        first, last = int(used[0]), max(int(used[-1]) + 1, prompts + 1)
        yield Pass(rows, ids_RT[rows, first:last], mask_RT[rows, first:last], last - prompts)


def trimmed(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """TRL's inputs for one policy pass, without columns that are padding in all rows."""
    prompt = int(inputs["prompt_mask"].sum(1).max())
    width = inputs["completion_mask"].shape[1]
    completion = max(1, int(inputs["completion_mask"].sum(1).max()))
    kept = dict(inputs)
    for name in _OF_PROMPTS:
        kept[name] = inputs[name][:, inputs[name].shape[1] - prompt :]
    for name in _OF_COMPLETIONS:
        if name in inputs and inputs[name].shape[1] == width:  # a ratio may be per sequence
            kept[name] = inputs[name][:, :completion]
    return kept


def dealt_by_length(parts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Redistributes the rows by length, short ones first; number and size of the parts stay."""
    lengths = torch.cat([part["completion_mask"].sum(1) for part in parts])
    sizes = [len(part["completion_mask"]) for part in parts]
    hands = torch.split(lengths.argsort(stable=True), sizes)
    dealt: list[dict[str, Any]] = [{} for _ in parts]
    for name, value in parts[0].items():
        is_of_rows = isinstance(value, Tensor) and value.dim() > 0
        whole = torch.cat([part[name] for part in parts]) if is_of_rows else value
        for own, hand in zip(dealt, hands, strict=True):
            own[name] = whole[hand] if is_of_rows else value
    return dealt


@contextmanager
def without_dropout(model: nn.Module) -> Iterator[None]:
    """Lets the dropout layers of adapters pass everything, as a served model does."""
    layers = [one for one in model.modules() if isinstance(one, nn.Dropout) and one.training]
    for layer in layers:
        layer.eval()
    try:
        yield
    finally:
        for layer in layers:
            layer.train()
