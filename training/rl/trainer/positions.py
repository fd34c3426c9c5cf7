"""Positions that count from the prompt's first token, whatever stands before it as padding.

TRL pads prompts on the left and leaves positions to the model, which counts the padding too.
Rotary embeddings mean the same at any offset, but round otherwise: in float32 that alone moved
single log-probabilities by 1e-4 against the engine's, which has no padding; with this, by 1e-5.
"""

from __future__ import annotations

from typing import Any

from torch import nn


def count_from_the_prompt(backbone: nn.Module) -> None:
    """Has the backbone be given positions, wherever it is given a mask and none."""
    backbone.register_forward_pre_hook(_with_positions, with_kwargs=True)


def _with_positions(
    backbone: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    mask = kwargs.get("attention_mask")
    if mask is not None and mask.dim() == 2 and kwargs.get("position_ids") is None:
        kwargs = {**kwargs, "position_ids": (mask.cumsum(1) - 1).clamp(min=0)}
    return args, kwargs
