import json
from collections import Counter
from typing import Any

import pytest

from rlcm_serve.evaluation.datasets.questions import (
    BOXED,
    PreparedProblem,
    boxed_question,
    choice_question,
    code_question,
    gsm8k_question,
    hidden_choice_question,
    olympiad_question,
    plain_question,
)
from rlcm_serve.evaluation.grading import grader_named

OPTIONS = ["red", "green", "blue", "grey"]


def test_a_plain_question_is_put_as_it_stands() -> None:
    assert plain_question({"problem": " 1+1? ", "answer": 2}) == PreparedProblem(" 1+1? ", "2")


def test_mathematics_is_asked_to_be_boxed() -> None:
    assert boxed_question({"problem": "1+1?", "answer": "2"}) == PreparedProblem(
        "1+1?" + BOXED, "2"
    )


def test_the_reference_of_gsm8k_follows_its_hashes() -> None:
    solution = "She has 2 + 2 = <<2+2=4>>4.\n#### 1,004"
    assert gsm8k_question({"problem": "p", "answer": solution}).answer == "1,004"
    assert gsm8k_question({"problem": "p", "answer": "18"}).answer == "18"


def test_several_answers_of_olympiadbench_become_one() -> None:
    row = {"problem": "p", "answer": ["$1$", "$2$"], "context": "Let $x$ be."}
    assert olympiad_question(row) == PreparedProblem("Let $x$ be.\n\np" + BOXED, "$1$,$2$")
    assert olympiad_question({"problem": "p", "answer": "$3$", "context": None}).answer == "$3$"


@pytest.mark.parametrize("answer", [2, "2", "C", "c", "blue"])
def test_the_right_option_is_told_by_number_letter_or_text(answer: Any) -> None:
    row = {"problem": "Which?", "options": OPTIONS, "answer": answer, "context": "A sky."}
    asked = choice_question(row)
    assert asked.problem.startswith("A sky.\n\nWhich?\n\nA) red\nB) green\nC) blue\nD) grey\n")
    assert json.loads(asked.answer) == {"letter": "C", "options": OPTIONS}


@pytest.mark.parametrize("answer", [4, "E", "violet", "", None])
def test_an_answer_that_is_no_option_is_refused(answer: Any) -> None:
    with pytest.raises(ValueError, match="not one of the 4 options"):
        choice_question({"problem": "Which?", "options": OPTIONS, "answer": answer})


@pytest.mark.parametrize("listed", ['["red", "0.10", 2]', ["red", "0.10", "2"], ("red", "0.10", 2)])
def test_options_may_be_a_json_list_in_a_text_as_in_a_cell_of_a_csv(listed: Any) -> None:
    asked = choice_question({"problem": "Which?", "options": listed, "answer": "1"})
    assert json.loads(asked.answer) == {"letter": "B", "options": ["red", "0.10", "2"]}


@pytest.mark.parametrize(
    "listed", ["red, blue", "red", '{"A": "red"}', {"A": "red", "B": "blue"}, '["red", null]', None]
)
def test_options_that_are_no_list_of_texts_are_refused(listed: Any) -> None:
    with pytest.raises(ValueError, match="not a list of texts: give a list"):
        choice_question({"problem": "Which?", "options": listed, "answer": "0"})


@pytest.mark.parametrize(
    ("options", "answer", "named"),
    [
        (["2", "4", "6", "8"], "2", "A or C"),
        (["C", "H", "N", "O"], "C", "A or C"),
        (["C", "H", "N", "c"], "c", "C or D"),
        (["same", "same"], "same", "A or B"),
    ],
)
def test_an_answer_that_may_mean_two_options_is_refused(
    options: list[str], answer: str, named: str
) -> None:
    with pytest.raises(ValueError, match=f"{answer!r} may mean option {named}"):
        choice_question({"problem": "Which?", "options": options, "answer": answer})


@pytest.mark.parametrize(
    ("options", "answer", "letter"),
    [
        (["2", "4", "6", "8"], 2, "C"),
        (["2", "4", "6", "8"], "8", "D"),
        (["2", "4", "6", "8"], "B", "B"),
        (["0", "1"], "1", "B"),
        (["C", "H", "N", "O"], "N", "C"),
        (["C", "H", "N", "O"], 2, "C"),
    ],
)
def test_an_answer_that_means_one_option_is_read(
    options: list[str], answer: Any, letter: str
) -> None:
    asked = choice_question({"problem": "Which?", "options": options, "answer": answer})
    assert json.loads(asked.answer)["letter"] == letter


@pytest.mark.parametrize("answer", [0, 26, "A", "26", "option 26"])
def test_more_options_than_letters_are_refused(answer: Any) -> None:
    options = [f"option {number}" for number in range(27)]
    with pytest.raises(ValueError, match=r"27 options, .*one of 26 letters: leave some out"):
        choice_question({"problem": "Which?", "options": options, "answer": answer})
    asked = choice_question({"problem": "Which?", "options": options[:26], "answer": 25})
    assert json.loads(asked.answer)["letter"] == "Z"


def test_a_number_is_no_text_of_an_option() -> None:
    with pytest.raises(ValueError, match="not one of the 4 options"):
        choice_question({"problem": "Which?", "options": ["2", "4", "6", "8"], "answer": 8})


def test_options_are_shuffled_by_the_question_alone() -> None:
    letters = Counter()
    grader = grader_named("choice")
    for number in range(400):
        row = {"problem": f"Which, {number}?", "right": "red"}
        row |= {f"wrong_{n}": OPTIONS[n] for n in (1, 2, 3)}
        asked = hidden_choice_question(row)
        assert asked == hidden_choice_question(row)
        plain = json.loads(asked.answer)
        assert sorted(plain["options"]) == sorted(OPTIONS)
        assert f"{plain['letter']}) red" in asked.problem
        assert grader.grade([(plain["letter"], asked.answer), ("red", asked.answer)]) == [True] * 2
        letters[plain["letter"]] += 1
    assert all(60 < letters[letter] < 140 for letter in "ABCD")


def code_row(**changed: Any) -> dict[str, Any]:
    row = {"problem": "Add.", "starter_code": "", "metadata": "{}"}
    return row | {"public_test_cases": "[]", "private_test_cases": "[]"} | changed


def test_a_program_is_asked_for_as_livecodebench_does() -> None:
    asked = code_question(code_row())
    assert "Read the inputs from stdin" in asked.problem
    assert json.loads(asked.answer) == {"function": None, "tests": ["[]", "[]"]}
    starter = "class Solution:\n    def add(self):"
    asked = code_question(code_row(starter_code=starter, metadata='{"func_name": "add"}'))
    assert f"```python\n{starter}\n```" in asked.problem
    assert json.loads(asked.answer)["function"] == "add"


def test_a_function_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="func_name"):
        code_question(code_row(starter_code="class Solution:"))


@pytest.mark.parametrize("question", [plain_question, boxed_question, gsm8k_question])
@pytest.mark.parametrize("row", [{"problem": " ", "answer": "1"}, {"problem": "p", "answer": None}])
def test_an_empty_field_is_refused(question: Any, row: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="is empty"):
        question(row)
