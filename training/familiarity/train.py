"""`rlcm train familiarity`: the states of the problems' prompts, the fit, and its folder."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console

from rlcm_serve.core import Message, Role
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.familiarity.familiarity import Familiarity
from rlcm_serve.familiarity.score import Floats
from rlcm_serve.recording.concurrency import run_all
from rlcm_serve.recording.offline import running_engine
from rlcm_serve.recording.problems import LabelledProblem, read_problems
from rlcm_serve.terminal import shown_progress
from training.familiarity.fit import FamiliarityFit, fit_familiarity, split_problems


def train_familiarity(
    settings: EngineSettings, data: Path, out: Path, fit: FamiliarityFit, console: Console
) -> Familiarity:
    """Fits a familiarity reading on the prompts of the problems, and writes it into `out`.

    The states are those of the engine that serves. Nothing is generated but one token per problem,
    and no answer is looked at.

    Raises:
        TrainingRefused: there are too few problems; checked before the engine starts.
        RequestRefused: the data are malformed, or a problem does not fit into the context.
        ModelRefused, EngineDead: the engine cannot run the model, or died.
    """
    problems = _different(read_problems(data))
    ids, groups = [problem.id for problem in problems], [problem.group for problem in problems]
    split_problems(ids, groups, fit)
    states_NH = asyncio.run(prompt_states(settings, problems, console))
    fitted = fit_familiarity(states_NH, ids, groups, fit)
    fitted.save(out)
    return fitted


async def prompt_states(
    settings: EngineSettings, problems: Sequence[LabelledProblem], console: Console
) -> Floats:
    """The state at the last token of each problem's prompt (N x H), from a running engine."""
    states: list[Floats] = [np.empty(0, np.float32)] * len(problems)
    recording = replace(settings, record_inputs=True, needs_probe=False)
    async with running_engine(recording, console) as engine:
        with shown_progress(console, "reading prompts") as progress:
            done = 0

            async def read(at: int) -> None:
                nonlocal done
                turn = Message(Role.USER, problems[at].problem)
                states[at] = await engine.prompt_state(engine.prompt([turn]))
                done += 1
                progress(done, len(problems))

            await run_all(list(range(len(problems))), read)
    return np.stack(states)


def _different(problems: Sequence[LabelledProblem]) -> list[LabelledProblem]:
    """The problems without repeated texts: a repeat would be on both sides of the split."""
    return list({problem.problem: problem for problem in reversed(problems)}.values())[::-1]
