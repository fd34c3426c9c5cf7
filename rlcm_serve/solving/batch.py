"""Answers a file of questions without a server; an interrupted run continues where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from rlcm_serve.answers.grading.verdicts import Verdicts
from rlcm_serve.core import Question, Solution
from rlcm_serve.events import OnProgress, ignore_progress
from rlcm_serve.recording.concurrency import run_all
from rlcm_serve.recording.journal import Journal
from rlcm_serve.recording.json_lines import parse_rows
from rlcm_serve.recording.problems import digest_text
from rlcm_serve.solving.first_asks import FirstAsks
from rlcm_serve.solving.solver import Solver
from rlcm_serve.solving.unanswered import UnansweredHere, digest_of_ask

Describe = Callable[[Solution], dict[str, Any]]
"""The plain values that are written for a solution."""


@dataclass(frozen=True, slots=True)
class FileQuestion:
    """One line of the file: a problem and, if it is known, the reference answer."""

    id: str
    problem: str
    answer: str | None = None
    kind: str | None = None

    @classmethod
    def from_json(cls, row: Any) -> Self:
        """The question of one line. Without an id, the id is a digest of the problem.

        Raises:
            ValueError: `problem` is not a text, or is empty.
        """
        if not isinstance(row, dict):
            raise ValueError("not a JSON object")
        problem = row.get("problem")
        if not isinstance(problem, str) or not problem.strip():
            raise ValueError(f"'problem' is {problem!r}: give it a text")
        id_, answer, kind = row.get("id"), row.get("answer"), row.get("kind")
        return cls(
            id=digest_text(problem) if id_ is None else str(id_),
            problem=problem,
            answer=None if answer is None else str(answer),
            kind=None if kind is None else str(kind),
        )

    def under(self, settings: Question) -> Question:
        """The question with these settings; its own kind replaces that of the settings."""
        return replace(settings, text=self.problem, kind=self.kind or settings.kind)


def read_questions(path: Path) -> list[FileQuestion]:
    """Reads JSON Lines with `problem` and, optionally, `id`, `answer` and `kind` in each line.

    Raises:
        RequestRefused: a line is malformed, or an id comes twice; the message names the line.
    """
    remedy = "each line is a JSON object with 'problem' and, if it is known, 'answer'"
    with path.open("rb") as file:
        return parse_rows(file, str(path), "file", FileQuestion.from_json, remedy)


async def solve_all(
    solver: Solver,
    questions: Sequence[FileQuestion],
    settings: Question,
    journal: Journal,
    describe: Describe,
    progress: OnProgress = ignore_progress,
) -> list[dict[str, Any]]:
    """Answers the questions that the journal does not hold yet, all with the same settings.

    A question that is in the file again after it was not answered gets no guarantee there.

    Args:
        solver: of a running engine.
        questions: of the whole file.
        settings: of every question; its problem is replaced, and its kind if the line has one.
        journal: keeps finished rows.
        describe: makes the row of a solution.
        progress: called at the start and after each question.

    Returns:
        A row for each question, in their order: `id`, the values from `describe` and, if the
        reference is known, `reference` and `correct` (null for an abstention).

    Raises:
        Infeasible, RequestRefused, EngineDead: the journal holds what was finished.
    """
    rows = {row["id"]: row for row in journal.rows()}
    missing = [question for question in questions if question.id not in rows]
    first_asks = FirstAsks(unanswered := UnansweredHere())
    for question in questions:
        if question.id in rows and rows[question.id]["answer"] is None:
            asked = solver.prepare(question.under(settings)).terms.asked
            await unanswered.add(None, digest_of_ask(asked))
    progress(len(rows), len(questions))

    async def answer(question: FileQuestion) -> None:
        prepared = solver.prepare(question.under(settings))
        async with first_asks.ask(prepared, digest_of_ask(prepared.terms.asked)) as ask:
            solution = ask.solution = await solver.run(ask.prepared)
        grade = await _grade(solver.verdicts(prepared), question, solution)
        rows[question.id] = {"id": question.id} | describe(solution) | grade
        journal.add(rows[question.id])
        progress(len(rows), len(questions))

    await run_all(missing, answer)
    return [rows[question.id] for question in questions]


async def _grade(grader: Verdicts, question: FileQuestion, solution: Solution) -> dict[str, Any]:
    if question.answer is None:
        return {}
    answer = solution.answer
    correct = None if answer is None else await grader.equal_async(answer, question.answer)
    return {"reference": question.answer, "correct": correct}


def summary(rows: Iterable[dict[str, Any]]) -> str:
    """Counts of answered and wrong questions, in one line."""
    rows = list(rows)
    answered = [row for row in rows if row["answer"] is not None]
    text = f"{len(rows)} questions, {len(answered)} answered"
    graded = [row["correct"] for row in answered if "correct" in row]
    if graded:
        wrong = graded.count(False)
        text += f", {wrong} of {len(graded)} wrong ({wrong / len(graded):.1%})"
    return text


_SAME_FOR_ALL = ("statement", "n_problems", "method", "covers", "does_not_cover", "verified")
"""Fields of a guarantee that depend only on the certificate and its level."""


def without_statement(row: dict[str, Any]) -> dict[str, Any]:
    """A row as the answers file has it: of its guarantee only the certificate and the levels."""
    guarantee = row.get("guarantee")
    if guarantee is None:
        return row
    short = {name: value for name, value in guarantee.items() if name not in _SAME_FOR_ALL}
    return row | {"guarantee": short}


def statements(rows: Iterable[dict[str, Any]]) -> list[str]:
    """One line for each guarantee that the rows were answered under: its statement and limits."""
    found: dict[tuple[str, float], str] = {}
    for row in rows:
        if guarantee := row.get("guarantee"):
            key = (guarantee["certificate"], guarantee["alpha_certified"])
            limits = "; ".join(guarantee.get("does_not_cover", ()))
            found[key] = guarantee["statement"] + (f" Not covered: {limits}." if limits else "")
            if verified := guarantee.get("verified"):
                found[key] += f" Figures verified by: {verified}."
    return [
        f"certificate {certificate}, alpha {alpha:g}: {said}"
        for (certificate, alpha), said in found.items()
    ]


def digest_questions(questions: Iterable[FileQuestion]) -> str:
    """SHA-256 of ids, problems and answers, shortened to 16 hexadecimal digits."""
    return digest_text(json.dumps([[one.id, one.problem, one.answer] for one in questions]))
