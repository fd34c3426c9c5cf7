"""Runs an engine for the length of one command, with progress on the terminal."""

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
from rlcm_serve.terminal import StageClock, shown_progress


@asynccontextmanager
async def running_engine(settings: EngineSettings, console: Console) -> AsyncIterator[VllmEngine]:
    """Starts vLLM, prints a line per stage to `console`, and stops vLLM at the end.

    Raises:
        ModelRefused: the model cannot run under exit control.
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
    """Records labelled problems with a progress bar; continues from `journal` if it exists.

    If no probe is needed, the journal does not depend on the probe. So a probe can be trained
    again from finished recordings.

    Raises:
        RequestRefused: the data are malformed, or the journal belongs to another run.
        Conflict: another run is writing the journal.
        ModelRefused, EngineDead: as `running_engine`.
    """
    problems = read_problems(data)
    async with running_engine(settings, console) as engine:
        identity = engine.identity if settings.needs_probe else replace(engine.identity, probe="")
        digest = digest_problems(problems)
        how = {"identity": asdict(identity), "answers": answers, "data": digest}
        with (
            RecordingJournal(RecordedRollout, journal, how) as kept,
            AnswerGrader() as grader,
            shown_progress(console, "recording") as progress,
        ):
            recorder = Recorder(engine, grader, answers)
            recordings = await record_all(recorder, problems, rollouts, kept, progress)
        return engine.identity, recordings
