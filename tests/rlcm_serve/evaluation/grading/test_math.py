import time
from collections.abc import Iterator

import pytest

from calibration.policy.voting import NO_ANSWER
from rlcm_serve.answers.grader import GRADER
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.grading.math import MathGrader

ENDLESS = "9^{9^{9^{9}}}"


@pytest.fixture(scope="module")
def grader() -> Iterator[MathGrader]:
    with MathGrader() as grader:
        yield grader


def test_it_is_the_grader_that_certificates_name(grader: MathGrader) -> None:
    assert grader.name == GRADER


def test_verdicts_come_in_the_order_of_the_pairs(grader: MathGrader) -> None:
    pairs = [("2/4", "0.5"), ("7", "7"), ("3", "4"), ("2/4", "0.5"), ("x", "y+z")]
    told: list[tuple[int, int]] = []
    assert grader.grade(pairs, lambda *progress: told.append(progress)) == [
        True,
        True,
        False,
        True,
        False,
    ]
    assert told[0] == (4, 4)  # in canonical form; the repeated pair counts once
    assert told[-1] == (4, 4)
    assert grader.grade([]) == []


def test_plain_answers_need_no_worker() -> None:
    grader = MathGrader()
    start = time.perf_counter()
    assert all(grader.grade([(str(n), f"{n}.0") for n in range(100_000)]))
    assert time.perf_counter() - start < 10


def test_an_endless_comparison_is_wrong_and_holds_nobody_up() -> None:
    with MathGrader(workers=1, time_limit=1.0) as grader:
        start = time.perf_counter()
        assert grader.grade([(ENDLESS, "x+2"), ("2/4", "0.5")]) == [False, True]
        assert time.perf_counter() - start < 60


def test_equal_answers_are_one_class(grader: MathGrader) -> None:
    answers = ["8", None, "2/4", "0.5", "8.0"]
    assert grader.classes_of_all([answers]) == [[0, NO_ANSWER, 1, 1, 0]]
    assert grader.classes_of_all([[None, None]]) == [[NO_ANSWER, NO_ANSWER]]


def test_it_may_be_used_again_after_its_end() -> None:
    grader = MathGrader()
    for _ in range(2):
        assert grader.grade([("2/4", "0.5")]) == [True]
        grader.stop()
        grader.stop()


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"So \boxed{7}.", "7"),
        ("<answer> 14/3 </answer><confidence>0.7</confidence>", "14/3"),
        (r"<answer>\boxed{7}</answer>", "7"),
        ("<answer>1</answer> no: <answer> <answer>2</answer>", "2"),
        ("<answer> </answer>", None),
        ("It is 7.", None),
    ],
)
def test_an_answer_is_in_a_box_or_between_tags(
    grader: MathGrader, text: str, answer: str | None
) -> None:
    assert grader.extractor.find(text) == answer


def test_a_forced_answer_ends_with_its_box(grader: MathGrader) -> None:
    assert grader.extractor.opening.endswith(r"\boxed{")
    assert grader.extractor.close("7}.") == "7"
    assert grader.extractor.close("7") is None


@pytest.mark.parametrize("reference", ["7", r"\frac{1}{2}", r"\{1, 2\}", r"\left\{ x \right.", "x"])
def test_a_reference_that_parses_is_taken(grader: MathGrader, reference: str) -> None:
    grader.check_reference(reference)


@pytest.mark.parametrize("reference", ["", " $.$ ", r"\frac{1}{2", "1}", "}{"])
def test_a_reference_that_does_not_parse_is_refused(grader: MathGrader, reference: str) -> None:
    with pytest.raises(RequestRefused, match="reference answer"):
        grader.check_reference(reference)
