"""A file of questions answered without a server; an interrupted run goes on where it stopped."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.core import Question, Solution
from rlcm_serve.errors import RequestRefused
from rlcm_serve.recording.journal import Journal
from rlcm_serve.solving.solver import Solver

CONCURRENCY = 64
"""Questions in flight; their samples share the engine's batch."""

Describe = Callable[[Solution], dict[str, Any]]
"""Turns a solution into the plain values that are written."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One line of the file: a problem, and the right answer where it is known."""

    id: str
    problem: str
    answer: str | None = None

    @classmethod
    def from_json(cls, row: Any) -> Self:
        """Without an id, the problem's text makes one.

        Raises:
            ValueError: there is no text for `problem`.
        """
        if not isinstance(row, dict):
            raise ValueError("not a JSON object")
        problem = row.get("problem")
        if not isinstance(problem, str) or not problem.strip():
            raise ValueError(f"'problem' is {problem!r}: give it a text")
        id_, answer = row.get("id"), row.get("answer")
        own = hashlib.sha256(problem.encode()).hexdigest()[:16]
        return cls(
            id=own if id_ is None else str(id_),
            problem=problem,
            answer=None if answer is None else str(answer),
        )


def read_questions(path: Path) -> list[Asked]:
    """Reads JSONL with `problem` and, optionally, `id` and `answer` in each line.

    Raises:
        RequestRefused: a line is malformed, or an id comes twice; the message names the line.
    """
    asked: dict[str, Asked] = {}
    with path.open("rb") as file:  # bytes: a text's U+2028 ends no line
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                one = Asked.from_json(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise RequestRefused("file", f"{path}, line {number}: {error}") from error
            if one.id in asked:
                raise RequestRefused(
                    "file", f"{path}, line {number}: {one.id!r} comes twice; each may come once"
                )
            asked[one.id] = one
    if not asked:
        raise RequestRefused("file", f"{path} holds no problem")
    return list(asked.values())


async def solve_all(
    solver: Solver,
    asked: Sequence[Asked],
    settings: Question,
    journal: Journal,
    describe: Describe,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[dict[str, Any]]:
    """Answers all that the journal does not hold yet, each under the same settings.

    Args:
        solver: of an engine that runs.
        asked: the questions.
        settings: of every question; its problem is replaced.
        journal: where finished rows are kept.
        describe: makes the row of a solution.
        progress: told how many are done, of how many.

    Returns:
        A row for each question, in their order: `id`, what `describe` says, and, where the right
        answer is known, `reference` and `correct` (null for an abstention).

    Raises:
        Infeasible, RequestRefused, EngineDead: what was finished is in the journal.
    """
    rows = {row["id"]: row for row in journal.rows()}
    missing = iter([one for one in asked if one.id not in rows])
    progress(len(rows), len(asked))

    async def work() -> None:
        for one in missing:
            solution = await solver.solve(replace(settings, text=one.problem))
            row = {"id": one.id} | describe(solution) | await _grade(solver.grader, one, solution)
            rows[one.id] = row
            journal.add(row)
            progress(len(rows), len(asked))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENCY):
                group.create_task(work())
    except ExceptionGroup as failures:  # the first one stopped the others
        raise failures.exceptions[0] from None
    return [rows[one.id] for one in asked]


async def _grade(grader: AnswerGrader, one: Asked, solution: Solution) -> dict[str, Any]:
    if one.answer is None:
        return {}
    given = solution.answer
    correct = None if given is None else await grader.equal_async(given, one.answer)
    return {"reference": one.answer, "correct": correct}


def summary(rows: Iterable[dict[str, Any]]) -> str:
    """What became of a file, in one line."""
    rows = list(rows)
    answered = [row for row in rows if row["answer"] is not None]
    said = f"{len(rows)} questions, {len(answered)} answered"
    graded = [row["correct"] for row in answered if "correct" in row]
    if graded:
        wrong = graded.count(False)
        said += f", {wrong} of {len(graded)} wrong ({wrong / len(graded):.1%})"
    return said


def digest_questions(asked: Iterable[Asked]) -> str:
    """SHA-256 of what is asked, shortened to 16 hexadecimal digits."""
    text = json.dumps([[one.id, one.problem, one.answer] for one in asked])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
