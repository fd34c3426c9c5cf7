"""Starts a run on a Ray cluster. Needs veRL, in the environment of `requirements/verl.lock`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
import transfer_queue as queue
from hydra import compose, initialize_config_module
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from verl.trainer.main_ppo import run_ppo
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config
from verl.utils.tracking import Tracking

from rlcm_serve.evaluation.grading import grader_named
from training.errors import TrainingRefused
from training.folders import alone
from training.rl.folder import check_folder, check_inputs
from training.rl.inputs import read_inputs
from training.rl.settings import RunSettings
from training.rl.trainer.requirements import check_versions
from training.verl.folder import write_folder
from training.verl.overrides import PINNED, Cluster, check_for_verl, hydra_overrides


def train(
    settings: RunSettings, out: Path, cluster: Cluster, more: Sequence[str], only_check: bool
) -> list[str]:
    """Trains on the Ray cluster of this machine, or on this machine alone if there is none.

    A stopped run continues from veRL's last checkpoint.

    Args:
        settings: of the run.
        out: its folder, on a file system that all nodes share.
        cluster: the machines.
        more: further overrides of veRL's configuration; they win.
        only_check: make all checks and start nothing.

    Returns:
        The overrides of veRL's configuration.

    Raises:
        TrainingRefused, ModelRefused: the run cannot start, or another process trains in `out`.
            Nothing has been started then.
    """
    check_versions(pinned=PINNED, how="in an environment of its own: docs/guides/verl.md")
    check_for_verl(settings)
    out = out.resolve()
    check_folder(settings, out)
    with grader_named("math") as grader:
        inputs = read_inputs(settings, grader)
    check_inputs(inputs.digests, out)
    overrides = [*hydra_overrides(inputs, out, cluster), *more]
    config = configuration(overrides)
    if not only_check:
        with alone(out):
            write_folder(inputs, out)
            run_ppo(config, task_runner_class=TaskRunner)
    return overrides


def configuration(overrides: Sequence[str]) -> Any:
    """veRL's configuration with these overrides.

    Raises:
        TrainingRefused: veRL does not have one of the names, refuses the values, or cannot log
            where curves are to go.
    """
    try:
        with initialize_config_module("verl.trainer.config", version_base=None):
            config = compose("ppo_trainer", overrides=list(overrides))
        validate_config(
            config=config,
            use_reference_policy=need_reference_policy(config),
            use_critic=need_critic(config),
        )
    except (HydraException, OmegaConfBaseException, ValueError, AssertionError) as error:
        raise TrainingRefused(f"veRL refuses its configuration: {error}") from error
    _require_loggers(config.trainer.logger)
    return config


def _require_loggers(named: str | Sequence[str]) -> None:
    """Raises `TrainingRefused` for a logger that veRL lacks: it looks once the run has started."""
    for one in [named] if isinstance(named, str) else named:
        if one not in Tracking.supported_backend:
            raise TrainingRefused(
                f"veRL cannot log to {one!r}: give one of {', '.join(Tracking.supported_backend)} "
                "in report_to (or in trainer.logger after `--`)"
            )


@ray.remote
class TaskRunner:
    """The process that leads the run: veRL's task runner with this adapter's trainer."""

    def run(self, config: Any) -> None:
        """Trains until the last step."""
        from verl.trainer.ppo.v1 import AgentLoopManagerTQ

        from training.verl.trainer import RLCMTrainer

        config.transfer_queue.enable = True
        OmegaConf.resolve(config)
        queue.init(config.transfer_queue)
        try:
            trainer = RLCMTrainer(config)
            trainer.init()
            manager = AgentLoopManagerTQ.create(
                config=config,
                llm_client=trainer.get_llm_client(),
                teacher_client=None,
                reward_loop_worker_handles=trainer.get_reward_handles(),
            )
            trainer.fit(manager)
        finally:
            queue.close()
