"""Versions are checked before anything else, and the pinned TRL has the methods we override."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import pytest
from trl import GRPOTrainer

from training.errors import TrainingRefused
from training.rl.trainer.requirements import check_versions

SIGNATURES: Mapping[str, tuple[str, ...]] = {
    "_calculate_rewards": ("self", "inputs", "prompts", "completions", "completion_ids_list"),
    "_compute_loss": ("self", "model", "inputs"),
    "_generate_and_score_completions": ("self", "inputs"),
    "_generate_single_turn": (
        *("self", "prompt_ids", "images", "multimodal_fields", "num_generations"),
        "has_tool_images",
    ),
    "_load_optimizer_and_scheduler": ("self", "checkpoint"),
    "_save_checkpoint": ("self", "model", "trial"),
    "training_step": ("self", "model", "inputs", "num_items_in_batch"),
}
"""The methods of `GRPOTrainer` that the trainer overrides, with all their parameters."""

LOGP_PARAMETERS = ("self", "model", "input_ids", "attention_mask", "logits_to_keep")
"""The first parameters of `_get_per_token_logps_and_entropies`; others are passed through."""


def parameters(name: str) -> tuple[str, ...]:
    return tuple(inspect.signature(getattr(GRPOTrainer, name)).parameters)


def test_what_is_installed_is_what_is_pinned() -> None:
    check_versions()
    assert {name: parameters(name) for name in SIGNATURES} == SIGNATURES
    logp = parameters("_get_per_token_logps_and_entropies")
    assert logp[: len(LOGP_PARAMETERS)] == LOGP_PARAMETERS


@pytest.mark.parametrize(
    ("installed", "message"),
    [
        ({"trl": "1.16.1", "vllm": "0.31.0"}, "trl is 1.16.1.*'trl==1.16.0'"),
        ({"trl": "1.16.0", "vllm": "0.32.0"}, "vllm is 0.32.0.*'vllm==0.31.0'"),
        ({"trl": "1.16.0", "vllm": "0.310.0"}, "vllm is 0.310.0"),
        ({"trl": "1.16.0"}, "vllm is not installed"),
        ({"vllm": "0.31.0"}, "trl is not installed"),
    ],
)
def test_another_version_is_refused(installed: dict[str, str], message: str) -> None:
    with pytest.raises(TrainingRefused, match=message):
        check_versions(installed)


@pytest.mark.parametrize("found", ["0.31.0", "0.31.1+cpu"])
def test_a_build_of_a_pinned_version_will_do(found: str) -> None:
    check_versions({"trl": "1.16.0", "vllm": found})
