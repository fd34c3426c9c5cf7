import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration.policy.voting import NO_ANSWER
from rlcm_serve.answers.grading.choice import ChoiceGrader
from rlcm_serve.answers.grading.choice.grader import Options
from rlcm_serve.answers.grading.choice.option_texts import plain_form
from rlcm_serve.answers.grading.choice.stated_letters import (
    after_lead,
    letter_first,
    letter_last,
)
from rlcm_serve.errors import RequestRefused
from tests.rlcm_serve.answers.grading.choice_questions import (
    BOTH_FORMS,
    LETTER_FORMS,
    NO_FORMS,
    QUESTIONS,
    REASONED_FORMS,
    SEVERAL_FORMS,
    TEXT_FORMS,
)
from tests.rlcm_serve.answers.grading.choice_statements import (
    DENIALS,
    LEADS,
    SECOND_LETTERS,
    STATEMENTS,
)


def is_a_letter(text: str) -> bool:
    found = letter_first(text)
    return found is not None and not found.rest


OPTION_TEXTS = st.text("ab cAB12,.;:/()[]+-=^$ and", min_size=2, max_size=16).filter(
    lambda text: len(plain_form(text)) > 2 and not is_a_letter(text)
)
"""Texts that hold what makes a letter hard to find, and are more than a letter."""
ENDS = ["", ".", " ", ",", ".\n"]
OPTIONS = ["nucleus", "mitochondria", "A ribosome", "7 or 8"]
CARBON = ["Co", "CO", "CO2", "C"]
"""Of `QUESTIONS`; the letter of one option is the text of another."""
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
    assert GRADER.grade([("same", reference("A", ["same", "same"]))]) == [False]
    assert GRADER.grade([("SAME", reference("A", ["same", "Same"]))]) == [False]
    assert GRADER.grade([("A. same", reference("A", ["same", "same"]))]) == [True]


@pytest.mark.parametrize("form", LETTER_FORMS + REASONED_FORMS)
def test_a_letter_chooses_its_option_in_every_form(form: str) -> None:
    """Where its letter alone is another option's text, an answer chooses none; see below."""
    letters_only = [options for options in QUESTIONS if options != CARBON]
    assert not mistaken(form, letters_only)
    assert mistaken(form, [CARBON]) in ([], [(form.format(L="C", l="c"), None)])


@pytest.mark.parametrize(
    ("options", "answer", "letter"),
    [
        (["I", "II", "III", "I and II"], "I", "A"),
        (["I", "II", "III", "I and II"], "The answer is I.", "A"),
        (["O", "N", "P", "S"], "N", "B"),
        (["O", "N", "P", "S"], r"\text{S}", "D"),
        (["O", "N", "P", "S"], "B", "B"),
        (["B", "A", "x", "y"], "x", "C"),
        (["I", "II", "III", "I and II"], "V", None),
    ],
)
def test_a_letter_of_no_option_may_be_an_options_text(
    options: list[str], answer: str, letter: str | None
) -> None:
    assert Options("A", tuple(options)).chosen(answer) == letter


@pytest.mark.parametrize(
    "form", ["{}", "({})", "{}.", "The answer is {}", r"\text{{{}}}", "option {}"]
)
def test_a_letter_that_is_the_text_of_another_option_chooses_none(form: str) -> None:
    assert Options("A", ("B", "A", "C", "D")).chosen(form.format("A")) is None
    assert Options("A", ("B", "A", "C", "D")).chosen(form.format("C")) == "C"
    assert Options("C", tuple(CARBON)).chosen(form.format("C")) is None
    assert Options("C", tuple(CARBON)).chosen("C) CO2") == "C"
    assert Options("C", tuple(CARBON)).chosen("C, because it has two atoms of oxygen") == "C"


@pytest.mark.parametrize("form", BOTH_FORMS)
def test_a_letter_with_its_options_text_chooses_it_in_every_form(form: str) -> None:
    assert not mistaken(form, QUESTIONS)


@pytest.mark.parametrize("form", TEXT_FORMS)
def test_an_options_own_text_chooses_it_in_every_form(form: str) -> None:
    """A text that is another option's letter is tested above."""
    assert not mistaken(form, [options for options in QUESTIONS if options != CARBON])
    assert not mistaken(form, [CARBON], shortest=2)


@given(
    options=st.lists(OPTION_TEXTS, min_size=4, max_size=4, unique_by=plain_form),
    end=st.sampled_from(ENDS),
)
def test_an_options_own_text_chooses_it_whatever_it_holds(options: list[str], end: str) -> None:
    for letter, text in zip("ABCD", options, strict=True):
        assert Options("A", tuple(options)).chosen(text + end) == letter


@given(text=st.text(max_size=40) | OPTION_TEXTS)
def test_any_text_chooses_an_option_or_none(text: str) -> None:
    assert Options("A", tuple(QUESTIONS[0])).chosen(text) in (*"ABCD", None)
    assert GRADER.key(text) is not None


@pytest.mark.parametrize("form", BOTH_FORMS)
def test_a_letter_with_the_text_of_another_option_chooses_none(form: str) -> None:
    for options in QUESTIONS:
        for at, letter in enumerate("ABCD"):
            said = form.format(L=letter, l=letter.lower(), t=options[at - 1])
            chosen = Options(letter, tuple(options)).chosen(said)
            assert chosen is None or said in options, (said, options)


@pytest.mark.parametrize("form", SEVERAL_FORMS)
def test_two_letters_choose_none_in_any_form(form: str) -> None:
    for letter, other in [("A", "B"), ("C", "B"), ("A", "C"), ("D", "C")]:
        said = form.format(L=letter, M=other)
        assert (
            Options("A", ("nucleus", "mitochondria", "ribosome", "membrane")).chosen(said) is None
        )
        assert Options(letter, ()).chosen(said) is None


@pytest.mark.parametrize("form", NO_FORMS)
def test_what_names_no_option_chooses_none(form: str) -> None:
    for letter in "ABCD":
        said = form.format(L=letter)
        assert (
            Options("A", ("nucleus", "mitochondria", "ribosome", "membrane")).chosen(said) is None
        )


def mistaken(
    form: str, questions: list[list[str]], shortest: int = 1
) -> list[tuple[str, str | None]]:
    """What each option's letter and text become in this form, where the grader reads another."""
    found = []
    for options in questions:
        for letter, text in zip("ABCD", options, strict=True):
            said = form.format(L=letter, l=letter.lower(), t=text)
            chosen = Options("A", tuple(options)).chosen(said)
            if chosen != letter and len(text) >= shortest:
                found.append((said, chosen))
    return found


OTHERS = [("A", "B"), ("B", "A"), ("C", "B"), ("A", "C"), ("D", "C"), ("B", "D")]
CELLS = ("nucleus", "mitochondria", "ribosome", "membrane")


@pytest.mark.parametrize("form", SECOND_LETTERS)
@pytest.mark.parametrize(("letter", "other"), OTHERS)
def test_an_answer_with_a_second_letter_chooses_none(form: str, letter: str, other: str) -> None:
    said = form.format(L=letter, M=other)
    assert Options(letter, CELLS).chosen(said) is None
    assert Options(letter, ()).chosen(said) is None
    assert GRADER.key(said) not in (letter, other)


@pytest.mark.parametrize("form", DENIALS)
@pytest.mark.parametrize("letter", "ABCD")
def test_an_option_that_is_denied_is_not_chosen(form: str, letter: str) -> None:
    said = form.format(L=letter)
    assert Options(letter, CELLS).chosen(said) is None
    assert Options(letter, ()).chosen(said) is None
    assert GRADER.key(said) != letter


@pytest.mark.parametrize("form", LEADS)
def test_a_lead_in_braces_or_in_chinese_is_no_part_of_the_answer(form: str) -> None:
    assert not mistaken(form, [options for options in QUESTIONS if options != CARBON])
    assert all(GRADER.key(form.format(L=letter)) == letter for letter in "ABCD")


@pytest.mark.parametrize("form", STATEMENTS)
@pytest.mark.parametrize(("letter", "other"), OTHERS)
def test_another_letter_that_is_no_choice_changes_nothing(
    form: str, letter: str, other: str
) -> None:
    said = form.format(L=letter, M=other)
    assert Options("A", CELLS).chosen(said) == letter
    assert Options(letter, ()).chosen(said) == letter
    assert GRADER.key(said) == letter


@pytest.mark.parametrize(
    ("options", "answer", "letter"),
    [
        (["correct", "incorrect", "x", "y"], "B: incorrect", "B"),
        (["correct", "incorrect", "x", "y"], "A: incorrect", None),
        (["yes", "no", "x", "y"], "B, no", "B"),
        (["yes", "no", "x", "y"], "A, no", None),
        (["is wrong", "is right", "x", "y"], "(A) is wrong", "A"),
        (["cells", "tissue", "x", "y"], "A. cells is wrong", None),
        (["cells", "tissue", "x", "y"], "A. cells (incorrect)", None),
        (["cells", "tissue", "x", "y"], "A. cells, because they divide", "A"),
        (["cells", "tissue", "x", "y"], "cells (A), tissue (B)", None),
        (["cells", "tissue", "x", "y"], "the cells of plants (A)", "A"),
        (["cells", "tissue", "x", "y"], "tissue (A)", None),
        (["vitamin A", "vitamin C", "x", "y"], "B. vitamin C", "B"),
        (["vitamin A", "vitamin C", "x", "y"], "B. vitamin C (ascorbic acid)", "B"),
        (["from A to C", "A or C", "x", "y"], "A. from A to C", "A"),
        (["from A to C", "A or C", "x", "y"], "B. A or C", "B"),
        (["I", "II", "I and II", "none"], "C. I and II", "C"),
        (["I", "II", "I and II", "none"], "C. I and II only", "C"),
    ],
)
def test_the_options_own_texts_decide_before_the_words(
    options: list[str], answer: str, letter: str | None
) -> None:
    assert Options("A", tuple(options)).chosen(answer) == letter


@pytest.mark.parametrize(
    ("answer", "key"),
    [
        ("foo (B)", "B"),
        ("Foo bar (option C).", "C"),
        ("foo, option B", "B"),
        ("A ribosome (B)", "B"),
        ("f(B)", "f(b)"),
        ("not foo (B)", "notfoo(b)"),
        ("foo (A) or bar (B)", "foo(a)orbar(b)"),
        ("A, foo (B)", "a,foo(b)"),
        ("Both (A) and (B)", "both(a)and(b)"),
    ],
)
def test_a_letter_behind_the_text_makes_the_class(answer: str, key: str) -> None:
    assert GRADER.key(answer) == key
    assert Options("B", ()).chosen(answer) == (key if len(key) == 1 else None)


def test_the_grader_has_a_new_name() -> None:
    assert GRADER.name == "choice 4"


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
        ("Final: B", "B"),
        ("所以正确答案：B。", "B"),
        ("故选：B", "B"),
        ("The answer is B (or C)", "B (or C)"),
        ("Answer: (B) is wrong", "(B) is wrong"),
    ],
)
def test_the_answer_is_in_a_box_or_said_at_the_end_of_a_line(text: str, answer: str | None) -> None:
    assert GRADER.extractor.find(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"It must be \boxed{C}, be", "C"),
        ("The answer is (C).\nBecause", "C"),
        ("The answer is C", None),
        ("The answer is B.\nNo, the answer is A", "B"),
    ],
)
def test_a_letter_in_a_line_that_was_cut_off_does_not_count(text: str, answer: str | None) -> None:
    assert GRADER.extractor.find_cut(text) == answer


@pytest.mark.parametrize(
    "answer",
    [
        "(" * 20_000 + "B" + ")" * 20_000,
        "{" * 20_000 + "x" + "}" * 20_000,
        "a" + " " * 50_000 + "b",
        "B. " + "(" * 50_000,
        "B. " + "C, " * 50_000,
        "B. " + "or " * 50_000 + "C",
        "B. " + "x C " * 50_000,
        "x " + "(A) " * 50_000,
        "B. " + " " * 50_000 + "C" + " " * 50_000 + "is",
        "B. is" + " also" * 50_000,
        "选" * 50_000 + "B",
        "{Option }" * 20_000 + "B",
    ],
)
def test_a_hostile_answer_is_read_at_once(answer: str) -> None:
    began = time.process_time()
    GRADER.key(answer)
    after_lead(answer)
    letter_last(answer)
    Options("B", CELLS).chosen(answer)
    assert time.process_time() - began < 4
