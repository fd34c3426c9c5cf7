"""The states at the last tokens of prompts, from a running engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from rich.console import Console

from rlcm_serve.core import Message, Role
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.familiarity.score import Floats
from rlcm_serve.recording.concurrency import run_all
from rlcm_serve.recording.offline import running_engine
from rlcm_serve.terminal import shown_progress


async def read_prompt_states(
    settings: EngineSettings, questions: Sequence[str], console: Console
) -> tuple[EngineIdentity, Floats]:
    """The engine's identity, and the state at the last token of each question's prompt (N x H).

    Nothing is generated but one token per question.

    Raises:
        RequestRefused: a question does not fit into the context.
        ModelRefused, EngineDead: the engine cannot run the model, or died.
    """
    states: list[Floats] = [np.empty(0, np.float32)] * len(questions)
    recording = replace(settings, record_inputs=True)
    async with running_engine(recording, console) as engine:
        with shown_progress(console, "reading prompts") as progress:
            done = 0

            async def read(at: int) -> None:
                nonlocal done
                prompt = engine.prompt([Message(Role.USER, questions[at])])
                states[at] = await engine.prompt_state(prompt)
                done += 1
                progress(done, len(questions))

            await run_all(list(range(len(questions))), read)
        return engine.identity, np.stack(states)
