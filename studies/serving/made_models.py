"""Model folders of real shapes without weights: vLLM fills them with random numbers.

Speed depends on shapes, not on what the numbers are. So `load_format=dummy` is enough for it. The
tokenizer is the embedded model's, with ids that the larger vocabulary never reaches, and the probe
has random weights. What such a model says means nothing.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch

from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.engine.worker.probe import PROBE_FOLDER, STATE_AND_TOKENS, Probe
from rlcm_serve.engine.worker.statistics import STATISTICS

INTERVAL = 32
_WIDTH = 256
_TEXT_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def _qwen(hidden: int, inner: int, layers: int, heads: int, keys: int, **other: Any) -> Any:
    """A configuration of Qwen2.5 (Qwen2ForCausalLM) in bfloat16."""
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": keys,
        "vocab_size": 151_936,
        "max_position_embeddings": 32_768,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000.0,
        "tie_word_embeddings": True,
        "use_sliding_window": False,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "torch_dtype": "bfloat16",
    } | other


SHAPES: dict[str, dict[str, Any]] = {
    "0.5B": _qwen(896, 4864, 24, 14, 2),
    "1.5B": _qwen(1536, 8960, 28, 12, 2),
    "7B": _qwen(
        3584, 18_944, 28, 28, 4, vocab_size=152_064, tie_word_embeddings=False, rms_norm_eps=1e-6
    ),
    "vocabulary": _qwen(192, 512, 4, 6, 2, vocab_size=152_064, torch_dtype="float32"),
    "tiny": _qwen(64, 128, 2, 2, 2, vocab_size=1_024, torch_dtype="float32"),
}
"""Qwen2.5's configurations of 0.5, 1.5 and 7 billion parameters, as published; a model as small as
the embedded one with a vocabulary of ordinary size; and one for tests.
"""


def make_model(folder: Path, shape: str) -> Path:
    """Writes a model of this shape, with a probe, and returns its folder."""
    config = SHAPES[shape]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    shutil.copy(EMBEDDED_MODEL / "generation_config.json", folder)
    for name in _TEXT_FILES:
        shutil.copy(EMBEDDED_MODEL / name, folder)
    inputs = config["hidden_size"] + len(STATISTICS)
    draw = torch.Generator().manual_seed(0)
    probe = Probe(
        hidden_weight=torch.randn(_WIDTH, inputs, generator=draw) / inputs**0.5,
        hidden_bias=torch.zeros(_WIDTH),
        output_weight=torch.randn(1, _WIDTH, generator=draw) / _WIDTH**0.5,
        output_bias=torch.zeros(1),
        inputs=STATE_AND_TOKENS,
    )
    probe.save(folder / PROBE_FOLDER, INTERVAL)
    return folder
