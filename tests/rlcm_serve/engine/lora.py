"""Tiny LoRA adapters for the embedded model, as PEFT writes them."""

from __future__ import annotations

from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from rlcm_serve.engine.model_files import EMBEDDED_MODEL

TARGETS = ["q_proj", "v_proj", "down_proj"]


def write_adapter(folder: Path, seed: int = 0, rank: int = 4, size: float = 0.05) -> Path:
    """An adapter of random matrices, large enough to change what the model says."""
    model = AutoModelForCausalLM.from_pretrained(EMBEDDED_MODEL, dtype=torch.float32)
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=TARGETS)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        adapted = get_peft_model(model, config)
    draw = torch.Generator().manual_seed(seed)
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:  # PEFT begins with zeros, which change nothing
            weight.data = size * torch.randn(weight.shape, generator=draw)
    adapted.save_pretrained(folder)
    return folder
