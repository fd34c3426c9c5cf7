"""Answers a file of questions without a server; an interrupted run continues where it stopped.

Questions and answers stay on disk. A run holds one byte for each row of the file, and what
recognises the questions that were not answered.
"""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from rlcm_serve.answers.grading.verdicts import Verdicts
from rlcm_serve.core import Question, Solution
from rlcm_serve.errors import EngineDead, Infeasible, RequestRefused, RlcmError, WorkerFailed
from rlcm_serve.events import OnProgress, ignore_progress
from rlcm_serve.recording.concurrency import CONCURRENCY, run_all
from rlcm_serve.recording.journal import Journal
from rlcm_serve.solving.batch.files import write_rows
from rlcm_serve.solving.batch.questions import FileQuestion, QuestionFile, QuestionRow
from rlcm_serve.solving.batch.summary import BatchSummary
from rlcm_serve.solving.first_asks import FirstAsks
from rlcm_serve.solving.solver import Solver
from rlcm_serve.solving.unanswered import UnansweredHere, digest_of_ask

Describe = Callable[[Solution], dict[str, Any]]
"""The plain values that are written for a solution."""

MOST_FAILED_FIRST = 16
"""Failures without any answer, from the start, that end a run: then all questions would fail."""
MOST_DEATHS = 3
"""Deaths of the engine after which a question that it was answering each time counts as failed."""
_OF_THE_QUESTION = ("problem", "messages")
"""Fields of `RequestRefused` that blame the question, and not the settings of all questions."""
_MISSING, _DONE, _DECLINED = range(3)


class AnswersRows(Protocol):
    """Answers rows of files: on one engine (`Answering`), or on several."""

    async def answer(self, row: QuestionRow) -> dict[str, Any]:
        """As `Answering.answer`."""

    async def remember_declined(self, question: FileQuestion) -> None:
        """As `Answering.remember_declined`."""


@dataclass(frozen=True, slots=True)
class Answering:
    """Answers rows of files on one engine, each by a row of answers.

    A question that is asked again after it was not answered gets no guarantee.

    Attributes:
        ready: waits until there is a solver; raises `EngineDead` if there will be none.
        settings: of every question; its problem is replaced, and its kind if the row has one.
        describe: makes the values of a solution.
    """

    ready: Callable[[], Awaitable[Solver]]
    settings: Question
    describe: Describe
    _unanswered: UnansweredHere = field(default_factory=UnansweredHere)
    _first_asks: FirstAsks = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_first_asks", FirstAsks(self._unanswered))

    async def answer(self, row: QuestionRow) -> dict[str, Any]:
        """The row of answers for a row of the file.

        It has `row` (the number), `id`, the values from `describe` and, if the reference is known,
        `reference` and `correct` (null for an abstention). If the row is no question, or its
        question cannot be answered, it has `error` in their place.

        Raises:
            Infeasible, RequestRefused: no question can be answered with these settings.
            EngineDead: the engine died, and could not be restarted.
        """
        question = row.question
        if question is None:
            return {"row": row.number, "id": None, "error": row.error}
        named = {"row": row.number, "id": question.id}
        try:
            return named | await self._solve(question)
        except (Infeasible, RequestRefused, WorkerFailed) as error:
            if not _is_of(question, error):
                raise
            return named | {"error": str(error)}

    async def remember_declined(self, question: FileQuestion) -> None:
        """Notes a question that an earlier run has asked, and that got no answer."""
        try:
            prepared = (await self.ready()).prepare(question.under(self.settings))
        except (Infeasible, RequestRefused):  # it was refused then too, and not asked
            return
        await self._unanswered.add(None, digest_of_ask(prepared.terms.asked))

    async def _solve(self, question: FileQuestion) -> dict[str, Any]:
        for _ in range(MOST_DEATHS):
            solver = await self.ready()
            try:
                return await self._solve_once(solver, question)
            except EngineDead as error:
                died = error
        return {"error": f"the engine died {MOST_DEATHS} times during this question: {died}"}

    async def _solve_once(self, solver: Solver, question: FileQuestion) -> dict[str, Any]:
        prepared = solver.prepare(question.under(self.settings))
        async with self._first_asks.ask(prepared, digest_of_ask(prepared.terms.asked)) as ask:
            solution = ask.solution = await solver.run(ask.prepared)
        graded = await _grade(solver.verdicts(prepared), question, solution)
        return self.describe(solution) | graded


async def solve_all(
    answering: AnswersRows,
    questions: QuestionFile,
    journal: Journal,
    progress: OnProgress = ignore_progress,
    concurrency: int = CONCURRENCY,
) -> None:
    """Answers the rows that the journal does not hold yet.

    The journal gets one row for each, as they end. Until one is answered, failures wait: if the
    first ones all fail, nothing is kept, and the next run asks again.

    Args:
        answering: answers one row.
        questions: of the whole file.
        journal: keeps finished rows.
        progress: called at the start and after each row.
        concurrency: rows that are worked on at the same time.

    Raises:
        Infeasible, RequestRefused, EngineDead: the journal holds what was finished.
    """
    states = _states(journal, questions.count)
    if _DECLINED in states:
        for row in questions:
            if states[row.number] == _DECLINED and row.question is not None:
                await answering.remember_declined(row.question)
    count = questions.count - states.count(_MISSING)
    has_worked = count > 0
    failed: list[dict[str, Any]] = []
    missing_rows = (at for at, state in enumerate(states) if state == _MISSING)
    first = set(islice(missing_rows, MOST_FAILED_FIRST))
    can_end = len(first) == MOST_FAILED_FIRST
    progress(count, questions.count)

    def keep(rows: Sequence[dict[str, Any]]) -> None:
        nonlocal count
        for row in rows:
            journal.add(row)
            count += 1
            progress(count, questions.count)

    async def answer(row: QuestionRow) -> None:
        nonlocal has_worked
        answered = await answering.answer(row)
        has_worked = has_worked or "error" not in answered
        if has_worked:
            keep([*failed, answered])
            failed.clear()
            return
        failed.append(answered)
        # Bad rows end at once, good ones take long: so it counts where a row is, not when it ends.
        first.discard(row.number)
        if can_end and not first:
            raise RequestRefused(
                "file",
                f"the first {MOST_FAILED_FIRST} rows all failed. The last: {answered['error']}",
            )

    missing = (row for row in questions if states[row.number] == _MISSING)
    await run_all(missing, answer, concurrency)
    keep(failed)


def write_answers(questions: QuestionFile, journal: Journal, out: Path) -> BatchSummary:
    """Writes the journal's rows in the order of the questions, completely or not at all.

    Args:
        questions: all in the journal.
        journal: see `solve_all`.
        out: as `write_rows` takes it; of a guarantee, a row has only the certificate and the
            levels.

    Returns:
        What the rows say together.
    """
    places = array("Q", bytes(8 * questions.count))
    for place, row in journal.located():
        places[row["row"]] = place
    said = BatchSummary()
    write_rows(out, map(said.add, journal.at(places)))
    return said


def summary_of(journal: Journal) -> BatchSummary:
    """What the rows of a journal say together."""
    said = BatchSummary()
    for row in journal.rows():
        said.add(row)
    return said


def _states(journal: Journal, count: int) -> bytearray:
    """For each row of the file: missing, done, or done without an answer.

    A row that failed is of the last kind: its question may have been asked.
    """
    states = bytearray(count)
    for row in journal.rows():
        states[row["row"]] = _DECLINED if row.get("answer") is None else _DONE
    return states


def _is_of(question: FileQuestion, error: RlcmError) -> bool:
    """Whether an error blames this question, and not the settings of all."""
    if isinstance(error, Infeasible):
        return question.kind is not None
    return not isinstance(error, RequestRefused) or error.field in _OF_THE_QUESTION


async def _grade(grader: Verdicts, question: FileQuestion, solution: Solution) -> dict[str, Any]:
    if question.answer is None:
        return {}
    answer = solution.answer
    correct = None if answer is None else await grader.equal_async(answer, question.answer)
    return {"reference": question.answer, "correct": correct}
