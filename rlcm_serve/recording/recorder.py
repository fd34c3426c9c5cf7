"""Runs labelled problems through the engine at full budget and forces answers at every reading.

Calibration needs the answer that each exit would give: one forced answer per checkpoint. Probe
training needs how often a prefix leads to the right answer: K forced answers (RLCM App. A).
Evaluation adds what other sources of confidence read: `rlcm_serve.evaluation.recording`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from calibration import FULL_BUDGET, ExitReason
from rlcm_serve.answers.forcing import answer_rollout
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.answers.profile_graders import verdicts_of
from rlcm_serve.core import GenerationSettings, Reading, Rollout, TokenIds
from rlcm_serve.engine.contract import Reasoner
from rlcm_serve.engine.requests import once_admitted
from rlcm_serve.errors import RequestRefused
from rlcm_serve.events import OnProgress, ignore_progress
from rlcm_serve.recording.concurrency import ROLLOUTS_AT_ONCE, run_all
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.recording.rollouts import (
    FullBudgetRollout,
    Key,
    RecordedReading,
    RecordedRollout,
)

P = ParamSpec("P")
Result = TypeVar("Result")
_TRIED = 16
"""Finished rollouts, after which a recording without any answer ends."""
Recording = TypeVar("Recording", bound=FullBudgetRollout)
Recording_co = TypeVar("Recording_co", bound=FullBudgetRollout, covariant=True)
Recording_contra = TypeVar("Recording_contra", bound=FullBudgetRollout, contravariant=True)


class FullBudgetRecorder(ABC, Generic[Recording]):
    """Records rollouts that no exit policy stops.

    Args:
        engine: has started; its profile asks every problem.
        generation: settings of every request to the engine.
    """

    concurrency = ROLLOUTS_AT_ONCE
    """Rollouts to record at a time."""

    def __init__(self, engine: Reasoner, generation: GenerationSettings) -> None:
        self.engine, self.generation = engine, generation

    async def check_all(self, problems: Sequence[LabelledProblem]) -> None:
        """`check` for every problem, before hours are spent on the first ones.

        Raises:
            RequestRefused: as `check`.
        """
        for problem in problems:
            self.check(problem)

    def check(self, problem: LabelledProblem) -> None:
        """Returns if the engine accepts the problem.

        Raises:
            RequestRefused: it does not fit into the model's context; the message names it.
        """
        try:
            self.engine.check(self._prompt(problem), self.generation)
        except RequestRefused as error:
            raise _with_id(problem, error) from error

    async def record(self, problem: LabelledProblem, number: int) -> Recording:
        """One rollout at full budget, with forced answers at every reading.

        Args:
            problem: becomes the user's only turn, as the engine's profile asks it.
            number: of the rollout, from 0.

        Raises:
            RequestRefused: the problem does not fit into the model's context; the message names it.
            EngineDead: the engine died.
        """
        try:
            prompt = await asyncio.to_thread(self._prompt, problem)
            rollout = await self._generate(prompt)
        except RequestRefused as error:
            raise _with_id(problem, error) from error
        return await self._recording(problem, number, prompt, rollout)

    @abstractmethod
    async def _recording(
        self, problem: LabelledProblem, number: int, prompt: TokenIds, rollout: Rollout
    ) -> Recording:
        """What is kept of a generated rollout."""

    def _prompt(self, problem: LabelledProblem) -> TokenIds:
        return self.engine.prompt(self.engine.identity.profile.messages(problem.problem))

    @once_admitted
    async def _generate(self, prompt: TokenIds) -> Rollout:
        async with aclosing(self.engine.think(prompt, FULL_BUDGET, self.generation)) as events:
            async for event in events:
                if isinstance(event, Rollout):
                    return event
        raise RuntimeError("the engine's events ended without a rollout")


class Recorder(FullBudgetRecorder[RecordedRollout]):
    """Records rollouts with graded answers, for calibration and probe training.

    Args:
        engine: has started.
        grader: decides which answers are right, where the profile names no other grader.
        answers: K, forced at every checkpoint.
        priority: of every request to the engine; see `GenerationSettings`.
    """

    def __init__(
        self,
        engine: Reasoner,
        grader: AnswerGrader,
        answers: int = 1,
        priority: int = 0,
    ) -> None:
        identity = engine.identity
        schema = identity.profile.schema_text
        generation = GenerationSettings(
            identity.budget, identity.sampling, priority=priority, schema=schema
        )
        super().__init__(engine, generation)
        self.verdicts, self.answers = verdicts_of(identity.profile, grader), answers

    def check(self, problem: LabelledProblem) -> None:
        """Returns if the engine accepts the problem, and the grader its reference.

        Raises:
            RequestRefused: one does not; the message names the problem.
        """
        super().check(problem)
        if not problem.is_labelled:
            return
        try:
            self.verdicts.check_reference(problem.answer)
        except RequestRefused as error:
            raise _with_id(problem, error) from error

    async def _recording(
        self, problem: LabelledProblem, number: int, prompt: TokenIds, rollout: Rollout
    ) -> RecordedRollout:
        readings = await asyncio.gather(
            *(self._reading(problem, prompt, rollout, at) for at in rollout.readings)
        )
        return RecordedRollout(
            problem_id=problem.id,
            rollout=number,
            group=problem.group,
            prompt=prompt,
            tokens=rollout.tokens,
            natural=rollout.exit is ExitReason.NATURAL,
            readings=tuple(readings),
            familiarity=rollout.familiarity,
            kind=problem.kind,
        )

    async def _reading(
        self, problem: LabelledProblem, prompt: TokenIds, rollout: Rollout, at: Reading
    ) -> RecordedReading:
        stopped = rollout if at.is_final else rollout.cut(at.tokens)
        found = await answer_rollout(self.engine, prompt, stopped, self.generation, self.answers)
        correct = [
            answer is not None
            and problem.is_labelled
            and await self.verdicts.equal_async(answer, problem.answer)
            for answer in found.answers
        ]
        return RecordedReading(
            at.tokens, at.confidence, found.answers, tuple(correct), found.tokens
        )


def _with_id(problem: LabelledProblem, error: RequestRefused) -> RequestRefused:
    return RequestRefused("data", f"problem {problem.id!r}: {error}")


class InThread(Protocol):
    """Runs a function in a thread, as `asyncio.to_thread` does."""

    def __call__(
        self, work: Callable[P, Result], /, *args: P.args, **named: P.kwargs
    ) -> Coroutine[Any, Any, Result]:
        """Returns what `work` returns."""


class RecordingLog(Protocol[Recording_contra]):
    """Keeps finished recordings. One thread at a time uses it, never the event loop's thread."""

    def keys(self) -> Collection[Key]:
        """The keys of the finished recordings."""

    def append(self, recording: Recording_contra, /) -> None:
        """Adds a recording; once this returns, a kill does not lose it."""


class RecordsRollouts(Protocol[Recording_co]):
    """Records rollouts as `FullBudgetRecorder` does, on one engine or several."""

    @property
    def concurrency(self) -> int:
        """Rollouts to record at a time."""

    async def check_all(self, problems: Sequence[LabelledProblem]) -> None:
        """Returns if every problem is accepted."""

    async def record(self, problem: LabelledProblem, number: int) -> Recording_co:
        """One rollout at full budget."""


async def record_missing(
    recorder: RecordsRollouts[Recording],
    problems: Sequence[LabelledProblem],
    rollouts: int,
    log: RecordingLog[Recording],
    progress: OnProgress = ignore_progress,
    concurrency: int | None = None,
    in_thread: InThread = asyncio.to_thread,
) -> None:
    """Records `rollouts` rollouts of every problem, except those that the log already holds.

    Args:
        progress: called at the start and after each rollout.
        concurrency: rollouts in flight; None takes the recorder's.
        in_thread: runs the log's methods outside the event loop.

    Raises:
        EngineDead: the engine died; the log holds what was finished.
        RequestRefused: a problem does not fit into the model's context, or none of the first
            rollouts has an answer at any reading, so that nothing could be calibrated on them.
    """
    wanted = {problem.id: problem for problem in problems}
    total, appending = len(wanted) * rollouts, asyncio.Lock()

    def find_stored() -> set[Key]:
        held = log.keys()
        return {(id_, number) for id_, number in held if id_ in wanted and number < rollouts}

    stored = await in_thread(find_stored)
    done = len(stored)
    unanswered = 0
    has_answers = done >= _TRIED  # or the recording would have ended
    progress(done, total)

    async def record(key: Key) -> None:
        nonlocal done, unanswered, has_answers
        recording = await recorder.record(wanted[key[0]], key[1])
        has_answers = has_answers or recording.has_answer
        unanswered += not has_answers
        if unanswered >= _TRIED:
            raise RequestRefused(
                "extractor",
                f"none of the first {_TRIED} rollouts has an answer: the profile's extractor finds "
                "none in what the model writes. Correct the extractor, or tell the model in the "
                "system prompt or the template how to write its answer",
            )
        async with appending:
            await in_thread(log.append, recording)
        done += 1
        progress(done, total)

    keys = ((id_, number) for id_ in wanted for number in range(rollouts))
    missing = (key for key in keys if key not in stored)  # there may be millions
    await run_all(missing, record, concurrency or recorder.concurrency)
