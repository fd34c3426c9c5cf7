"""RecordedRollout: labelled problems run through the engine at full budget, an answer at every
reading.

Two uses share it: calibration records what each exit would have answered (one forced answer per
checkpoint), probe training how often a prefix leads to the right one (K forced answers, RLCM
App. A). What is finished is kept in a log, so an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any, Protocol, Self, TypeVar

from calibration import FULL_BUDGET, ExitReason
from calibration.traces import table
from rlcm_serve.answers.forcing import answer_rollout
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.core import GenerationSettings, Message, Reading, Role, Rollout, TokenIds
from rlcm_serve.engine.contract import ReasoningEngine
from rlcm_serve.errors import RequestRefused
from rlcm_serve.recording.problems import LabelledProblem

CONCURRENCY = 64
"""Rollouts in flight; enough to fill vLLM's batch, few enough to bound what an interrupt loses."""

Key = tuple[str, int]
"""Which recording: the problem's id, and the rollout's number."""
OnProgress = Callable[[int, int], None]


def tell_nobody(done: int, total: int) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True, slots=True)
class RecordedReading:
    """One reading of a rollout with the answers given there (K, or the model's own at its end)."""

    tokens: int
    confidence: float
    answers: tuple[str | None, ...]
    correct: tuple[bool, ...]
    answer_tokens: int  # generated for the first answer

    @property
    def share_correct(self) -> float:
        """Y_b of RLCM §3.2."""
        return sum(self.correct) / len(self.correct)


@dataclass(frozen=True, slots=True)
class RecordedRollout:
    """One rollout at full budget, with every reading; the last one is the final one."""

    problem_id: str
    rollout: int
    group: str | None
    prompt: TokenIds
    tokens: TokenIds
    natural: bool
    readings: tuple[RecordedReading, ...]

    @property
    def key(self) -> Key:
        return self.problem_id, self.rollout

    def to_json(self) -> dict[str, Any]:
        """Plain values, for the log."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Self:
        """The recording of `to_json`."""
        readings = tuple(
            RecordedReading(
                **(r | {"answers": tuple(r["answers"]), "correct": tuple(r["correct"])})
            )
            for r in plain["readings"]
        )
        ids = {"prompt": tuple(plain["prompt"]), "tokens": tuple(plain["tokens"])}
        return cls(**(plain | ids | {"readings": readings}))


def prompt_of(engine: ReasoningEngine, problem: LabelledProblem) -> TokenIds:
    """A labelled problem as the only turn of a conversation."""
    return engine.prompt((Message(Role.USER, problem.problem),))


def check_fits(
    engine: ReasoningEngine, problem: LabelledProblem, generation: GenerationSettings
) -> None:
    """Returns if the engine would take it.

    Raises:
        RequestRefused: it does not fit into the model's context; the message names it.
    """
    try:
        engine.check(prompt_of(engine, problem), generation)
    except RequestRefused as error:
        raise _named(problem, error) from error


async def generate_fully(
    engine: ReasoningEngine, prompt: TokenIds, generation: GenerationSettings
) -> Rollout:
    """One rollout that no policy stops."""
    async with aclosing(engine.think(prompt, FULL_BUDGET, generation)) as events:
        async for event in events:
            if isinstance(event, Rollout):
                return event
    raise RuntimeError("the engine's events ended without a generated")


class Recorder:
    """Runs labelled problems through an engine that has started.

    Args:
        engine: generates.
        grader: says which answers are right.
        answers: forced at every checkpoint.
        priority: of everything it asks of the engine; see `GenerationSettings`.
    """

    def __init__(
        self,
        engine: ReasoningEngine,
        grader: AnswerGrader,
        answers: int = 1,
        priority: int = 0,
    ) -> None:
        self.engine, self.grader, self.answers = engine, grader, answers
        self.generation = GenerationSettings(
            engine.identity.budget, engine.identity.sampling, priority=priority
        )

    def check(self, problem: LabelledProblem) -> None:
        """Returns if the engine would take it.

        Raises:
            RequestRefused: it does not fit into the model's context; the message names it.
        """
        check_fits(self.engine, problem, self.generation)

    async def record(self, problem: LabelledProblem, rollout: int) -> RecordedRollout:
        """One rollout at full budget, and `answers` answers forced at every checkpoint of it."""
        prompt = prompt_of(self.engine, problem)
        try:
            generated = await generate_fully(self.engine, prompt, self.generation)
        except RequestRefused as error:
            raise _named(problem, error) from error
        readings = await asyncio.gather(
            *(self._reading(problem, prompt, generated, at) for at in generated.readings)
        )
        return RecordedRollout(
            problem_id=problem.id,
            rollout=rollout,
            group=problem.group,
            prompt=prompt,
            tokens=generated.tokens,
            natural=generated.exit is ExitReason.NATURAL,
            readings=tuple(readings),
        )

    async def _reading(
        self, problem: LabelledProblem, prompt: TokenIds, generated: Rollout, at: Reading
    ) -> RecordedReading:
        stopped = generated if at.is_final else generated.cut(at.tokens)
        given = await answer_rollout(self.engine, prompt, stopped, self.generation, self.answers)
        correct = [
            answer is not None and await self.grader.equal_async(answer, problem.answer)
            for answer in given.answers
        ]
        return RecordedReading(
            at.tokens, at.confidence, given.answers, tuple(correct), given.tokens
        )


def _named(problem: LabelledProblem, error: RequestRefused) -> RequestRefused:
    return RequestRefused("data", f"problem {problem.id!r}: {error}")


Made = TypeVar("Made")
Made_co = TypeVar("Made_co", covariant=True)
Made_contra = TypeVar("Made_contra", contravariant=True)


class Records(Protocol[Made_co]):
    """What makes a recording of one rollout."""

    async def record(self, problem: LabelledProblem, rollout: int) -> Made_co:
        """Runs it."""


class RecordingLog(Protocol[Made_contra]):
    """Where finished recordings are kept; used by one thread at a time, not the event loop's."""

    def keys(self) -> Collection[Key]:
        """Which recordings are finished."""

    def append(self, recording: Made_contra, /) -> None:
        """Keeps one more: once it returns, a kill does not lose it."""


async def record_missing(
    recorder: Records[Made],
    problems: Sequence[LabelledProblem],
    rollouts: int,
    log: RecordingLog[Made],
    progress: OnProgress = tell_nobody,
    concurrency: int = CONCURRENCY,
) -> None:
    """Records `rollouts` rollouts of every problem that the log does not hold yet.

    Args:
        progress: told how many of how many are finished, at the start and after each.
        concurrency: rollouts in flight.

    Raises:
        EngineDead: the engine died; what was finished is in the log.
        RequestRefused: a problem does not fit into the model's context.
    """
    wanted = {(problem.id, rollout): problem for problem in problems for rollout in range(rollouts)}
    stored = set(await asyncio.to_thread(log.keys))
    todo = [key for key in wanted if key not in stored]
    done, missing, appending = len(wanted) - len(todo), iter(todo), asyncio.Lock()
    progress(done, len(wanted))

    async def work() -> None:
        nonlocal done
        for key in missing:
            recording = await recorder.record(wanted[key], rollout=key[1])
            async with appending:
                await asyncio.to_thread(log.append, recording)
            done += 1
            progress(done, len(wanted))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(work())
    except ExceptionGroup as failures:  # the first one stopped the others
        raise failures.exceptions[0] from None


def to_rollouts(recordings: Iterable[RecordedRollout], grader: AnswerGrader) -> list[table.Rollout]:
    """Recordings as calibration's traces: the first answer of each reading, grouped into classes.

    Classes are numbered within a problem, over all its rollouts and readings.
    """
    by_problem: dict[str, list[RecordedRollout]] = {}
    for recording in recordings:
        by_problem.setdefault(recording.problem_id, []).append(recording)
    rollouts = []
    for recorded in by_problem.values():
        answers = [reading.answers[0] for r in recorded for reading in r.readings]
        classes = iter(grader.classes(answers))
        rollouts += [_rollout(recording, classes) for recording in recorded]
    return rollouts


def _rollout(recording: RecordedRollout, classes: Iterator[int]) -> table.Rollout:
    readings = [
        table.Reading(
            tokens=reading.tokens,
            confidence=reading.confidence,
            answer=reading.answers[0],
            answer_class=next(classes),
            answer_tokens=reading.answer_tokens,
            correct=reading.correct[0],
        )
        for reading in recording.readings
    ]
    return table.Rollout(
        problem_id=recording.problem_id,
        rollout=recording.rollout,
        end_reason=ExitReason.NATURAL if recording.natural else ExitReason.BUDGET,
        checkpoints=tuple(readings[:-1]),
        final=readings[-1],
        group=recording.group,
    )
