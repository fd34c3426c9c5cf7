"""The recipe of a run, read in every process of a veRL cluster from the run's folder."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from rlcm_serve.engine.model_files import ModelFiles, load_tokenizer, resolve_model
from rlcm_serve.evaluation.grading import grader_named
from training.rl.folder import remembered
from training.rl.trainer.forced_answers import Thinking
from training.rl.trainer.recipe import Recipe

TABLE = "rlcm"
"""The table of veRL's configuration that names the run's folder."""
FORCED = "rlcm"
"""The entry of a rollout's extra fields: `length`, `budgets` and `forced`, all in tokens."""


def recipe_of(config: Any) -> Recipe:
    """The recipe of the run that veRL's configuration names. Read once in a process."""
    return _read(str(config[TABLE].run))


@cache
def _read(run: str) -> Recipe:
    settings = remembered(Path(run))
    files = ModelFiles.read(resolve_model(settings.model))
    tokenizer = load_tokenizer(files.folder)
    thinking = Thinking.of(files, tokenizer, settings.budgets.thinking)
    return Recipe(settings, thinking, grader_named("math"))
