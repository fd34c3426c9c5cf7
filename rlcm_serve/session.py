"""An engine for the length of one command, with its start shown on the terminal."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from rlcm_serve.answers import AnswerGrader
from rlcm_serve.engine.base import EngineIdentity
from rlcm_serve.engine.vllm_engine import EngineSettings, VllmEngine
from rlcm_serve.recording import Journal, Recorder, Recording, read_problems, record_all
from rlcm_serve.terminal import engine_output_to, progress_bar


class StageClock:
    """Prints one line per stage of a start, with the seconds since the beginning."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()

    def __call__(self, stage: str) -> None:
        """Reports that `stage` begins."""
        self._console.print(f"[{time.monotonic() - self._began:5.1f} s] {stage}", markup=False)


@asynccontextmanager
async def running_engine(
    settings: EngineSettings, console: Console, log: Path | None
) -> AsyncIterator[VllmEngine]:
    """Starts vLLM, its chatter going to `log` (None: to the terminal), and stops it at the end.

    Raises:
        ModelRefused: the model cannot be controlled.
        EngineDead: vLLM could not start.
    """
    with engine_output_to(log) as terminal:
        engine = VllmEngine(settings, on_stage=StageClock(terminal if log else console))
        try:
            await engine.start()
        except BaseException:
            engine.stop()
            raise
    try:
        yield engine
    finally:
        engine.stop()


async def record_problems(
    settings: EngineSettings,
    data: Path,
    journal: Path,
    rollouts: int,
    answers: int,
    console: Console,
    log: Path | None = None,
) -> tuple[EngineIdentity, list[Recording]]:
    """Records labelled problems with a progress bar; goes on from `journal` if it exists.

    Raises:
        RequestRefused: the data are malformed, or the journal is of another run.
        ModelRefused, EngineDead: as `running_engine`.
    """
    problems = read_problems(data)
    async with running_engine(settings, console, log) as engine:
        kept = Journal(journal, {"identity": asdict(engine.identity), "answers": answers})
        with AnswerGrader() as grader, progress_bar(console) as progress:
            bar = progress.add_task("recording", total=None)
            recordings = await record_all(
                Recorder(engine, grader, answers),
                problems,
                rollouts,
                kept,
                lambda done, total: progress.update(bar, completed=done, total=total),
            )
        return engine.identity, recordings
