import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from calibration import ExitPolicy
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.core import Question, Solution
from rlcm_serve.errors import EngineDead, RequestRefused
from rlcm_serve.recording.journal import Journal
from rlcm_serve.solving.batch.answers import (
    MOST_DEATHS,
    MOST_FAILED_FIRST,
    Answering,
    AnswersRows,
    Describe,
    solve_all,
    write_answers,
)
from rlcm_serve.solving.batch.questions import FileQuestion, QuestionFile, QuestionRow
from rlcm_serve.solving.batch.summary import BatchSummary
from rlcm_serve.solving.guarantees import Guarantees
from rlcm_serve.solving.solver import Solver
from tests.rlcm_serve.scripted_engine import IDENTITY, Script, ScriptedEngine, certificate

SETTINGS = Question("any", alpha=0.1)
ASKED = [
    {"id": f"q{number}", "problem": f"What is {number}?", "answer": "7.0"} for number in range(100)
]


def solver(engine: ScriptedEngine, grader: AnswerGrader) -> Solver:
    policy = ExitPolicy(lambda_low=0.1, patience=16, lambda_high=0.9)
    return Solver(engine, Guarantees([IDENTITY], [certificate({0.1: policy})]), grader)


def written(path: Path, rows: list[dict[str, Any]]) -> QuestionFile:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return QuestionFile(path)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def describe(solution: Solution) -> dict[str, Any]:
    return {"answer": solution.answer, "tokens": solution.tokens}


def answering(
    engine: ScriptedEngine, grader: AnswerGrader, describe: Describe = describe
) -> Answering:
    solving = solver(engine, grader)

    async def ready() -> Solver:
        await engine.check_health()  # nobody restarts it
        return solving

    return Answering(ready, SETTINGS, describe)


def test_each_question_gets_a_row_in_its_place(grader: AnswerGrader, tmp_path: Path) -> None:
    engine = ScriptedEngine(Script(), Script(own=r"\boxed{8}"), Script(confidences=(0.0,)))
    asked = written(tmp_path / "q", [*ASKED[:3], {"id": "q3", "problem": "What is 3?"}])
    with Journal(tmp_path / "j", {}) as journal:
        asyncio.run(solve_all(answering(engine, grader), asked, journal))
        said = write_answers(asked, journal, tmp_path / "out")
    rows = lines(tmp_path / "out")
    assert [row["id"] for row in rows] == ["q0", "q1", "q2", "q3"]
    assert [row["answer"] for row in rows] == ["7", "8", None, "7"]
    assert [row.get("correct", "unknown") for row in rows] == [True, False, None, "unknown"]
    assert said.counts() == "4 questions, 3 answered, 1 of 2 wrong (50.0%)"


def test_a_question_that_cannot_be_answered_has_its_reason_and_the_others_go_on(
    grader: AnswerGrader, tmp_path: Path
) -> None:
    long = {"id": "long", "problem": "What " * 101}
    asked = written(tmp_path / "q", [*ASKED[:2], long, ASKED[2]])
    with Journal(tmp_path / "j", {}) as journal:
        asyncio.run(solve_all(answering(ScriptedEngine(), grader), asked, journal))
        said = write_answers(asked, journal, tmp_path / "out")
    rows = lines(tmp_path / "out")
    assert [row.get("answer") for row in rows] == ["7", "7", None, "7"]
    assert rows[2] == {
        "row": 2,
        "id": "long",
        "error": "the prompt has over 100 tokens: shorten it",
    }
    assert said.counts().endswith(
        "3 answered, 0 of 3 wrong (0.0%), 1 failed (their rows have `error`)"
    )


def test_a_file_whose_first_questions_all_fail_ends(grader: AnswerGrader, tmp_path: Path) -> None:
    asked = written(tmp_path / "q", [row | {"problem": row["problem"] * 50} for row in ASKED])
    with Journal(tmp_path / "j", {}) as journal:
        with pytest.raises(RequestRefused, match=f"the first {MOST_FAILED_FIRST} rows all failed"):
            asyncio.run(solve_all(answering(ScriptedEngine(), grader), asked, journal))
        assert not [*journal.rows()], "so the next run asks all of them again"


async def test_rows_that_fail_before_slow_ones_end_do_not_end_the_run(tmp_path: Path) -> None:
    """Every fourth row is bad, and fails while the good ones before it are being answered."""

    class Slow(AnswersRows):
        async def remember_declined(self, question: FileQuestion) -> None:
            raise AssertionError("nothing was declined")

        async def answer(self, row: QuestionRow) -> dict[str, Any]:
            if row.number % 4 == 3:
                return {"row": row.number, "error": "blank"}
            await asyncio.sleep(0.02)
            return {"row": row.number, "answer": "7"}

    asked = written(tmp_path / "q", [{"problem": f"What is {number}?"} for number in range(100)])
    with Journal(tmp_path / "j", {}) as journal:
        await solve_all(Slow(), asked, journal)
        rows = {row["row"]: "error" in row for row in journal.rows()}
    assert rows == {number: number % 4 == 3 for number in range(100)}


@pytest.mark.parametrize("count", [3, MOST_FAILED_FIRST - 1])
def test_rows_that_fail_first_are_kept_once_one_is_answered_or_all_are_done(
    grader: AnswerGrader, tmp_path: Path, count: int
) -> None:
    long = [{"problem": "What " * 101 + str(number)} for number in range(count)]
    for name, rows in (("failed", long), ("mixed", [*long, *ASKED[:2]])):
        asked = written(tmp_path / name, rows)
        with Journal(tmp_path / f"{name}.j", {}) as journal:
            asyncio.run(solve_all(answering(ScriptedEngine(), grader), asked, journal))
            numbers = [row["row"] for row in journal.rows()]
        assert sorted(numbers) == [*range(len(rows))]


def promised(solution: Solution) -> dict[str, Any]:
    return {"answer": solution.answer, "why": solution.no_guarantee_reason}


def test_a_question_that_comes_again_in_the_file_gets_no_guarantee_unless_it_was_answered(
    grader: AnswerGrader, tmp_path: Path
) -> None:
    asked = [{"id": name, "problem": "What  is 3?"} for name in ("first", "again", "at last")]
    alone = Script(confidences=(0.0,))

    def rows_of(engine: ScriptedEngine, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        file = written(tmp_path / "q", questions)
        with Journal(tmp_path / "j", {}) as journal:
            asyncio.run(solve_all(answering(engine, grader, promised), file, journal))
            return list(journal.rows())

    (first,) = rows_of(ScriptedEngine(alone), asked[:1])
    assert (first["answer"], first["why"]) == (None, None)
    _, *again = rows_of(ScriptedEngine(Script()), asked)  # an interrupted file goes on
    assert [row["answer"] for row in again] == ["7", "7"]
    assert again[0]["why"].startswith("the question was asked before and not answered")
    assert again[1]["why"] is not None


def test_a_question_whose_ask_failed_gets_no_guarantee_when_the_file_goes_on(
    grader: AnswerGrader, tmp_path: Path
) -> None:
    asked = [{"id": "a", "problem": "What is 3?"}, {"id": "b", "problem": "What is 3?"}]
    asked.append({"id": "long", "problem": "What " * 101})  # was never asked
    with Journal(tmp_path / "j", {}) as journal:
        failed = {"error": "the process that compares answers was killed"}
        journal.add({"row": 0, "id": "a", **failed})
        journal.add({"row": 2, "id": "long", "error": "the prompt has over 100 tokens"})
        file = written(tmp_path / "q", asked)
        asyncio.run(solve_all(answering(ScriptedEngine(), grader, promised), file, journal))
        *_, again = journal.rows()
    assert again["why"].startswith("the question was asked before and not answered")


class Dying(ScriptedEngine):
    """Dies when it is asked for the thirtieth sample."""

    async def check_health(self) -> None:
        self.dead = len(self.policies) >= 30
        await super().check_health()


def test_an_interrupted_file_goes_on_where_it_stopped(grader: AnswerGrader, tmp_path: Path) -> None:
    file, asked = tmp_path / "j", written(tmp_path / "q", ASKED)
    with Journal(file, {"alpha": 0.1}) as journal:
        with pytest.raises(EngineDead, match="restart"):
            asyncio.run(solve_all(answering(Dying(), grader), asked, journal))
        kept = list(journal.rows())
    with file.open("a") as cut_off:
        cut_off.write('{"id": "q99", "answ')  # a kill in the middle of a row
    engine, seen = ScriptedEngine(), list[tuple[int, int]]()
    with Journal(file, {"alpha": 0.1}) as journal:
        asyncio.run(
            solve_all(
                answering(engine, grader),
                asked,
                journal,
                lambda done, total: seen.append((done, total)),
            )
        )
        finished = [row["id"] for row in journal.rows()]
        write_answers(asked, journal, tmp_path / "out")
    assert len(engine.policies) == len(ASKED) - len(kept)
    assert seen == [(done, 100) for done in range(len(kept), 101)]
    assert [row["id"] for row in lines(tmp_path / "out")] == [row["id"] for row in ASKED]
    assert len(set(finished)) == len(finished) == 100
    with pytest.raises(RequestRefused, match="other settings"):
        Journal(file, {"alpha": 0.2})


class Restarted(ScriptedEngine):
    """Dies with every question that is long, and is back at once."""

    async def think(self, *given: Any, **named: Any) -> Any:
        prompt = given[0]
        if len(prompt) > 60:
            raise EngineDead("killed")
        async for event in super().think(*given, **named):
            yield event


def test_a_question_at_which_the_engine_always_dies_has_the_reason(
    grader: AnswerGrader, tmp_path: Path
) -> None:
    deadly = {"id": "deadly", "problem": "What " * 70}
    asked = written(tmp_path / "q", [ASKED[0], deadly, ASKED[1]])
    with Journal(tmp_path / "j", {}) as journal:
        asyncio.run(solve_all(answering(Restarted(), grader), asked, journal))
        write_answers(asked, journal, tmp_path / "out")
    first, failed, last = lines(tmp_path / "out")
    assert (first["answer"], last["answer"]) == ("7", "7")
    assert failed["error"].startswith(f"the engine died {MOST_DEATHS} times during this question")


def test_rows_that_are_no_questions_have_their_reason_in_their_place(
    grader: AnswerGrader, tmp_path: Path
) -> None:
    (tmp_path / "q").write_text('{"problem": "What is 1?"}\n\nnot JSON\n{"problem": "What is 2?"}')
    asked = QuestionFile(tmp_path / "q")
    with Journal(tmp_path / "j", {}) as journal:
        asyncio.run(solve_all(answering(ScriptedEngine(), grader), asked, journal))
        said = write_answers(asked, journal, tmp_path / "out")
    rows = lines(tmp_path / "out")
    assert [row["row"] for row in rows] == [0, 1, 2]
    assert [row.get("answer") for row in rows] == ["7", None, "7"]
    assert rows[1]["error"].startswith("row 1 is not JSON")
    assert "1 failed" in said.counts()


def test_no_more_questions_are_asked_at_a_time_than_allowed(
    grader: AnswerGrader, tmp_path: Path
) -> None:
    running, most = 0, 0

    class Counting(ScriptedEngine):
        async def think(self, *given: Any, **named: Any) -> Any:
            nonlocal running, most
            running += 1
            most = max(most, running)
            try:
                await asyncio.sleep(0)
                async for event in super().think(*given, **named):
                    yield event
            finally:
                running -= 1

    asked = written(tmp_path / "q", ASKED)
    with Journal(tmp_path / "j", {}) as journal:
        asyncio.run(solve_all(answering(Counting(), grader), asked, journal, concurrency=5))
    assert most == 5


def test_the_statement_is_said_once_and_every_row_names_its_certificate() -> None:
    levels = {"certificate": "c0", "alpha_requested": 0.15, "alpha_certified": 0.1}
    told = {"statement": "At most 10% wrong.", "does_not_cover": ["other problems"]}
    row = {"id": "a", "answer": "7", "guarantee": levels | told}
    first = {"id": "a", "answer": "7", "guarantee": levels}
    without = {"id": "b", "answer": None, "guarantee": None}
    said = BatchSummary()
    assert [said.add(one) for one in (row, without, row)] == [first, without, first]
    told_once = "certificate c0, alpha 0.1: At most 10% wrong. Not covered: other problems."
    assert said.statements() == [told_once]
    row["guarantee"]["verified"] = "traces"
    said = BatchSummary()
    assert said.add(row)["guarantee"] == levels
    assert said.statements() == [f"{told_once} Figures verified by: traces."]
