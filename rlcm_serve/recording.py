"""Recording: labelled problems run through the engine at full budget, an answer at every reading.

Two uses share it: calibration records what each exit would have answered (one forced answer per
checkpoint), probe training how often a prefix leads to the right one (K forced answers, RLCM
App. A). What is finished is kept in a journal, so an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any, Self

from calibration import FULL_BUDGET, ExitReason
from calibration.trace_table import Reading, Rollout
from rlcm_serve.answering import answer_thought
from rlcm_serve.answers import AnswerGrader
from rlcm_serve.core import Checkpoint, Thought, TokenIds
from rlcm_serve.engine.base import ReasoningEngine
from rlcm_serve.errors import RequestRefused

CONCURRENCY = 64
"""Rollouts in flight; enough to fill vLLM's batch, few enough to bound what an interrupt loses."""


@dataclass(frozen=True, slots=True)
class LabelledProblem:
    """A problem and its reference answer; `group` names a template or source it shares."""

    id: str
    problem: str
    answer: str
    group: str | None = None

    @classmethod
    def from_json(cls, row: Any) -> Self:
        """The problem of one line; without an id, its text makes one.

        So the same problem has the same id in every file, and `rlcm fit` sees whether two share it.

        Raises:
            ValueError: there is no text for `problem` or `answer`.
        """
        if not isinstance(row, dict):
            raise ValueError("not a JSON object")
        text = {key: "" if row.get(key) is None else str(row[key]) for key in ("problem", "answer")}
        if missing := [key for key, value in text.items() if not value.strip()]:
            raise ValueError(f"no {' and no '.join(missing)}")
        id_, group = row.get("id"), row.get("group")
        return cls(
            id=_digest(text["problem"]) if id_ is None else str(id_),
            group=None if group is None else str(group),
            **text,
        )


def read_problems(path: Path) -> list[LabelledProblem]:
    """Reads JSONL with `problem`, `answer` and, optionally, `id` and `group` in each line.

    Raises:
        RequestRefused: a line is malformed or an id comes twice; the message names the line.
    """
    problems: dict[str, LabelledProblem] = {}
    with path.open("rb") as file:  # bytes: a text's U+2028 ends no line
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                problem = LabelledProblem.from_json(json.loads(line))
            except ValueError as error:
                raise RequestRefused(
                    "data",
                    f"{path}, line {number}: {error}; each line is a JSON object with 'problem' "
                    "and 'answer'",
                ) from error
            if problem.id in problems:
                raise RequestRefused(
                    "data",
                    f"{path}, line {number}: {problem.id!r} comes twice; each id, and without ids "
                    "each problem, may come once",
                )
            problems[problem.id] = problem
    if not problems:
        raise RequestRefused("data", f"{path} holds no problem")
    return list(problems.values())


def digest_problems(problems: Iterable[LabelledProblem]) -> str:
    """SHA-256 of problems and answers, shortened to 16 hexadecimal digits."""
    return _digest(json.dumps([astuple(problem) for problem in problems]))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class ForcedReading:
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
class Recording:
    """One rollout at full budget, with every reading; the last one is the final one."""

    problem_id: str
    rollout: int
    group: str | None
    prompt: TokenIds
    tokens: TokenIds
    natural: bool
    readings: tuple[ForcedReading, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values, for the journal."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Self:
        """The recording of `to_json`."""
        readings = tuple(
            ForcedReading(**(r | {"answers": tuple(r["answers"]), "correct": tuple(r["correct"])}))
            for r in plain["readings"]
        )
        ids = {"prompt": tuple(plain["prompt"]), "tokens": tuple(plain["tokens"])}
        return cls(**(plain | ids | {"readings": readings}))


class Recorder:
    """Runs labelled problems through an engine."""

    def __init__(self, engine: ReasoningEngine, grader: AnswerGrader, answers: int = 1) -> None:
        self.engine, self.grader, self.answers = engine, grader, answers

    async def record(self, problem: LabelledProblem, rollout: int) -> Recording:
        """One rollout at full budget, and `answers` answers forced at every checkpoint of it."""
        prompt = self.engine.prompt(problem.problem)
        thought = await self._think(problem, prompt)
        readings = await asyncio.gather(
            *(self._reading(problem, prompt, thought, at) for at in thought.checkpoints)
        )
        return Recording(
            problem_id=problem.id,
            rollout=rollout,
            group=problem.group,
            prompt=prompt,
            tokens=thought.tokens,
            natural=thought.exit is ExitReason.NATURAL,
            readings=tuple(readings),
        )

    async def _think(self, problem: LabelledProblem, prompt: TokenIds) -> Thought:
        budget = self.engine.identity.budget
        try:
            async with aclosing(self.engine.think(prompt, FULL_BUDGET, budget)) as events:
                async for event in events:
                    if isinstance(event, Thought):
                        return event
        except RequestRefused as error:
            raise RequestRefused("data", f"problem {problem.id!r}: {error}") from error
        raise RuntimeError("the engine's events ended without a thought")

    async def _reading(
        self, problem: LabelledProblem, prompt: TokenIds, thought: Thought, at: Checkpoint
    ) -> ForcedReading:
        stopped = thought if at.is_final else thought.cut(at.tokens)
        budget = self.engine.identity.budget
        answers, cost = await answer_thought(self.engine, prompt, stopped, budget, self.answers)
        correct = [
            answer is not None and await self.grader.equal_async(answer, problem.answer)
            for answer in answers
        ]
        return ForcedReading(at.tokens, at.confidence, answers, tuple(correct), cost)


class Journal:
    """An append-only file of finished recordings, for one run's settings.

    Raises:
        RequestRefused: the file was written under other settings.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        header = json.dumps(settings, sort_keys=True)
        if path.exists():
            with path.open() as file:
                stored = file.readline().rstrip("\n")
            if stored != header:
                raise RequestRefused(
                    "out",
                    f"{path} was written under other settings: {stored}, not {header}; delete it "
                    "to begin anew, or use the settings it was begun with",
                )
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(header + "\n")

    def recordings(self) -> Iterator[Recording]:
        """What is finished. A line cut off by a kill is passed over, and will be recorded again."""
        with self.path.open() as file:
            next(file)
            for line in file:
                if line.endswith("\n"):
                    yield Recording.from_json(json.loads(line))

    def append(self, recording: Recording) -> None:
        """Adds one recording, on a line of its own."""
        with self.path.open("a") as file:
            file.write(json.dumps(recording.to_json()) + "\n")

    def repair(self) -> None:
        """Cuts off a last line that was not finished."""
        os.truncate(self.path, self.path.read_bytes().rfind(b"\n") + 1)


async def record_all(
    recorder: Recorder,
    problems: Sequence[LabelledProblem],
    rollouts: int,
    journal: Journal,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Recording]:
    """Records `rollouts` rollouts of every problem that the journal does not hold yet.

    Returns:
        All recordings, in the order of problems and rollouts.

    Raises:
        EngineDead: the engine died; what was finished is in the journal.
        RequestRefused: a problem does not fit into the model's context.
    """
    journal.repair()
    wanted = {(problem.id, rollout): problem for problem in problems for rollout in range(rollouts)}
    stored = {(r.problem_id, r.rollout): r for r in journal.recordings()}
    finished = {key: stored[key] for key in wanted if key in stored}
    missing = iter([key for key in wanted if key not in finished])
    progress(len(finished), len(wanted))

    async def work() -> None:
        for key in missing:
            finished[key] = await recorder.record(wanted[key], rollout=key[1])
            journal.append(finished[key])
            progress(len(finished), len(wanted))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENCY):
                group.create_task(work())
    except ExceptionGroup as failures:  # the first one stopped the others
        raise failures.exceptions[0] from None
    return [finished[key] for key in wanted]


def to_rollouts(recordings: Iterable[Recording], grader: AnswerGrader) -> list[Rollout]:
    """Recordings as calibration's traces: the first answer of each reading, grouped into classes.

    Classes are numbered within a problem, over all its rollouts and readings.
    """
    by_problem: dict[str, list[Recording]] = {}
    for recording in recordings:
        by_problem.setdefault(recording.problem_id, []).append(recording)
    rollouts = []
    for recorded in by_problem.values():
        answers = [reading.answers[0] for r in recorded for reading in r.readings]
        classes = iter(grader.classes(answers))
        rollouts += [_rollout(recording, classes) for recording in recorded]
    return rollouts


def _rollout(recording: Recording, classes: Iterator[int]) -> Rollout:
    readings = [
        Reading(
            tokens=reading.tokens,
            confidence=reading.confidence,
            answer=reading.answers[0],
            answer_class=next(classes),
            answer_tokens=reading.answer_tokens,
            correct=reading.correct[0],
        )
        for reading in recording.readings
    ]
    return Rollout(
        problem_id=recording.problem_id,
        rollout=recording.rollout,
        end_reason=ExitReason.NATURAL if recording.natural else ExitReason.BUDGET,
        checkpoints=tuple(readings[:-1]),
        final=readings[-1],
        group=recording.group,
    )
