"""Runs an engine for the length of one command, with progress on the terminal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from rich.console import Console

from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.engine.contract import EngineIdentity, Reasoner
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.engine.worker.statistics import DEFINITION
from rlcm_serve.recording.concurrency import ROLLOUTS_AT_ONCE
from rlcm_serve.recording.inputs import InputsFile, InputsRecorder, ProbeRollout, inputs_beside
from rlcm_serve.recording.journal import RecordingJournal, record_all
from rlcm_serve.recording.problems import LabelledProblem, digest_problems, read_problems
from rlcm_serve.recording.recorder import FullBudgetRecorder, Recorder, Recording, RecordsRollouts
from rlcm_serve.recording.rollouts import RecordedRollout
from rlcm_serve.terminal import StageClock, shown_progress

BuildRecorders: TypeAlias = Callable[
    [Reasoner], AbstractContextManager[Sequence[FullBudgetRecorder[Recording]]]
]
"""Builds recorders on a running engine; they work until the block ends."""


class OpenRecorders(Protocol):
    """Starts what records: one engine here (`recorders_here`), or several on Ray."""

    def __call__(
        self, settings: EngineSettings, build: BuildRecorders[Recording], console: Console, /
    ) -> AbstractAsyncContextManager[tuple[EngineIdentity, Sequence[RecordsRollouts[Recording]]]]:
        """The engine's identity under the settings' profile, and the recorders."""


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


@asynccontextmanager
async def recorders_here(
    settings: EngineSettings, build: BuildRecorders[Recording], console: Console
) -> AsyncIterator[tuple[EngineIdentity, Sequence[FullBudgetRecorder[Recording]]]]:
    """Recorders on an engine that runs until the block ends.

    Raises:
        ModelRefused, EngineDead: as `running_engine`.
    """
    async with running_engine(settings, console) as engine:
        reasoner = engine.under(settings.profile)
        with build(reasoner) as recorders:
            yield reasoner.identity, recorders


async def record_problems(
    settings: EngineSettings,
    data: Path,
    journal: Path,
    rollouts: int,
    answers: int,
    console: Console,
    open_recorders: OpenRecorders = recorders_here,
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
    problems, build = read_problems(data), partial(graded_recorder, answers)
    async with open_recorders(settings, build, console) as (identity, (recorder,)):
        how = _described(settings, identity, problems, answers)
        with (
            RecordingJournal(RecordedRollout, journal, how) as kept,
            shown_progress(console, "recording") as progress,
        ):
            return identity, await record_all(recorder, problems, rollouts, kept, progress)


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
    settings = replace(settings, record_inputs=True, slots=ROLLOUTS_AT_ONCE)
    problems, build = read_problems(data), partial(graded_recorder, answers)
    async with recorders_here(settings, build, console) as (identity, (recorder,)):
        how = _described(settings, identity, problems, answers) | {"inputs": DEFINITION}
        with (
            RecordingJournal(ProbeRollout, journal, how) as kept,
            InputsFile(inputs_beside(journal), kept.recordings()) as inputs,
            shown_progress(console, "recording") as progress,
        ):
            recording = InputsRecorder(recorder, inputs)
            return identity, await record_all(recording, problems, rollouts, kept, progress)


@contextmanager
def graded_recorder(answers: int, engine: Reasoner) -> Iterator[Sequence[Recorder]]:
    """A recorder with a grader of its own."""
    with AnswerGrader() as grader:
        yield [Recorder(engine, grader, answers)]


def _described(
    settings: EngineSettings,
    identity: EngineIdentity,
    problems: Sequence[LabelledProblem],
    answers: int,
) -> dict[str, Any]:
    """The settings for the journal's header."""
    if not settings.needs_probe:
        identity = replace(identity, probe="")
    digest = digest_problems(problems)
    return {"identity": identity.to_json(), "answers": answers, "data": digest}
