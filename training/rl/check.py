"""Checks of a run that need TRL, peft or the model's architecture, but none of its weights."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, get_type_hints

import torch

from rlcm_serve.engine.diagnosis.names import check_sampling, engine_arguments
from rlcm_serve.engine.model_files import ModelFiles
from rlcm_serve.suggestions import did_you_mean
from training.errors import TrainingRefused
from training.rl.settings import LoraSettings, RunSettings, VllmSettings
from training.rl.tables import is_plain, typed
from training.rl.trainer.joint_probe import PROBE_STATE, check_state

if TYPE_CHECKING:
    from trl import GRPOConfig

_ALL_LINEAR = "all-linear"
_MORE_TYPES = {"fsdp": bool}
"""Types of TRL's fields that are missing from its annotations."""
_CHOICES = {
    "multi_objective_aggregation": ("sum_then_normalize", "normalize_then_sum"),
}
"""Values that TRL compares with later; transformers' fields name theirs."""
_RANGES = {
    "dataloader_num_workers": (0, inf),
    "num_iterations": (1, inf),
    "top_k": (-1, inf),
    "min_p": (0, 1),
    "repetition_penalty": (0.01, inf),
    "weight_decay": (0, inf),
}
"""Ranges of vLLM's sampling, of TRL's updates and of PyTorch's loader."""
_REFUSALS = (
    ArithmeticError,
    AttributeError,
    ImportError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What libraries raise at values that they cannot use."""


def trl_config(arguments: Mapping[str, Any]) -> GRPOConfig:
    """TRL's configuration.

    Raises:
        TrainingRefused: a name or a value is none of TRL's; the message says which.
    """
    from transformers import SchedulerType
    from trl import GRPOConfig

    hints = get_type_hints(GRPOConfig)
    known = [field.name for field in fields(GRPOConfig)]
    for name, value in arguments.items():
        if name not in known:
            _refuse_unknown(f"[trainer] sets {name!r}, which GRPOConfig does not have", name, known)
        typed(hints[name] | _MORE_TYPES.get(name, hints[name]), value, f"[trainer]: {name}")
    schedules = [str(schedule.value) for schedule in SchedulerType]
    if arguments.get("lr_scheduler_type", "linear") not in schedules:
        raise TrainingRefused(
            f"schedule in [policy] is {arguments['lr_scheduler_type']!r}: give one of "
            f"{', '.join(schedules)}"
        )
    try:
        return GRPOConfig(**arguments)
    except _REFUSALS as error:
        raise TrainingRefused(f"TRL refuses these settings: {error}") from error


def _refuse_unknown(said: str, name: str, known: Sequence[str]) -> NoReturn:
    raise TrainingRefused(f"{said}: {did_you_mean(name, known, 'leave it out')}")


def check_trainer(config: GRPOConfig) -> None:
    """Checks what TRL would refuse after it has loaded the model: reporters, optimizer, sampling.

    Raises:
        TrainingRefused: it would refuse one of them, or a run could not continue.
    """
    choices = {field.name: field.metadata.get("choices") for field in fields(config)}
    for name, some in (choices | _CHOICES).items():
        value = getattr(config, name)
        if some and value is not None and value not in some:
            raise TrainingRefused(f"[trainer]: {name} is {value!r}: give one of {', '.join(some)}")
    for name, (least, most) in _RANGES.items():
        value = getattr(config, name)
        if value is not None and not least <= value <= most:
            wanted = f"from {least} to {most}" if most < inf else f"of {least} or more"
            raise TrainingRefused(f"[trainer]: {name} is {value}: give a number {wanted}")
    _check_iterations(config)
    _check_reporters(config)
    _check_sampling(config)
    _check_compiler(config)
    _check_schedule(config, _optimizer(config))


def _check_iterations(config: GRPOConfig) -> None:
    """A run that continues samples at once, so a checkpoint must not lie between two samplings."""
    steps = {"save_steps": int(config.save_steps), "steps": config.max_steps}
    for name, value in steps.items():
        if value % config.num_iterations:
            raise TrainingRefused(
                f"[trainer]: num_iterations is {config.num_iterations}, which does not divide "
                f"{name} ({value}), so a run could not continue where it stopped: give a multiple "
                f"of {config.num_iterations} as {name}"
            )


def _check_reporters(config: GRPOConfig) -> None:
    """Makes the callback of each reporter, which looks for the reporter's package."""
    from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

    for name in config.report_to or ():
        if name not in INTEGRATION_TO_CALLBACK:
            raise TrainingRefused(
                f"report_to names {name!r}: give some of {', '.join(INTEGRATION_TO_CALLBACK)}"
            )
        try:
            INTEGRATION_TO_CALLBACK[name]()
        except _REFUSALS as error:
            raise TrainingRefused(
                f"report_to names {name!r}, which cannot be used here: install its package, or "
                f"leave it out ({error})"
            ) from error


_NO_SAMPLING = {
    **dict.fromkeys(("n", "temperature", "top_p", "max_tokens"), "use the table [rollouts]"),
    "seed": "with it all rollouts of a problem are the same, and `seed` of the run seeds them",
    "logprobs": "the trainer asks for those that it needs",
}
"""What `generation_kwargs` must not set, and why."""


def _check_sampling(config: GRPOConfig) -> None:
    """Makes vLLM's sampling parameters of `generation_kwargs`, which override all others."""
    given = dict(config.generation_kwargs or {})
    for name in sorted(_NO_SAMPLING.keys() & given.keys()):
        raise TrainingRefused(
            f"generation_kwargs in [trainer] sets {name}: leave it out; {_NO_SAMPLING[name]}"
        )
    if given:
        try:
            check_sampling(given | {"max_tokens": config.max_completion_length})
        except _REFUSALS as error:
            raise TrainingRefused(
                f"generation_kwargs in [trainer] is {given}, which vLLM's SamplingParams refuse: "
                f"{error}"
            ) from error


def _check_compiler(config: GRPOConfig) -> None:
    from accelerate.utils import DynamoBackend

    name, known = config.torch_compile_backend, [one.value.lower() for one in DynamoBackend]
    if name is not None and name.lower() not in known:
        raise TrainingRefused(
            f"[trainer]: torch_compile_backend is {name!r}: give one of {', '.join(known)}"
        )


def _optimizer(config: GRPOConfig) -> torch.optim.Optimizer:
    """The optimizer, for one parameter in place of the model's."""
    from transformers import Trainer
    from transformers.training_args import OptimizerNames

    layer = torch.nn.Linear(1, 1)
    try:
        kind, options = Trainer.get_optimizer_cls_and_kwargs(config, layer)
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer):
            made: torch.optim.Optimizer = kind(layer.parameters(), **options)
            return made
    except ImportError as error:
        raise TrainingRefused(f"optim in [trainer] needs another package: {error}") from error
    except _REFUSALS as error:
        if config.optim_target_modules is None:  # otherwise it needs layers of the model
            raise TrainingRefused(
                f"the optimizer {OptimizerNames(config.optim).value!r} refuses its settings in "
                f"[policy] and [trainer] (learning_rate, adam_*, optim_args): {error}; change these"
            ) from error
    return torch.optim.AdamW(layer.parameters(), lr=config.learning_rate)


def _check_schedule(config: GRPOConfig, optimizer: torch.optim.Optimizer) -> None:
    """Makes the schedule, and computes some of its learning rates."""
    from transformers import SchedulerType, get_scheduler

    name, more = SchedulerType(config.lr_scheduler_type), config.lr_scheduler_kwargs
    warmup, steps = config.get_warmup_steps(config.max_steps), config.max_steps
    try:
        schedule = get_scheduler(name, optimizer, warmup, steps, scheduler_specific_kwargs=more)
        for rate in getattr(schedule, "lr_lambdas", ()):
            for step in (0, warmup, steps):
                rate(step)
    except _REFUSALS as error:
        raise TrainingRefused(
            f"schedule in [policy] is {name.value!r}, and lr_scheduler_kwargs in [trainer] is "
            f"{more or {}}, which transformers refuses: {error}; give the arguments of the "
            "schedule in lr_scheduler_kwargs, or another schedule"
        ) from error


_OF_THE_ENGINE = {
    "model": "model",
    "max_model_len": "max_tokens in [rollouts]",
    "gpu_memory_utilization": "memory in [engine]",
    "tensor_parallel_size": "tensor_parallel in [engine]",
    "enable_sleep_mode": "sleeps in [engine]",
    "seed": "seed, which seeds the rollouts too",
}
"""Arguments of vLLM that other settings decide."""


def check_engine(engine: VllmSettings) -> None:
    """Checks a colocated engine's further arguments: names, and values of plain types.

    Raises:
        TrainingRefused: vLLM does not have one, its value has another type, another setting
            decides it, or the engine is a server, which has arguments of its own.
    """
    if engine.mode == "server":
        for name in ("arguments", "sleeps"):
            if getattr(engine, name):
                raise TrainingRefused(
                    f"{name} in [engine] is for mode = 'colocate': leave it out, and start "
                    "`trl vllm-serve` with what it should have"
                )
        if engine.tensor_parallel != 1:
            raise TrainingRefused(
                f"tensor_parallel in [engine] is {engine.tensor_parallel}, and is for mode = "
                "'colocate': leave it out, and start `trl vllm-serve` with --tensor_parallel_size"
            )
    if not engine.arguments:
        return
    hints = engine_arguments()
    for name, value in engine.arguments.items():
        if name in _OF_THE_ENGINE:
            raise TrainingRefused(
                f"arguments in [engine] sets {name!r}: set {_OF_THE_ENGINE[name]} instead"
            )
        if name not in hints:
            said = f"arguments in [engine] sets {name!r}, which vLLM does not have"
            _refuse_unknown(said, name, [*hints])
        if is_plain(hints[name]):  # vLLM converts what other types are given as
            typed(hints[name], value, f"arguments in [engine]: {name}")


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
    try:
        targets = re.compile(lora.targets)
    except re.error as error:
        raise TrainingRefused(
            f"targets in [lora] is {lora.targets!r}, which is no regular expression: {error}; give "
            f"one for whole names of layers, or {_ALL_LINEAR!r}"
        ) from error
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(files.folder))
    layers = {name: layer for name, layer in model.named_modules() if name}
    matched = [name for name in layers if targets.fullmatch(name)]
    head = model.get_output_embeddings()  # which takes no adapters
    linear = [
        name
        for name, layer in layers.items()
        if isinstance(layer, torch.nn.Linear) and layer is not head
    ]
    other = next((name for name in matched if name not in linear), None)
    if other is not None or not matched:
        what = "no layer of the model" if other is None else f"{other!r}, which is not linear"
        if other is not None and layers[other] is head:
            what = f"{other!r}, the output layer, for which there are no adapters"
        kinds = sorted({name.rpartition(".")[2] for name in linear})
        raise TrainingRefused(
            f"targets in [lora] is {lora.targets!r}, which matches {what}: give "
            f"{_ALL_LINEAR!r}, or a regular expression for whole names, such as "
            f"'.*\\.{kinds[0]}'; the linear layers are {', '.join(kinds)}"
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
