"""Of the files of a probe: whatever is wrong with them is said before vLLM starts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from rlcm_serve.engine.weights.probe_files import read_probe
from rlcm_serve.engine.worker.probe import STATE_AND_TOKENS, Probe, ProbeConfig
from rlcm_serve.engine.worker.statistics import STATISTICS
from rlcm_serve.errors import ModelRefused

H, W = 4, 3


def a_probe(columns: int = H, **inputs: Any) -> Probe:
    return Probe(torch.ones(W, columns), torch.ones(W), torch.ones(1, W), torch.ones(1), **inputs)


def test_a_sound_probe_is_read(tmp_path: Path) -> None:
    a_probe().save(tmp_path, 16)
    assert read_probe(tmp_path) == ProbeConfig(H, W, 16)


def test_so_is_one_that_reads_tokens(tmp_path: Path) -> None:
    a_probe(H + len(STATISTICS), inputs=STATE_AND_TOKENS).save(tmp_path, 16)
    assert read_probe(tmp_path) == ProbeConfig(H, W, 16, STATE_AND_TOKENS)


def configure(**values: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        stored = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(stored | values))

    return change


def weigh(**tensors: torch.Tensor | None) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        stored = load_file(folder / "probe.safetensors") | tensors
        kept = {name: tensor for name, tensor in stored.items() if tensor is not None}
        save_file(kept, folder / "probe.safetensors")

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda folder: (folder / "config.json").unlink(), "holds no config.json"),
        (lambda folder: (folder / "config.json").write_text("{"), "config.json is not JSON"),
        (lambda folder: (folder / "config.json").write_text("[]"), "is not a JSON object"),
        (configure(width=0), "width is 0: give a whole number"),
        (configure(hidden_size="4"), "hidden_size is '4'"),
        (configure(checkpoint_interval=None), "checkpoint_interval is None"),
        (configure(hidden_size=5), r"hidden_weight has shape \(3, 4\), but .* asks for \(3, 5\)"),
        (configure(inputs=["attention"]), "reads attention"),
        (lambda folder: (folder / "probe.safetensors").write_text("x"), "not a safetensors file"),
        (weigh(output_bias=None), "has no tensor output_bias"),
        (weigh(hidden_bias=torch.ones(1, W)), r"hidden_bias has shape \(1, 3\)"),
        (weigh(output_weight=torch.ones(1, W, dtype=torch.int8)), "output_weight holds torch.int8"),
        (weigh(output_bias=torch.tensor([math.nan])), "output_bias holds a number that is not fin"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, change: Callable[[Path], None], why: str) -> None:
    a_probe().save(tmp_path, 16)
    change(tmp_path)
    with pytest.raises(ModelRefused, match=why):
        read_probe(tmp_path)
