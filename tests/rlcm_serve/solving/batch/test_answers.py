import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calibration import ExitPolicy
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.core import Question, Solution
from rlcm_serve.errors import EngineDead, RequestRefused
from rlcm_serve.recording.journal import Journal
from rlcm_serve.solving.batch.answers import MOST_FAILED_FIRST, solve_all, write_answers
from rlcm_serve.solving.batch.questions import FileQuestion, QuestionFile
from rlcm_serve.solving.batch.summary import BatchSummary
from rlcm_serve.solving.guarantees import Guarantees
from rlcm_serve.solving.solver import Solver
from tests.rlcm_serve.scripted_engine import IDENTITY, Script, ScriptedEngine, certificate

SETTINGS = Question("any", alpha=0.1)
ASKED = [
    {"id": f"q{number}", "problem": f"What is {number}?", "answer": "7.0"} for number in range(100)
]


@pytest.fixture(scope="module")
def grader() -> Iterator[AnswerGrader]:
    with AnswerGrader() as grader:
        yield grader


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


def test_each_question_gets_a_row_in_its_place(grader: AnswerGrader, tmp_path: Path) -> None:
    engine = ScriptedEngine(Script(), Script(own=r"\boxed{8}"), Script(confidences=(0.0,)))
    asked = written(tmp_path / "q", [*ASKED[:3], {"id": "q3", "problem": "What is 3?"}])
    with Journal(tmp_path / "j", {}) as journal:
        asyncio.run(solve_all(solver(engine, grader), asked, SETTINGS, journal, describe))
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
        asyncio.run(solve_all(solver(ScriptedEngine(), grader), asked, SETTINGS, journal, describe))
        said = write_answers(asked, journal, tmp_path / "out")
    rows = lines(tmp_path / "out")
    assert [row.get("answer") for row in rows] == ["7", "7", None, "7"]
    assert rows[2] == {"id": "long", "error": "the prompt has over 100 tokens: shorten it"}
    assert said.counts().endswith(
        "3 answered, 0 of 3 wrong (0.0%), 1 failed (their rows have `error`)"
    )


def test_a_file_whose_first_questions_all_fail_ends(grader: AnswerGrader, tmp_path: Path) -> None:
    asked = written(tmp_path / "q", [row | {"problem": row["problem"] * 50} for row in ASKED])
    with Journal(tmp_path / "j", {}) as journal:
        with pytest.raises(RequestRefused, match="over 100 tokens"):
            asyncio.run(
                solve_all(solver(ScriptedEngine(), grader), asked, SETTINGS, journal, describe)
            )
        assert len(list(journal.rows())) == MOST_FAILED_FIRST - 1


def promised(solution: Solution) -> dict[str, Any]:
    return {"answer": solution.answer, "why": solution.no_guarantee_reason}


def test_a_question_that_comes_again_in_the_file_gets_no_guarantee_unless_it_was_answered(
    grader: AnswerGrader, tmp_path: Path
) -> None:
    asked = [{"id": name, "problem": "What  is 3?"} for name in ("first", "again", "at last")]
    alone = Script(confidences=(0.0,))

    def rows_of(engine: ScriptedEngine, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        file, solving = written(tmp_path / "q", questions), solver(engine, grader)
        with Journal(tmp_path / "j", {}) as journal:
            asyncio.run(solve_all(solving, file, SETTINGS, journal, promised))
            return list(journal.rows())

    (first,) = rows_of(ScriptedEngine(alone), asked[:1])
    assert (first["answer"], first["why"]) == (None, None)
    _, *again = rows_of(ScriptedEngine(Script()), asked)  # an interrupted file goes on
    assert [row["answer"] for row in again] == ["7", "7"]
    assert again[0]["why"].startswith("the question was asked before and not answered")
    assert again[1]["why"] is not None


class Dying(ScriptedEngine):
    """Dies when it is asked for the thirtieth sample."""

    async def check_health(self) -> None:
        self.dead = len(self.policies) >= 30
        await super().check_health()


def test_an_interrupted_file_goes_on_where_it_stopped(grader: AnswerGrader, tmp_path: Path) -> None:
    file, asked = tmp_path / "j", written(tmp_path / "q", ASKED)
    with Journal(file, {"alpha": 0.1}) as journal:
        with pytest.raises(EngineDead, match="restart"):
            asyncio.run(solve_all(solver(Dying(), grader), asked, SETTINGS, journal, describe))
        kept = list(journal.rows())
    with file.open("a") as cut_off:
        cut_off.write('{"id": "q99", "answ')  # a kill in the middle of a row
    engine, seen = ScriptedEngine(), list[tuple[int, int]]()
    with Journal(file, {"alpha": 0.1}) as journal:
        asyncio.run(
            solve_all(
                solver(engine, grader),
                asked,
                SETTINGS,
                journal,
                describe,
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


def test_a_file_is_read_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    rows = [{"problem": "What is 1?", "id": 5}, {"problem": "What is\u20282?", "answer": 2}]
    file.write_text("\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n")
    asked = QuestionFile(file)
    first, second = asked
    assert asked.count == 2
    assert first == FileQuestion("5", "What is 1?")
    assert (second.problem, second.answer, len(second.id)) == ("What is\u20282?", "2", 16)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no problem"),
        ("[]", "line 1: not a JSON object"),
        ('{"problem": "What?"}\n{"problem": " "}', "line 2: 'problem' is ' '"),
        ('{"problem": 7}', "line 1: 'problem' is 7"),
        ('{"problem": "What?"}\n{"problem": "What?"}', "line 2: .* comes twice"),
        ("{", "line 1"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text(text)
    with pytest.raises(RequestRefused, match=said):
        QuestionFile(file)


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
