"""What a run needs to know of its model and data, read before any weights are loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rlcm_serve.engine.model_files import ModelFiles, load_tokenizer, resolve_model
from rlcm_serve.evaluation.grading import Grader
from rlcm_serve.recording.problems import bare_text
from training.errors import TrainingRefused
from training.rl.folder import Digests, check_inputs, remember
from training.rl.problems import TrainingProblems, load_held_out, load_problems
from training.rl.settings import RunSettings
from training.rl.trainer.forced_answers import Thinking
from training.rl.trainer.recipe import Recipe

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class RunInputs:
    """Model files, prompts and problems of a run. They fit together.

    Attributes:
        settings: of the run.
        files, tokenizer: of the model.
        recipe: of the trainer.
        problems: to train on.
        held_out: to evaluate on during the training; None without `[evaluation]`.
        prompt: tokens of the longest prompt.
    """

    settings: RunSettings
    files: ModelFiles
    tokenizer: PreTrainedTokenizerBase
    recipe: Recipe
    problems: TrainingProblems
    held_out: TrainingProblems | None
    prompt: int

    @property
    def digests(self) -> Digests:
        """Digests of the problems."""
        held_out = None if self.held_out is None else self.held_out.digest
        return {"problems": self.problems.digest, "held_out_problems": held_out}

    @property
    def sequence(self) -> int:
        """Tokens of the longest prompt, plus a rollout, plus a forced answer at its end."""
        settings, suffix = self.settings, self.recipe.thinking.suffix
        forced = len(suffix) + settings.budgets.answer_tokens if settings.forces else 0
        return self.prompt + settings.rollouts.max_tokens + forced


def read_inputs(settings: RunSettings, grader: Grader) -> RunInputs:
    """Reads the model's files and the problems.

    Raises:
        TrainingRefused: the problems cannot be read, are fewer than those of one step, or do not
            fit into the model's context.
        ModelRefused: the service could not serve the model.
    """
    files = ModelFiles.read(resolve_model(settings.model))
    tokenizer = load_tokenizer(files.folder)
    thinking = Thinking.of(files, tokenizer, settings.budgets.thinking)
    problems = load_problems(settings.data, grader, settings.seed)
    held_out = load_held_out(settings, grader)
    every = [own for own in (problems, held_out) if own is not None]
    prompt = _longest_prompt(settings, tokenizer, every)
    recipe = Recipe(settings, thinking, grader)
    inputs = RunInputs(settings, files, tokenizer, recipe, problems, held_out, prompt)
    _check_number(len(problems.problems), settings.rollouts.prompts)
    _check_held_out(problems, held_out)
    return _fitting(inputs)


def begin(inputs: RunInputs, out: Path) -> None:
    """Creates a run's folder, and keeps in it what a later session must not change.

    Reads all weights of the base model.

    Raises:
        TrainingRefused: the run began with other files of the base model.
    """
    base = {"base_model": inputs.files.model_digest()}
    check_inputs(base, out)
    out.mkdir(parents=True, exist_ok=True)
    remember(inputs.settings, {**inputs.digests, **base}, out)


def _longest_prompt(
    settings: RunSettings,
    tokenizer: PreTrainedTokenizerBase,
    problems: Sequence[TrainingProblems],
) -> int:
    asks = settings.chosen.asks_confidence
    rows = [row for own in problems for row in own.rows(settings.data, asks)]
    return max(
        len(tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True)["input_ids"])
        for row in rows
    )


def _check_number(problems: int, prompts: int) -> None:
    """Raises `TrainingRefused` if no step can be filled: TRL would then train nothing."""
    if problems < prompts:
        raise TrainingRefused(
            f"there are {problems} problems to train on, and a step needs {prompts}: lower prompts "
            "in [rollouts], or give more problems in [data]"
        )


def _check_held_out(problems: TrainingProblems, held_out: TrainingProblems | None) -> None:
    """Raises `TrainingRefused` if the policy would be watched on problems it is trained on."""
    texts = {bare_text(one.problem) for one in problems.problems}
    watched = held_out.problems if held_out else ()
    shared = [one for one in watched if bare_text(one.problem) in texts]
    if shared:
        raise TrainingRefused(
            f"[evaluation]: {len(shared)} of its problems are in [data] too (the first: "
            f"{shared[0].id}): give others, or the best checkpoint is the one that knows these"
        )


def _fitting(inputs: RunInputs) -> RunInputs:
    """The inputs, if the longest sequence fits into the model's context."""
    context, rollout = inputs.files.context, inputs.settings.rollouts.max_tokens
    if context is not None and inputs.sequence > context:
        forced = inputs.sequence - inputs.prompt - rollout
        raise TrainingRefused(
            f"the longest prompt ({inputs.prompt} tokens), a rollout ({rollout}) and a forced "
            f"answer ({forced}) do not fit into the model's {context} tokens: lower max_tokens in "
            "[rollouts] or answer_tokens in [budgets], or leave long problems out"
        )
    return inputs
