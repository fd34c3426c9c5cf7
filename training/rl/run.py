"""One training run, from settings to the folder that is served. A stopped run continues."""

from __future__ import annotations

import json
import os
import re
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from rlcm_serve.engine.model_files import ModelFiles, resolve_model
from rlcm_serve.evaluation.grading import Grader, grader_named
from rlcm_serve.terminal import output_to
from training.errors import TrainingRefused
from training.provenance import commit
from training.rl.arguments import CHECKPOINTS, trl_arguments
from training.rl.problems import TrainingProblems, load_problems
from training.rl.settings import LoraSettings, RunSettings
from training.rl.trainer.colocated import cpu_arguments, engine_arguments, set_environment
from training.rl.trainer.forced_answers import Thinking
from training.rl.trainer.recipe import Recipe
from training.rl.trainer.requirements import check_versions

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from training.rl.trainer.trainer import RLCMTrainer

SETTINGS = "settings.json"
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that is checked before a model is loaded.

    Attributes:
        settings: of the run.
        files, tokenizer: of the model.
        recipe: of the trainer.
        problems: to train on.
        sequence: length limit of the engine's sequences, in tokens.
        arguments: of `GRPOConfig`.
    """

    settings: RunSettings
    files: ModelFiles
    tokenizer: PreTrainedTokenizerBase
    recipe: Recipe
    problems: TrainingProblems
    sequence: int
    arguments: dict[str, Any]


def train(settings: RunSettings, out: Path, console: Console) -> None:
    """Trains, or continues an earlier run, and writes the result to `out`.

    Raises:
        TrainingRefused: the settings or the data are invalid. Nothing has been trained then.
        ModelRefused: the service could not serve the model.
    """
    code_commit = commit()  # read now, as files may change during the run
    rank = int(os.environ.get("RANK", "0"))
    console.quiet = rank > 0
    with grader_named("math") as grader:
        prepared = prepare(settings, out, grader)
        _remember(settings, out)
        with output_to(out / f"engine-{rank}.log"):
            trainer = make_trainer(prepared, console)
        last = last_checkpoint(out / CHECKPOINTS)
        if last is not None:
            console.print(f"going on from {last.name}")
        trainer.train(resume_from_checkpoint=None if last is None else str(last))
        finish(trainer, prepared, out, code_commit)


def prepare(settings: RunSettings, out: Path, grader: Grader) -> Prepared:
    """Checks everything that can be checked without the model's weights.

    Raises:
        TrainingRefused, ModelRefused: as `train`.
    """
    check_versions()
    set_environment()
    from transformers import AutoTokenizer

    files = ModelFiles.read(resolve_model(settings.model))
    tokenizer = AutoTokenizer.from_pretrained(files.folder)
    thinking = Thinking.of(files, tokenizer, settings.budgets.thinking)
    problems = load_problems(settings.data, grader, settings.seed)
    recipe = Recipe(settings, thinking, grader)
    sequence = _longest_sequence(settings, files, tokenizer, thinking, problems)
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    arguments = trl_arguments(settings, out, ranks, sequence)
    return Prepared(settings, files, tokenizer, recipe, problems, sequence, arguments)


def _longest_sequence(
    settings: RunSettings,
    files: ModelFiles,
    tokenizer: PreTrainedTokenizerBase,
    thinking: Thinking,
    problems: TrainingProblems,
) -> int:
    """Tokens of the longest prompt, plus a rollout, plus a forced answer at its end."""
    rows = problems.rows(settings.data, settings.chosen.asks_confidence)
    prompt = max(
        len(tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True)["input_ids"])
        for row in rows
    )
    forced = len(thinking.suffix) + settings.budgets.answer_tokens if settings.forces else 0
    longest = prompt + settings.rollouts.max_tokens + forced
    if files.context is not None and longest > files.context:
        raise TrainingRefused(
            f"the longest prompt ({prompt} tokens), a rollout ({settings.rollouts.max_tokens}) and "
            f"a forced answer ({forced}) do not fit into the model's {files.context} tokens: lower "
            "max_tokens in [rollouts], or leave long problems out"
        )
    return longest


def make_trainer(prepared: Prepared, console: Console) -> RLCMTrainer:
    """Loads the model, and starts the engine if it is colocated."""
    from datasets import Dataset
    from transformers import PrinterCallback
    from transformers.utils import logging
    from trl import GRPOConfig

    from training.rl.progress import ShowProgress
    from training.rl.trainer.trainer import RLCMTrainer

    logging.disable_progress_bar()  # a bar per checkpoint would disturb ours
    settings = prepared.settings
    rows = prepared.problems.rows(settings.data, settings.chosen.asks_confidence)
    own_engine = engine_arguments(cpu_arguments(prepared.files), dict(settings.engine.arguments))
    with own_engine if prepared.arguments.get("vllm_mode") == "colocate" else nullcontext():
        trainer = RLCMTrainer(
            str(prepared.files.folder),
            prepared.recipe,
            GRPOConfig(**prepared.arguments),
            train_dataset=Dataset.from_list(rows),
            processing_class=prepared.tokenizer,
            peft_config=None if settings.lora is None else _adapters(settings.lora),
            callbacks=[ShowProgress(console)],
        )
    trainer.remove_callback(PrinterCallback)
    return trainer


def finish(
    trainer: RLCMTrainer, prepared: Prepared, out: Path, code_commit: str | None = None
) -> None:
    """Writes the folder for the service. Every rank must call this function.

    Args:
        code_commit: commit of the code that trained it.
    """
    from training.rl.export import TrainingRecord, export

    curves = [entry for entry in trainer.state.log_history if "reward" in entry]
    record = TrainingRecord(
        settings=prepared.settings,
        problems=prepared.problems,
        base=prepared.files,
        curves=curves,
        has_probe=trainer.probe is not None,
        commit=code_commit,
    )
    export(trainer, record, out)


def last_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint: a kill may leave a newer one half written."""
    found = {
        int(match.group(1)): path
        for path in folder.glob("checkpoint-*")
        if (match := _CHECKPOINT.fullmatch(path.name)) and _is_whole(path)
    }
    return found[max(found)] if found else None


def _is_whole(checkpoint: Path) -> bool:
    """Whether TRL's own state, which it writes last, is there."""
    try:
        json.loads((checkpoint / "trainer_state.json").read_text())
    except (OSError, ValueError):
        return False
    return True


def _remember(settings: RunSettings, out: Path) -> None:
    """Writes the settings. A run that continues must have the same settings as before."""
    path = out / SETTINGS
    now = json.loads(json.dumps(settings.to_json(), default=list))
    if path.exists():
        before = json.loads(path.read_text())
        changed = [name for name in now if now[name] != before.get(name)]
        if changed:
            raise TrainingRefused(
                f"{out} holds a run with other settings ({', '.join(changed)}): use the same to "
                "continue, or another --out to start again"
            )
    out.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(now, indent=1) + "\n")


def _adapters(lora: LoraSettings) -> Any:
    try:
        from peft import LoraConfig
    except ImportError as error:
        raise TrainingRefused(
            "[lora] needs the package 'peft': install it, or leave the table out"
        ) from error
    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=lora.targets,
        task_type="CAUSAL_LM",
    )
