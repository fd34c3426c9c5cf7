"""An engine for the length of one command, with its start shown on the terminal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console

from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.recording.journal import RecordingJournal, record_all
from rlcm_serve.recording.problems import digest_problems, read_problems
from rlcm_serve.recording.recorder import Recorder
from rlcm_serve.recording.rollouts import RecordedRollout
from rlcm_serve.terminal import StageClock, progress_bar


@asynccontextmanager
async def running_engine(settings: EngineSettings, console: Console) -> AsyncIterator[VllmEngine]:
    """Starts vLLM, with a line per stage on `console`, and stops it at the end.

    Raises:
        ModelRefused: the model cannot be controlled.
        EngineDead: vLLM could not start.
    """
    engine = VllmEngine(settings)
    engine.on_stage = StageClock(console)
    try:
        await engine.start()
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
) -> tuple[EngineIdentity, list[RecordedRollout]]:
    """Records labelled problems with a progress bar; goes on from `journal` if it exists.

    Where no probe is needed none counts: a probe may be trained anew from recordings that are
    finished.

    Raises:
        RequestRefused: the data are malformed, or the journal is of another run.
        Conflict: another run is writing the journal.
        ModelRefused, EngineDead: as `running_engine`.
    """
    problems = read_problems(data)
    async with running_engine(settings, console) as engine:
        made_by = engine.identity if settings.needs_probe else replace(engine.identity, probe="")
        how = {"identity": asdict(made_by), "answers": answers, "data": digest_problems(problems)}
        with (
            RecordingJournal(RecordedRollout, journal, how) as kept,
            AnswerGrader() as grader,
            progress_bar(console) as progress,
        ):
            bar = progress.add_task("recording", total=None)
            recordings = await record_all(
                Recorder(engine, grader, answers),
                problems,
                rollouts,
                kept,
                lambda done, total: progress.update(bar, completed=done, total=total),
            )
        return engine.identity, recordings
