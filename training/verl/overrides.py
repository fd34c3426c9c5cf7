"""A run's settings as overrides of veRL's configuration, with this project's fixed choices."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from training.errors import TrainingRefused
from training.rl.inputs import RunInputs
from training.rl.settings import RunSettings
from training.verl.recipe import TABLE

PINNED = {"verl": "0.9.1"}
"""The adapter derives from classes of this version."""
CHECKPOINTS = "verl-checkpoints"
AGENT_LOOPS = "agent-loops.yaml"
PROBLEMS, HELD_OUT = "problems.parquet", "held-out.parquet"

_LOSSES = {"grpo": "seq-mean-token-mean", "dapo": "token-mean"}
_SCHEDULES = {"constant": "constant", "constant_with_warmup": "constant", "cosine": "cosine"}
_TRUNCATED_AT = 3.0
"""Where token-wise importance weights are cut off: TRL's default, so that both trainers agree."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The machines of a run.

    Attributes:
        nodes: machines with GPUs.
        gpus: of each machine.
    """

    nodes: int = 1
    gpus: int = 8


def check_for_verl(settings: RunSettings) -> None:
    """Checks that veRL can make this run.

    `mode` and `server` in `[engine]` may be anything: veRL starts servers of its own.

    Raises:
        TrainingRefused: it cannot; the message says what to change.
    """
    refused = {
        f"method {settings.method!r} adds a term to the loss": settings.chosen.is_regularised,
        f"method {settings.method!r} compares the rollouts of a problem": settings.chosen.compares,
        f"method {settings.method!r} changes λ over the run": settings.chosen.ramp is not None,
        "[lora] is set": settings.lora is not None,
        "[trainer] sets fields of TRL": bool(settings.trainer),
        "bf16 in [policy] is false": not settings.policy.bf16,
        f"schedule in [policy] is {settings.policy.schedule!r}": (
            settings.policy.schedule not in _SCHEDULES
        ),
    }
    for reason, holds in refused.items():
        if holds:
            raise TrainingRefused(
                f"{reason}, which the adapter to veRL does not support: change it, or train on one "
                "node with `rlcm train rl`"
            )


def hydra_overrides(inputs: RunInputs, out: Path, cluster: Cluster) -> list[str]:
    """The overrides of veRL's `ppo_trainer` configuration.

    The policy's step is that of `rlcm train rl`: one update from each step's rollouts, no KL,
    advantages divided by the group's spread, token-wise importance weights.
    """
    settings, policy = inputs.settings, inputs.settings.policy
    return [
        f"+{TABLE}.run='{out}'",
        *_data(inputs, out),
        *_model(inputs),
        *_rollouts(inputs, out),
        f"trainer.nnodes={cluster.nodes}",
        f"trainer.n_gpus_per_node={cluster.gpus}",
        f"trainer.total_training_steps={settings.steps}",
        f"trainer.total_epochs={settings.steps}",
        f"trainer.save_freq={settings.save_steps}",
        "trainer.max_actor_ckpt_to_keep=2",
        f"trainer.test_freq={settings.evaluation.every if settings.evaluation else -1}",
        "trainer.val_before_train=false",
        f"trainer.default_local_dir='{out / CHECKPOINTS}'",
        f"trainer.project_name={TABLE}",
        f"trainer.experiment_name='{out.name}'",
        f"trainer.logger=[{','.join(('console', *settings.report_to))}]",
        "algorithm.adv_estimator=grpo",
        "critic.enable=false",
        "algorithm.rollout_correction.rollout_is=token",
        f"algorithm.rollout_correction.rollout_is_threshold={_TRUNCATED_AT}",
        "reward.reward_manager.source=importlib",
        "reward.reward_manager.name=GradingManager",
        "reward.reward_manager.module.path=pkg://training.verl.reward",
        f"actor_rollout_ref.actor.optim.lr_warmup_steps={policy.warmup_steps}",
    ]


def _data(inputs: RunInputs, out: Path) -> list[str]:
    settings = inputs.settings
    held_out = PROBLEMS if inputs.held_out is None else HELD_OUT
    return [
        f"data.train_files='{out / PROBLEMS}'",
        f"data.val_files='{out / held_out}'",
        f"data.train_batch_size={settings.rollouts.prompts}",
        f"data.max_prompt_length={inputs.prompt}",
        f"data.max_response_length={settings.rollouts.max_tokens}",
        f"data.seed={settings.seed}",
    ]


def _model(inputs: RunInputs) -> list[str]:
    policy, actor = inputs.settings.policy, "actor_rollout_ref.actor"
    return [
        f"actor_rollout_ref.model.path='{inputs.files.folder}'",
        "actor_rollout_ref.model.external_lib=training.verl.engine",
        f"actor_rollout_ref.model.enable_gradient_checkpointing={policy.gradient_checkpointing}",
        f"{actor}.ppo_mini_batch_size={inputs.settings.rollouts.prompts}",
        f"{actor}.ppo_micro_batch_size_per_gpu={policy.micro_batch}",
        f"{actor}.optim.lr={policy.learning_rate}",
        f"{actor}.optim.lr_scheduler_type={_SCHEDULES[policy.schedule]}",
        f"{actor}.optim.weight_decay=0.0",
        f"{actor}.grad_clip={policy.max_grad_norm}",
        f"{actor}.loss_agg_mode={_LOSSES[policy.loss]}",
        *(f"{actor}.{name}={policy.clip}" for name in _CLIPS),
    ]


def _rollouts(inputs: RunInputs, out: Path) -> list[str]:
    settings, rollout = inputs.settings, "actor_rollout_ref.rollout"
    rollouts, engine, evaluation = settings.rollouts, settings.engine, settings.evaluation
    return [
        f"{rollout}.name=vllm",
        f"{rollout}.n={rollouts.per_prompt}",
        f"{rollout}.temperature={rollouts.temperature}",
        f"{rollout}.top_p={rollouts.top_p}",
        f"{rollout}.seed={settings.seed}",
        f"{rollout}.max_model_len={inputs.sequence}",
        f"{rollout}.tensor_model_parallel_size={engine.tensor_parallel}",
        f"{rollout}.gpu_memory_utilization={engine.memory}",
        f"{rollout}.log_prob_micro_batch_size_per_gpu={settings.policy.micro_batch}",
        f"{rollout}.agent.default_agent_loop={TABLE}",
        f"{rollout}.agent.agent_loop_config_path='{out / AGENT_LOOPS}'",
        f"{rollout}.val_kwargs.do_sample=true",
        f"{rollout}.val_kwargs.temperature={evaluation.temperature if evaluation else 1.0}",
        f"{rollout}.val_kwargs.top_p={rollouts.top_p}",
        f"{rollout}.val_kwargs.n={evaluation.rollouts if evaluation else 1}",
    ]


_CLIPS = ("clip_ratio", "clip_ratio_low", "clip_ratio_high")
