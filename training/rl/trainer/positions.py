"""Token positions that start at the prompt's first token and skip the padding before it.

TRL pads prompts on the left and passes no positions, so the model counts the padding too.
Rotary embeddings are relative, but their rounding depends on the offset: in float32, single
log-probabilities differed from the engine's (no padding) by 1e-4. Without the offset: by 1e-5.
"""

from __future__ import annotations

from typing import Any

from torch import nn


def count_from_the_prompt(backbone: nn.Module) -> None:
    """Adds positions to every call of the backbone that has a mask but no positions."""
    backbone.register_forward_pre_hook(_with_positions, with_kwargs=True)


def _with_positions(
    backbone: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    mask = kwargs.get("attention_mask")
    if mask is not None and mask.dim() == 2 and kwargs.get("position_ids") is None:
        kwargs = {**kwargs, "position_ids": (mask.cumsum(1) - 1).clamp(min=0)}
    return args, kwargs
