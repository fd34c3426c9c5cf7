"""Before and after training: what is refused, what is gone on with, what is passed to TRL."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.training.rl.small import SMALL, small_run
from training.errors import TrainingRefused
from training.rl.arguments import trl_arguments
from training.rl.run import _remember, last_checkpoint
from training.rl.settings import LoraSettings, PolicySettings, RolloutSettings, RunSettings


def test_the_policy_loss_is_grpos_without_kl(tmp_path: Path) -> None:
    chosen = trl_arguments(RunSettings(steps=3), tmp_path, ranks=4, sequence=9000)
    assert (chosen["loss_type"], chosen["beta"], chosen["scale_rewards"]) == ("grpo", 0.0, "group")
    assert chosen["vllm_importance_sampling_mode"] == "token_truncate"
    assert chosen["per_device_train_batch_size"] * chosen["gradient_accumulation_steps"] == 192 / 4
    assert chosen["vllm_max_model_length"] == 9000


def test_rollouts_that_cannot_be_shared_out_are_refused(tmp_path: Path) -> None:
    settings = replace(SMALL, policy=PolicySettings(micro_batch=3))
    with pytest.raises(TrainingRefused, match="2 prompts x 4 rollouts are 8, which 1 processes"):
        trl_arguments(settings, tmp_path, ranks=1, sequence=100)


def test_what_has_a_place_of_its_own_is_not_set_twice(tmp_path: Path) -> None:
    settings = replace(SMALL, trainer={"beta": 0.1, "top_k": 5, "reward_weights": [1]})
    with pytest.raises(TrainingRefused, match="sets beta, reward_weights, which"):
        trl_arguments(settings, tmp_path, ranks=1, sequence=100)


def test_what_the_model_has_no_room_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingRefused, match="do not fit into the model's 2048 tokens"):
        small_run(tmp_path, rollouts=RolloutSettings(prompts=2, per_prompt=4, max_tokens=2000))


def test_the_engine_has_room_for_a_forced_answer_at_the_end(tmp_path: Path) -> None:
    forced, plain = small_run(tmp_path), small_run(tmp_path, method="grpo")
    suffix = len(forced.recipe.thinking.suffix) + SMALL.budgets.answer_tokens
    assert forced.sequence - plain.sequence == suffix > SMALL.budgets.answer_tokens


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    for step in (2, 4, 10):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    return tmp_path


def test_the_newest_checkpoint_is_the_one_of_the_last_step(checkpoints: Path) -> None:
    assert last_checkpoint(checkpoints) == checkpoints / "checkpoint-10"


@pytest.mark.parametrize("left", [None, "", '{"global_step": 1'])
def test_one_that_was_half_written_does_not_count(checkpoints: Path, left: str | None) -> None:
    state = checkpoints / "checkpoint-10" / "trainer_state.json"
    state.unlink()
    if left is not None:
        state.write_text(left)
    assert last_checkpoint(checkpoints) == checkpoints / "checkpoint-4"


def test_nothing_to_go_on_from_is_none(tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path / "none") is None


def test_a_run_goes_on_with_its_own_settings_only(tmp_path: Path) -> None:
    _remember(SMALL, tmp_path)
    _remember(SMALL, tmp_path)
    with pytest.raises(TrainingRefused, match=r"other settings \(steps, lora\)"):
        _remember(replace(SMALL, steps=9, lora=LoraSettings()), tmp_path)
