"""Answers a file of questions without a server; an interrupted run continues where it stopped.

Questions and answers stay on disk: a run holds the ids of the finished questions, and where in the
journal their answers are.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlcm_serve.answers.grading.verdicts import Verdicts
from rlcm_serve.core import Question, Solution
from rlcm_serve.errors import RequestRefused, RlcmError, WorkerFailed
from rlcm_serve.events import OnProgress, ignore_progress
from rlcm_serve.recording.concurrency import run_all
from rlcm_serve.recording.journal import Journal
from rlcm_serve.solving.batch.questions import FileQuestion, QuestionFile
from rlcm_serve.solving.batch.summary import BatchSummary
from rlcm_serve.solving.first_asks import FirstAsks
from rlcm_serve.solving.solver import Solver
from rlcm_serve.solving.unanswered import UnansweredHere, digest_of_ask

Describe = Callable[[Solution], dict[str, Any]]
"""The plain values that are written for a solution."""

MOST_FAILED_FIRST = 16
"""Failures without any answer, from the start, that end a run: then all questions would fail."""
_OF_THE_QUESTION = ("problem", "messages")
"""Fields of `RequestRefused` that blame the question, and not the settings of all questions."""


async def solve_all(
    solver: Solver,
    questions: QuestionFile,
    settings: Question,
    journal: Journal,
    describe: Describe,
    progress: OnProgress = ignore_progress,
) -> None:
    """Answers the questions that the journal does not hold yet, all with the same settings.

    The journal gets a row for each: `id`, the values from `describe` and, if the reference is
    known, `reference` and `correct` (null for an abstention). The row of a question that cannot be
    answered, because its prompt is too long or its answers cannot be compared, has `error` instead,
    and the others go on. A question that is in the file again after it was not answered gets no
    guarantee there.

    Args:
        solver: of a running engine.
        questions: of the whole file.
        settings: of every question; its problem is replaced, and its kind if the line has one.
        journal: keeps finished rows.
        describe: makes the row of a solution.
        progress: called at the start and after each question.

    Raises:
        Infeasible, RequestRefused, EngineDead: the journal holds what was finished.
    """
    done, declined = _finished(journal)
    first_asks = FirstAsks(unanswered := UnansweredHere())
    for question in questions if declined else ():
        if question.id in declined:
            asked = solver.prepare(question.under(settings)).terms.asked
            await unanswered.add(None, digest_of_ask(asked))
    count, n_failed = len(done), 0
    progress(count, questions.count)

    async def solve(question: FileQuestion) -> dict[str, Any]:
        prepared = solver.prepare(question.under(settings))
        async with first_asks.ask(prepared, digest_of_ask(prepared.terms.asked)) as ask:
            solution = ask.solution = await solver.run(ask.prepared)
        return describe(solution) | await _grade(solver.verdicts(prepared), question, solution)

    async def answer(question: FileQuestion) -> None:
        nonlocal count, n_failed
        try:
            row = await solve(question)
        except (RequestRefused, WorkerFailed) as error:
            n_failed += 1
            all_failed = n_failed > count and n_failed >= MOST_FAILED_FIRST
            if all_failed or not _is_of_the_question(error):
                raise
            row = {"error": str(error)}
        journal.add({"id": question.id} | row)
        count += 1
        progress(count, questions.count)

    await run_all((question for question in questions if question.id not in done), answer)


def write_answers(questions: QuestionFile, journal: Journal, out: Path) -> BatchSummary:
    """Writes the journal's rows in the order of the questions, completely or not at all.

    Args:
        questions: all in the journal.
        journal: see `solve_all`.
        out: JSON Lines; of a guarantee, a row has only the certificate and the levels.

    Returns:
        What the rows say together.
    """
    place = {row["id"]: at for at, row in journal.located()}
    said = BatchSummary()
    unfinished = out.with_suffix(".unfinished")
    with unfinished.open("w") as file:
        for row in journal.at(place[question.id] for question in questions):
            file.write(json.dumps(said.add(row)) + "\n")
    unfinished.replace(out)
    return said


def _finished(journal: Journal) -> tuple[set[str], set[str]]:
    """Ids of the finished questions, and of those among them that were not answered."""
    done, declined = set[str](), set[str]()
    for row in journal.rows():
        done.add(row["id"])
        if "error" not in row and row["answer"] is None:
            declined.add(row["id"])
    return done, declined


def _is_of_the_question(error: RlcmError) -> bool:
    return not isinstance(error, RequestRefused) or error.field in _OF_THE_QUESTION


async def _grade(grader: Verdicts, question: FileQuestion, solution: Solution) -> dict[str, Any]:
    if question.answer is None:
        return {}
    answer = solution.answer
    correct = None if answer is None else await grader.equal_async(answer, question.answer)
    return {"reference": question.answer, "correct": correct}
