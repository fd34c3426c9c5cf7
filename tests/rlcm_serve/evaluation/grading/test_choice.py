import json

import pytest

from calibration.policy.voting import NO_ANSWER
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.grading.choice import ChoiceGrader

OPTIONS = ["nucleus", "mitochondria", "A ribosome", "7 or 8"]
GRADER = ChoiceGrader()


def reference(letter: str, options: list[str] = OPTIONS) -> str:
    return json.dumps({"letter": letter, "options": options})


@pytest.mark.parametrize(
    "answer",
    [
        *[
            "B",
            "b",
            "(B)",
            "[B]",
            "B)",
            "B.",
            "B:",
            " B ",
            r"\text{B}",
            r"\text{(B)}",
            r"\mathrm{B}",
        ],
        *["$B$", r"\boxed{B}", r"\boxed{\text{B}}", "**B**", "option B", "Answer: B"],
        *["The answer is B.", "the correct option is (B)", r"\textbf{(B)} mitochondria"],
        *["B. mitochondria", "B) Mitochondria.", "B: mitochondria", "B - mitochondria"],
        *["B mitochondria", "mitochondria", "Mitochondria.", r"\text{mitochondria}"],
        *["B. the mitochondrion, in which ATP is made"],
    ],
)
def test_a_letter_or_the_options_own_text_is_right(answer: str) -> None:
    assert GRADER.grade([(answer, reference("B"))]) == [True]


@pytest.mark.parametrize(
    "answer",
    [
        *["A", "E", "", "AB", "Both", "Bob", "mito", "nucleus", "A ribosome", "a ribosome"],
        *["A, B", "A and B", "B or C", "B/C", "(B), (C)", "B, C, D", "B. A", "B.C", "C) B"],
        *["B. nucleus", "(A) mitochondria", "A. mitochondria"],
    ],
)
def test_another_option_or_what_may_mean_two_is_wrong(answer: str) -> None:
    assert GRADER.grade([(answer, reference("B"))]) == [False]


def test_every_letter_is_right_for_its_own_option_alone() -> None:
    pairs = [(said, reference(right)) for said in "ABCD" for right in "ABCD"]
    assert GRADER.grade(pairs) == [said == right for said in "ABCD" for right in "ABCD"]


def test_text_that_two_options_share_is_wrong() -> None:
    assert GRADER.grade([("same", reference("A", ["same", "Same"]))]) == [False]
    assert GRADER.grade([("A. same", reference("A", ["same", "Same"]))]) == [True]


def test_an_article_is_no_letter() -> None:
    assert GRADER.grade([("A ribosome", reference("C"))]) == [True]
    assert GRADER.grade([("a lysosome", reference("A"))]) == [False]


def test_a_reference_may_be_a_letter_alone() -> None:
    assert GRADER.grade([("(b)", "B"), ("C", "B"), ("mitochondria", "B")]) == [True, False, False]


@pytest.mark.parametrize(
    "text",
    [
        *["", "AB", "5", "[]", '{"letter": "B"}', '{"letter": "E", "options": ["a", "b"]}'],
        *['{"letter": "", "options": ["a"]}', '{"letter": "A", "options": 3}'],
    ],
)
def test_a_reference_that_does_not_parse_is_refused(text: str) -> None:
    with pytest.raises(RequestRefused):
        GRADER.check_reference(text)


def test_answers_share_a_class_by_letter_or_by_text() -> None:
    answers = ["B", "(b)", "B. x", None, "mitochondria", "Mitochondria.", "A ribosome", "A"]
    assert GRADER.classes_of_all([answers]) == [[0, 0, 0, NO_ANSWER, 1, 1, 2, 3]]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"It must be \boxed{C}.", "C"),
        ("I think.\nThe answer is (C).", "C"),
        ("Answer: **D**", "D"),
        ("Answer: A\nNo.\nAnswer: B", "B"),
        ("The answer is a matter of taste", None),
    ],
)
def test_the_answer_is_in_a_box_or_said_at_the_end_of_a_line(text: str, answer: str | None) -> None:
    assert GRADER.extractor.find(text) == answer
