"""Versions and TRL methods that training requires, checked before anything is loaded.

The trainer overrides private methods of TRL, which may change in any version.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from training.errors import TrainingRefused

PINNED = {"trl": "1.16.0", "vllm": "0.31"}
"""The tested versions; "0.31" allows every version that begins with it."""

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


def check_versions(installed: Mapping[str, str] | None = None) -> None:
    """Checks that the pinned versions are installed.

    Args:
        installed: versions by package; None reads them from the environment.

    Raises:
        TrainingRefused: a package is missing or has another version; the message names the fix.
    """
    for package, wanted in PINNED.items():
        found = _version(package) if installed is None else installed.get(package)
        if found is None or f"{found}.".partition("+")[0].find(f"{wanted}.") != 0:
            has = "is not installed" if found is None else f"is {found}"
            raise TrainingRefused(
                f"{package} {has}, and training was made for {wanted}: install "
                f"'{package}=={wanted}{'' if wanted.count('.') == 2 else '.0'}' (`make install`)"
            )


def check_signatures(trainer: type[Any]) -> None:
    """Checks that TRL's trainer has the methods that this project overrides.

    Raises:
        TrainingRefused: a method is missing or has other parameters.
    """
    for name, expected in SIGNATURES.items():
        _require(trainer, name, _parameters(trainer, name) == expected)
    name = "_get_per_token_logps_and_entropies"
    found = _parameters(trainer, name)
    _require(trainer, name, found[: len(LOGP_PARAMETERS)] == LOGP_PARAMETERS)


def _parameters(trainer: type[Any], name: str) -> tuple[str, ...]:
    method = getattr(trainer, name, None)
    return () if method is None else tuple(inspect.signature(method).parameters)


def _require(trainer: type[Any], name: str, holds: bool) -> None:
    if not holds:
        raise TrainingRefused(
            f"{trainer.__name__}.{name} is not that of TRL {PINNED['trl']}: install "
            f"'trl=={PINNED['trl']}' (`make install`)"
        )


def _version(package: str) -> str | None:
    for name in (package, f"{package}-cpu"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None
