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
from tests.training.rl.small import SMALL, small_run, small_trainer
from training.errors import TrainingRefused
from training.rl.checkpoint import export_checkpoint
from training.rl.folder import last_checkpoint, remember
from training.rl.settings import DataSettings, EvaluationSettings
from training.rl.trainer.trainer import RLCMTrainer

pytestmark = pytest.mark.training


def test_a_policy_is_watched_on_held_out_problems(tmp_path: Path) -> None:
    source = tmp_path / "held-out.jsonl"
    source.write_text('{"problem": "2 + 3?", "answer": "5"}\n{"problem": "1?", "answer": "1"}\n')
    evaluation = EvaluationSettings(str(source), limit=2, every=1, rollouts=2, temperature=0.5)
    trainer = small_trainer(tmp_path, steps=2, evaluation=evaluation)
    seen: list[tuple[bool, float, int]] = []
    generate = trainer._generate_single_turn

    def watched(prompts: list[list[int]], *rest: Any) -> Any:
        temperature = trainer.vllm_generation.temperature
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
    assert not any(name.startswith("eval_sampling/") for name in found[0]), "nothing is weighted"
    assert trainer.vllm_importance_sampling_correction


def problems_of_each_step(trainer: RLCMTrainer, resume_from: Path | None = None) -> list[set[str]]:
    """Trains, and says which problems each of its steps had."""
    seen: list[set[str]] = []
    score = trainer._generate_and_score_completions

    def watched(inputs: list[dict[str, Any]]) -> dict[str, Any]:
        seen.append({str(row["prompt"]) for row in inputs})
        return score(inputs)

    trainer._generate_and_score_completions = watched  # type: ignore[method-assign]  # to look on
    trainer.train(resume_from_checkpoint=resume_from and str(resume_from))
    return seen


def test_a_stopped_run_continues_with_the_problems_it_would_have_had(tmp_path: Path) -> None:
    """There are 5 problems and 2 in a step: an epoch has 2 steps, and leaves out one problem."""
    changes: dict[str, Any] = {"method": "grpo", "steps": 5, "save_steps": 3}
    changes["data"] = DataSettings(str(tmp_path / "problems.jsonl"), limit=5)
    whole = problems_of_each_step(small_trainer(tmp_path, **changes))
    assert len(set(map(frozenset, whole))) > 2, "each epoch has an order of its own"
    stopped = tmp_path / "checkpoints" / "checkpoint-3"
    assert problems_of_each_step(small_trainer(tmp_path, **changes), stopped) == whole[3:]


def test_a_finished_run_is_extended_and_its_checkpoint_exported(tmp_path: Path) -> None:
    falling = replace(SMALL.policy, schedule="linear")
    begun = small_run(tmp_path, steps=1, policy=falling)
    remember(begun.settings, begun.digests, tmp_path)
    small_trainer(tmp_path, steps=1, policy=falling).train()
    longer = small_trainer(tmp_path, steps=2, policy=falling)
    longer.train(resume_from_checkpoint=str(last_checkpoint(tmp_path / "checkpoints")))
    logged = [entry for entry in longer.state.log_history if "reward" in entry]
    assert [entry["step"] for entry in logged] == [1, 2]
    assert [entry["learning_rate"] for entry in logged] == [1e-3, pytest.approx(0.5e-3)]

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
