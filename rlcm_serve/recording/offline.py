"""Runs an engine for the length of one command, with progress on the terminal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.engine.worker.statistics import DEFINITION
from rlcm_serve.recording.concurrency import CONCURRENCY
from rlcm_serve.recording.inputs import InputsFile, InputsRecorder, ProbeRollout, inputs_beside
from rlcm_serve.recording.journal import RecordingJournal, record_all
from rlcm_serve.recording.problems import LabelledProblem, digest_problems, read_problems
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

    They are asked under the settings' profile, whose identity is returned with the recordings.
    If no probe is needed, the journal does not depend on the probe. So a probe can be trained
    again from finished recordings.

    Raises:
        RequestRefused: the data are malformed, or the journal belongs to another run.
        Conflict: another run is writing the journal.
        ModelRefused, EngineDead: as `running_engine`.
    """
    async with _running_recorder(settings, data, answers, console) as (recorder, problems, how):
        with (
            RecordingJournal(RecordedRollout, journal, how) as kept,
            shown_progress(console, "recording") as progress,
        ):
            recordings = await record_all(recorder, problems, rollouts, kept, progress)
        return recorder.engine.identity, recordings


async def record_inputs(
    settings: EngineSettings,
    data: Path,
    journal: Path,
    rollouts: int,
    answers: int,
    console: Console,
) -> tuple[EngineIdentity, list[ProbeRollout]]:
    """Records as `record_problems`, with what a probe can read, in `inputs_beside(journal)`.

    Raises:
        RequestRefused: also if the file of inputs lacks rows that the journal names.
        Conflict, ModelRefused, EngineDead: as `record_problems`.
    """
    # The engine has room for the inputs of this many rollouts.
    settings = replace(settings, record_inputs=True, slots=CONCURRENCY)
    async with _running_recorder(settings, data, answers, console) as (recorder, problems, how):
        with (
            RecordingJournal(ProbeRollout, journal, how | {"inputs": DEFINITION}) as kept,
            InputsFile(inputs_beside(journal), kept.recordings()) as inputs,
            shown_progress(console, "recording") as progress,
        ):
            recording = InputsRecorder(recorder, inputs)
            recordings = await record_all(recording, problems, rollouts, kept, progress)
        return recorder.engine.identity, recordings


@asynccontextmanager
async def _running_recorder(
    settings: EngineSettings, data: Path, answers: int, console: Console
) -> AsyncIterator[tuple[Recorder, list[LabelledProblem], dict[str, Any]]]:
    """A recorder on a running engine, the problems, and the settings for the journal's header."""
    problems = read_problems(data)
    async with running_engine(settings, console) as engine:
        reasoner = engine.under(settings.profile)
        identity = reasoner.identity
        if not settings.needs_probe:
            identity = replace(identity, probe="")
        digest = digest_problems(problems)
        how = {"identity": identity.to_json(), "answers": answers, "data": digest}
        with AnswerGrader() as grader:
            yield Recorder(reasoner, grader, answers), problems, how
