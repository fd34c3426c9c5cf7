"""Turns a run's settings into TRL's arguments, including this project's fixed choices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from training.errors import TrainingRefused
from training.rl.settings import EvaluationSettings, RunSettings

CHECKPOINTS = "checkpoints"
FINAL = f"{CHECKPOINTS}/final"
"""Weights of a finished training until the policy is written; a kill leaves them."""
_OF_THE_METHOD = {"importance_sampling_level", "reward_weights"}
_UNUSABLE = {
    "generation_batch_size": "a step's rollouts are one generation here",
    "steps_per_generation": "a step's rollouts are one generation here",
    "remove_unused_columns": "rewards need the answers of the problems",
    "push_to_hub": "`rlcm push` publishes the finished folder",
    "save_only_model": "a stopped run could not continue from such checkpoints",
    "load_best_model_at_end": "`rlcm train export --step best` writes the best policy",
    "sync_ref_model": "there is no reference model without KL",
    "chat_template_kwargs": "the service asks with the template alone: set them in the template of "
    "the model's folder",
    "num_train_epochs": "`steps` says how long a run is",
    "data_seed": "`seed` orders the problems",
    "ignore_data_skip": "a run that continues would begin with the first problems again",
    "vllm_server_host": "`server` in [engine] is the engine's address",
    "vllm_server_port": "`server` in [engine] is the engine's address",
    "vllm_structured_outputs_regex": "forced answers would have to match it too",
}
"""Fields of TRL that a run cannot use, with the reason."""


def trl_arguments(
    settings: RunSettings, out: Path, ranks: int, sequence: int, held_out: int
) -> dict[str, Any]:
    """The arguments of `GRPOConfig`.

    The policy loss is GRPO's (RLCM §2.1) by default: the mean over a rollout's tokens, then over
    rollouts; no KL. Importance sampling corrects for the engine's probabilities, token by token.

    Args:
        settings: of the run.
        out: the run's folder.
        ranks: number of training processes.
        sequence: length limit of the engine's sequences, in tokens.
        held_out: number of problems to evaluate on; 0 without `[evaluation]`.

    Raises:
        TrainingRefused: rollouts of a step or of an evaluation cannot be divided evenly, the forced
            answers of one budget exceed a request, or `[trainer]` sets a field that has its own
            setting, or one with which the probe would read wrong states.
    """
    rollouts, policy, engine = settings.rollouts, settings.policy, settings.engine
    has_gpu = torch.cuda.is_available()
    chosen: dict[str, Any] = {
        "output_dir": str(out / CHECKPOINTS),
        "max_steps": settings.steps,
        "seed": settings.seed,
        "save_strategy": "steps",
        "save_steps": settings.save_steps,
        "save_total_limit": 2,
        "logging_steps": 1,
        "report_to": list(settings.report_to),
        "disable_tqdm": True,
        "use_cpu": not has_gpu,
        "bf16": policy.bf16 and has_gpu,
        "model_init_kwargs": {"dtype": "float32"},
        "num_generations": rollouts.per_prompt,
        "temperature": rollouts.temperature,
        "top_p": rollouts.top_p,
        "max_completion_length": rollouts.max_tokens,
        "per_device_train_batch_size": policy.micro_batch,
        "gradient_accumulation_steps": _parts(settings, ranks),
        "gradient_checkpointing": policy.gradient_checkpointing,
        "learning_rate": policy.learning_rate,
        "lr_scheduler_type": policy.schedule,
        "warmup_steps": policy.warmup_steps,
        "max_grad_norm": policy.max_grad_norm,
        "epsilon": policy.clip,
        "loss_type": policy.loss,
        "beta": 0.0,
        "scale_rewards": "group",
        "use_vllm": True,
        "vllm_mode": engine.mode,
        "vllm_server_base_url": engine.server if engine.mode == "server" else None,
        "vllm_gpu_memory_utilization": engine.memory,
        "vllm_tensor_parallel_size": engine.tensor_parallel,
        "vllm_enable_sleep_mode": engine.sleeps,
        "vllm_max_model_length": sequence,
        "vllm_importance_sampling_mode": "token_truncate",
    }
    if settings.evaluation is not None:
        chosen |= _evaluation_arguments(settings.evaluation, ranks, held_out)
    elif settings.trainer.get("eval_strategy") in ("steps", "epoch"):
        raise TrainingRefused(
            "[trainer] sets eval_strategy, and there is no table [evaluation]: give one, which "
            "names the held-out problems, instead of eval_strategy"
        )
    if engine.mode == "colocate" and ranks % engine.tensor_parallel:
        raise TrainingRefused(
            f"tensor_parallel in [engine] is {engine.tensor_parallel}, which does not divide the "
            f"{ranks} processes of the run: give one that does, or start more processes with "
            "`accelerate launch`"
        )
    _check_requests(settings, ranks)
    _check_states(settings)
    if taken := sorted(set(settings.trainer) & (chosen.keys() | _OF_THE_METHOD)):
        raise TrainingRefused(
            f"[trainer] sets {', '.join(taken)}, which the method or other tables of the file "
            "decide: leave it out there"
        )
    for name, why in _UNUSABLE.items():
        if settings.trainer.get(name):
            raise TrainingRefused(f"[trainer] sets {name}, but {why}: leave it out")
    return chosen | dict(settings.trainer)


def _evaluation_arguments(
    evaluation: EvaluationSettings, ranks: int, held_out: int
) -> dict[str, Any]:
    """An evaluation samples all its problems at once; the best accuracy's checkpoint is kept.

    Raises:
        TrainingRefused: ranks would have unequally many rollouts. Accelerate would repeat some, and
            their problems would count more than others in the accuracy.
    """
    whole = held_out * evaluation.rollouts
    if whole % ranks:
        raise TrainingRefused(
            f"{held_out} held-out problems x {evaluation.rollouts} rollouts are {whole}, which "
            f"{ranks} processes cannot share out: choose limit or rollouts in [evaluation] so that "
            "the number of processes divides it"
        )
    return {
        "eval_strategy": "steps",
        "eval_steps": evaluation.every,
        "num_generations_eval": evaluation.rollouts,
        "per_device_eval_batch_size": whole // ranks,
        "metric_for_best_model": "accuracy",
        "greater_is_better": True,
    }


def _check_requests(settings: RunSettings, ranks: int) -> None:
    """Raises `TrainingRefused` if the forced answers of one budget exceed a process's requests."""
    most, sharing = settings.budgets.at_once, settings.engine.sharing(ranks)
    least = settings.budgets.samples * sharing
    if settings.forces and most < least:
        raise TrainingRefused(
            f"at_once in [budgets] is {most}: give {least} or more, as the "
            f"{settings.budgets.samples} answers of a budget (samples) go to the engine together, "
            f"from each process that shares it ({sharing})"
        )


def _check_states(settings: RunSettings) -> None:
    """Raises `TrainingRefused` for fields of TRL with which the probe would read wrong states."""
    masks = settings.trainer.get("mask_truncated_completions")
    if masks and settings.chosen.is_regularised:
        raise TrainingRefused(
            "[trainer] sets mask_truncated_completions, with which rollouts that reach max_tokens "
            f"would have no sequence probability, the confidence of {settings.method}: leave it out"
        )
    if not settings.forces:
        return
    if masks:
        raise TrainingRefused(
            "[trainer] sets mask_truncated_completions, which hides the states of rollouts that "
            f"reach max_tokens from the probe of {settings.method}: leave it out"
        )
    if settings.trainer.get("eval_on_start"):
        raise TrainingRefused(
            "[trainer] sets eval_on_start: the probe takes the scale of states from the first "
            "rollouts, and an evaluation has no budgets: leave it out"
        )


def _parts(settings: RunSettings, ranks: int) -> int:
    """The number of passes in which each rank processes its share of a step's rollouts."""
    whole = settings.rollouts.prompts * settings.rollouts.per_prompt
    at_once = settings.policy.micro_batch * ranks
    if whole % at_once:
        raise TrainingRefused(
            f"{settings.rollouts.prompts} prompts x {settings.rollouts.per_prompt} rollouts are "
            f"{whole}, which {ranks} processes cannot share out in passes of "
            f"{settings.policy.micro_batch}: choose micro_batch in [policy] so that processes x "
            "micro_batch divides it"
        )
    return whole // at_once
