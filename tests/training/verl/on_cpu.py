"""veRL's FSDP engine on a CPU, without its processes and its sharding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from tensordict import TensorDict
from torch import Tensor
from transformers import AutoModelForCausalLM
from verl.utils import tensordict_utils
from verl.workers.engine.fsdp.transformer_impl import FSDPEngine

from training.rl.inputs import RunInputs
from training.verl.engine import StatesEngine


def cpu_engine(inputs: RunInputs) -> Any:
    """The engine around the run's model, without a device mesh."""
    engine: Any = StatesEngine.__new__(StatesEngine)
    model = AutoModelForCausalLM.from_pretrained(inputs.files.folder, dtype=torch.float32).eval()
    with patch.object(FSDPEngine, "_build_module", lambda self: model):
        engine.module = engine._build_module()
    engine.use_ulysses_sp, engine.pad_to_length = False, False
    engine.engine_config = SimpleNamespace(entropy_checkpointing=False)
    return engine


def nested(rows: Sequence[Sequence[int]]) -> Tensor:
    """Rows of ids as the jagged tensors of veRL."""
    return torch.nested.as_nested_tensor([torch.tensor(own) for own in rows], layout=torch.jagged)


def with_settings(table: TensorDict, settings: Mapping[str, Any]) -> TensorDict:
    """The table with entries that hold for all its rows."""
    tensordict_utils.assign_non_tensor(table, **settings)
    return table
