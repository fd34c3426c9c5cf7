"""Checks of a run that need TRL, peft or the model's architecture, but none of its weights."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rlcm_serve.engine.model_files import ModelFiles
from training.errors import TrainingRefused
from training.rl.settings import LoraSettings, RunSettings
from training.rl.trainer.joint_probe import PROBE_STATE, check_state

if TYPE_CHECKING:
    from trl import GRPOConfig

_ALL_LINEAR = "all-linear"


def trl_config(arguments: Mapping[str, Any]) -> GRPOConfig:
    """TRL's configuration.

    Raises:
        TrainingRefused: a name or a value is none of TRL's; the message says which.
    """
    from transformers import SchedulerType
    from trl import GRPOConfig

    known = [field.name for field in fields(GRPOConfig)]
    for name in arguments:
        if name not in known:
            near = get_close_matches(name, known, 1)
            raise TrainingRefused(
                f"[trainer] sets {name!r}, which GRPOConfig does not have: "
                + (f"did you mean {near[0]!r}?" if near else "leave it out")
            )
    schedules = [str(schedule.value) for schedule in SchedulerType]
    if arguments.get("lr_scheduler_type", "linear") not in schedules:
        raise TrainingRefused(
            f"schedule in [policy] is {arguments['lr_scheduler_type']!r}: give one of "
            f"{', '.join(schedules)}"
        )
    try:
        return GRPOConfig(**arguments)
    except (ValueError, TypeError) as error:
        raise TrainingRefused(f"TRL refuses these settings: {error}") from error


def check_lora(lora: LoraSettings, files: ModelFiles) -> None:
    """Checks that peft is installed and that the adapters' targets are layers of the model.

    Raises:
        TrainingRefused: they are not; the message lists the model's linear layers.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        import peft  # noqa: F401  # only whether it is there
    except ImportError as error:
        raise TrainingRefused(
            "[lora] needs the package 'peft': install it, or leave the table out"
        ) from error
    if lora.targets == _ALL_LINEAR:
        return
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(files.folder))
    names = [name for name, layer in model.named_modules() if isinstance(layer, torch.nn.Linear)]
    if not any(re.fullmatch(lora.targets, name) for name in names):
        kinds = sorted({name.rpartition(".")[2] for name in names})
        raise TrainingRefused(
            f"targets in [lora] is {lora.targets!r}, which matches no layer of the model: give "
            f"{_ALL_LINEAR!r}, or a regular expression for whole names, such as "
            f"'.*\\.{kinds[0]}'; its linear layers are {', '.join(kinds)}"
        )


def check_continuation(settings: RunSettings, checkpoint: Path | None) -> None:
    """Checks that the run can continue from its last checkpoint, if it has one.

    Raises:
        TrainingRefused: the state of its probe is missing, or another version wrote it.
    """
    if checkpoint is None or not settings.forces:
        return
    path = checkpoint / PROBE_STATE
    state = torch.load(path, map_location="cpu") if path.exists() else {}
    check_state(state, settings.probe)
