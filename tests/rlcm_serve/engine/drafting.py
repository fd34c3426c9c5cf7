"""A model that drafts for the embedded one, and how vLLM is told of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from rlcm_serve.engine.model_files import EMBEDDED_MODEL

NOISE = 0.3
"""Of each weight's own deviation: so much that about a third of the drafts is refused."""


def save_draft_model(folder: Path, noise: float = NOISE) -> Path:
    """The embedded model with noise on its weights, which often says what that one says."""
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(EMBEDDED_MODEL / name, folder)
    rng = torch.Generator().manual_seed(3)
    weights = load_file(EMBEDDED_MODEL / "model.safetensors")
    for name, weight in weights.items():
        if weight.dim() == 2:
            step = torch.randn(weight.shape, generator=rng, dtype=weight.dtype)
            weights[name] = weight + noise * weight.std() * step
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def with_drafts(model: Path, count: int = 3, **settings: Any) -> tuple[str, str]:
    """vLLM's arguments for `count` drafts of this model in each step."""
    config = {"method": "draft_model", "model": str(model), "num_speculative_tokens": count}
    return "--speculative-config", json.dumps(config | settings)
