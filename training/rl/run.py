"""One training run, from settings to the folder that is served. A stopped run continues."""

from __future__ import annotations

import os
import shutil
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from rich.console import Console

from rlcm_serve.evaluation.grading import Grader, grader_named
from rlcm_serve.terminal import output_to
from training.folders import alone
from training.rl.arguments import CHECKPOINTS, FINAL, trl_arguments
from training.rl.check import (
    check_continuation,
    check_engine,
    check_lora,
    check_trainer,
    trl_config,
)
from training.rl.folder import (
    check_folder,
    check_inputs,
    has_ended,
    last_checkpoint,
    last_session,
    steps_of_policy,
)
from training.rl.inputs import RunInputs, begin, read_inputs
from training.rl.settings import LoraSettings, RunSettings
from training.rl.trainer.colocated import (
    cpu_arguments,
    engine_arguments,
    send_weights_as,
    set_environment,
    stored_dtype,
)
from training.rl.trainer.forced_answers import cut_points
from training.rl.trainer.requirements import check_versions

if TYPE_CHECKING:
    from training.rl.progress import ShowProgress
    from training.rl.trainer.trainer import RLCMTrainer


@dataclass(frozen=True, slots=True)
class Prepared(RunInputs):
    """Everything that is checked before a model is loaded.

    Attributes:
        arguments: of `GRPOConfig`.
    """

    arguments: dict[str, Any]


def train(settings: RunSettings, out: Path, console: Console) -> None:
    """Trains, or continues an earlier run, and writes the result to `out`.

    Raises:
        TrainingRefused: the settings or the data are invalid, or another process trains in `out`.
            No model has been loaded then.
        ModelRefused: the service could not serve the model.
    """
    rank = int(os.environ.get("RANK", "0"))
    console.quiet = rank > 0
    with grader_named("math") as grader:
        prepared = checked_run(settings, out, grader)
        with alone(out) if rank == 0 else nullcontext():
            last = last_checkpoint(out / CHECKPOINTS)
            if not has_ended(settings, last):
                _train(prepared, last, out, console, rank)
            elif rank == 0:
                _finish_again(settings, out, console)


def _train(prepared: Prepared, last: Path | None, out: Path, console: Console, rank: int) -> None:
    """Trains from the last checkpoint to the end."""
    from training.rl.progress import ShowProgress

    if rank == 0:
        begin(prepared, out)
    progress = ShowProgress(console)
    with output_to(out / f"engine-{rank}.log"):
        trainer = make_trainer(prepared, progress)
    if last is not None:
        console.print(f"going on from {last.name}")
    try:
        trainer.train(resume_from_checkpoint=None if last is None else str(last))
    finally:
        progress.stop()
    finish(trainer, prepared, out)


def _finish_again(settings: RunSettings, out: Path, console: Console) -> None:
    """Writes the folder of a run that was killed after its last step; nothing if it is whole."""
    from training.rl.checkpoint import export_to

    console.print(f"all {settings.steps} steps are done: nothing is left to train")
    if steps_of_policy(out) != settings.steps:  # none, or that of the run before it was extended
        export_to(out, settings, "last", out)
        shutil.rmtree(out / FINAL, ignore_errors=True)


def checked_run(settings: RunSettings, out: Path, grader: Grader) -> Prepared:
    """Checks everything that can be checked without the model's weights.

    Raises:
        TrainingRefused, ModelRefused: as `train`.
    """
    check_folder(settings, out)
    prepared = prepare(settings, out, grader)
    check_inputs(prepared.digests, out)
    if settings.lora is not None:
        check_lora(settings.lora, prepared.files)
    check_engine(settings.engine)
    check_trainer(trl_config(prepared.arguments))
    check_continuation(settings, last_checkpoint(out / CHECKPOINTS))
    return prepared


def check(settings: RunSettings, out: Path) -> list[str]:
    """What a run would do, one line each, if it could start.

    Raises:
        TrainingRefused, ModelRefused: as `train`.
    """
    with grader_named("math") as grader:
        prepared = checked_run(settings, out, grader)
    rollouts, budgets = settings.rollouts, settings.budgets
    whole, last = rollouts.prompts * rollouts.per_prompt, last_checkpoint(out / CHECKPOINTS)
    lines = [
        f"{_method(settings)}, {settings.steps} steps from {settings.model}: {whole} rollouts "
        f"a step, of {len(prepared.problems.problems)} problems",
        f"sequences have at most {prepared.sequence} tokens; the model takes "
        f"{prepared.files.context or 'any number'}",
    ]
    if settings.forces:
        cuts = len(cut_points(rollouts.max_tokens, budgets))
        lines.append(
            f"at most {whole * cuts * budgets.samples} forced answers a step, at {cuts} "
            "cuts of each rollout"
        )
    if settings.engine.mode == "server":
        lines.append(_said_of_server(settings.engine.server))
    if has_ended(settings, last):
        lines.append(f"all {settings.steps} steps are done: nothing is left to train")
    elif last is not None:
        lines.append(f"it would continue from {last.name}")
    return lines


def _method(settings: RunSettings) -> str:
    """The method, with its λ if it has one."""
    title = settings.chosen.title
    return f"{title} with λ = {settings.weight:g}" if settings.chosen.uses_strength else title


def _said_of_server(address: str) -> str:
    """Whether the engine's server answers. It may be started later, so this refuses nothing."""
    try:
        health = f"{address.rstrip('/')}/health"
        answers = httpx.get(health, timeout=5, follow_redirects=True).is_success
    except (httpx.HTTPError, httpx.InvalidURL):
        answers = False
    if answers:
        return f"the engine's server answers at {address}"
    return f"no engine answers at {address} yet: start `trl vllm-serve` before the run"


def prepare(settings: RunSettings, out: Path, grader: Grader) -> Prepared:
    """Reads the model's files and the problems, and makes TRL's arguments.

    Raises:
        TrainingRefused, ModelRefused: as `train`.
    """
    check_versions()
    set_environment()
    inputs = read_inputs(settings, grader)
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    held_out = 0 if inputs.held_out is None else len(inputs.held_out.problems)
    arguments = trl_arguments(settings, out, ranks, inputs.sequence, held_out)
    own = {each.name: getattr(inputs, each.name) for each in fields(inputs)}
    return Prepared(**own, arguments=arguments)


def make_trainer(prepared: Prepared, progress: ShowProgress) -> RLCMTrainer:
    """Loads the model, and starts the engine if it is colocated."""
    from datasets import Dataset
    from transformers import PrinterCallback, set_seed
    from transformers.utils import logging

    from training.rl.trainer.trainer import RLCMTrainer

    logging.disable_progress_bar()  # a bar per checkpoint would disturb ours
    settings = prepared.settings
    asks, held_out = settings.chosen.asks_confidence, prepared.held_out
    rows = prepared.problems.rows(settings.data, asks)
    own_engine = engine_arguments(cpu_arguments(prepared.files), dict(settings.engine.arguments))
    with own_engine if prepared.arguments.get("vllm_mode") == "colocate" else nullcontext():
        trainer = RLCMTrainer(
            str(prepared.files.folder),
            prepared.recipe,
            trl_config(prepared.arguments),
            train_dataset=Dataset.from_list(rows),
            eval_dataset=held_out and Dataset.from_list(held_out.rows(settings.data, asks)),
            processing_class=prepared.tokenizer,
            peft_config=None if settings.lora is None else _adapters(settings.lora),
            callbacks=[progress],
        )
    send_weights_as(trainer.vllm_generation, stored_dtype(prepared.files))
    # The engine has seeded this process with its own number. Ranks that share one must be alike.
    set_seed(settings.seed + trainer.accelerator.process_index // settings.engine.tensor_parallel)
    trainer.remove_callback(PrinterCallback)
    return trainer


def finish(trainer: RLCMTrainer, prepared: Prepared, out: Path) -> None:
    """Writes the folder for the service. Every rank must call this function."""
    from training.rl.export import TrainingRecord, export

    record = TrainingRecord(
        settings=prepared.settings,
        problems=prepared.problems,
        chosen_on=None,
        base=prepared.files,
        log=trainer.state.log_history,
        has_probe=trainer.probe is not None and prepared.settings.probe.is_servable,
        session=last_session(out),
    )
    export(trainer, record, out)


def _adapters(lora: LoraSettings) -> Any:
    from peft import LoraConfig

    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=lora.targets,
        task_type="CAUSAL_LM",
    )
