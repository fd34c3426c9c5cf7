"""`rlcm train familiarity`: the states of the problems' prompts, the fit, and its folder."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.familiarity.familiarity import Familiarity
from rlcm_serve.recording.problems import LabelledProblem, read_problems
from rlcm_serve.recording.prompt_states import read_prompt_states
from training.familiarity.fit import FamiliarityFit, fit_familiarity, split_problems
from training.folders import require_writable


def train_familiarity(
    settings: EngineSettings, data: Path, out: Path, fit: FamiliarityFit, console: Console
) -> Familiarity:
    """Fits a familiarity reading on the prompts of the problems, and writes it into `out`.

    The states are those of the engine that serves. Nothing is generated but one token per problem,
    and no answer is looked at.

    Raises:
        TrainingRefused: there are too few problems, or `out` cannot be written; checked before the
            engine starts.
        RequestRefused: the data are malformed, or a problem does not fit into the context.
        ModelRefused, EngineDead: the engine cannot run the model, or died.
    """
    require_writable(out)
    problems = _different(read_problems(data))
    ids, groups = [problem.id for problem in problems], [problem.group for problem in problems]
    split_problems(ids, groups, fit)
    questions = [problem.problem for problem in problems]
    settings = replace(settings, needs_probe=False)
    _, states_NH = asyncio.run(read_prompt_states(settings, questions, console))
    fitted = fit_familiarity(states_NH, ids, groups, fit)
    fitted.save(out)
    return fitted


def _different(problems: Sequence[LabelledProblem]) -> list[LabelledProblem]:
    """The problems without repeated texts: a repeat would be on both sides of the split."""
    return list({problem.problem: problem for problem in reversed(problems)}.values())[::-1]
