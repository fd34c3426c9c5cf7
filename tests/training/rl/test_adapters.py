"""Low-rank adapters in place of all weights."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.training.rl.small import small_run, small_trainer
from training.errors import TrainingRefused
from training.rl.check import check_lora
from training.rl.run import finish
from training.rl.settings import LoraSettings

pytestmark = pytest.mark.training


def test_without_peft_they_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = small_run(tmp_path).files
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(TrainingRefused, match="needs the package 'peft'"):
        check_lora(LoraSettings(), files)


def test_states_and_log_probabilities_are_those_without_dropout(tmp_path: Path) -> None:
    """The engine samples without it; here half of the adapters' inputs are dropped."""
    pytest.importorskip("peft")
    trainer = small_trainer(tmp_path, steps=2, lora=LoraSettings(rank=4, dropout=0.5))
    trainer.train()
    gaps = [
        entry["sampling/sampling_logp_difference/max"]
        for entry in trainer.state.log_history
        if "reward" in entry
    ]
    assert len(gaps) == 2
    assert max(gaps) < 1e-3


def test_they_are_trained_with_a_probe_and_merged(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    lora = LoraSettings(rank=4)
    prepared = small_run(tmp_path, lora=lora)
    trainer = small_trainer(tmp_path, lora=lora)
    trainer.train()
    assert trainer.probe is not None
    assert trainer.state.log_history[0]["probe/bce"] > 0
    finish(trainer, prepared, tmp_path)
    before = load_file(prepared.files.folder / "model.safetensors")
    after = load_file(tmp_path / "model.safetensors")
    assert before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert all("_proj" in name for name in changed)
    assert not list(tmp_path.glob("adapter*"))
