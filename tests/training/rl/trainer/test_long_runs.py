"""Runs that are evaluated on the way, extended, and exported at one of their checkpoints."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from rlcm_serve.engine.model_files import ModelFiles
from rlcm_serve.engine.worker.probe import PROBE_FOLDER, Probe
from tests.training.rl.small import SMALL, small_trainer
from training.errors import TrainingRefused
from training.rl.checkpoint import export_checkpoint
from training.rl.folder import last_checkpoint, remember
from training.rl.settings import DataSettings, EvaluationSettings

pytestmark = pytest.mark.training


def test_a_policy_is_watched_on_held_out_problems(tmp_path: Path) -> None:
    source = str(tmp_path / "problems.jsonl")
    evaluation = EvaluationSettings(source, limit=2, every=1, rollouts=2, temperature=0.5)
    trainer = small_trainer(tmp_path, steps=2, evaluation=evaluation)
    seen: list[tuple[bool, float, int]] = []
    generate = trainer._generate_single_turn

    def watched(prompts: list[list[int]], *rest: Any) -> Any:
        temperature = trainer.generation_kwargs["temperature"]
        seen.append((trainer.model.training, temperature, len(prompts)))
        return generate(prompts, *rest)

    trainer._generate_single_turn = watched  # type: ignore[method-assign]  # to look on
    trainer.train()
    assert seen == [(True, 1.4, 8), (False, 0.5, 4), (True, 1.4, 8), (False, 0.5, 4)]
    found = [entry for entry in trainer.state.log_history if "eval_accuracy" in entry]
    assert [entry["step"] for entry in found] == [1, 2]
    best = max(found, key=lambda entry: entry["eval_accuracy"])
    assert trainer.state.best_global_step == best["step"]
    assert Path(trainer.state.best_model_checkpoint).name == f"checkpoint-{best['step']}"
    assert "time/forced answers" in trainer.state.log_history[0]
    assert "eval_probe/bce" not in found[0]


def test_a_finished_run_is_extended_and_its_checkpoint_exported(tmp_path: Path) -> None:
    remember(replace(SMALL, data=DataSettings(str(tmp_path / "problems.jsonl"))), tmp_path)
    small_trainer(tmp_path, steps=1).train()
    longer = small_trainer(tmp_path, steps=2)
    longer.train(resume_from_checkpoint=str(last_checkpoint(tmp_path / "checkpoints")))
    assert [entry["step"] for entry in longer.state.log_history if "reward" in entry] == [1, 2]

    out = tmp_path / "exported"
    assert export_checkpoint(tmp_path, "last", out) == 2
    assert ModelFiles.read(out).probe is not None
    stored = load_file(out / "model.safetensors")
    own = dict(longer.model.named_parameters())
    assert stored.keys() <= own.keys()
    assert all(torch.equal(stored[name], own[name]) for name in stored)
    assert longer.probe is not None
    hidden = torch.randn(5, longer.probe.inner.in_features)
    torch.testing.assert_close(
        Probe.load(out / PROBE_FOLDER).confidence(hidden), longer.probe.confidence(hidden)
    )
    with pytest.raises(TrainingRefused, match="is not empty"):
        export_checkpoint(tmp_path, "last", out)
    with pytest.raises(TrainingRefused, match="its steps are 1, 2"):
        export_checkpoint(tmp_path, "7", tmp_path / "other")
