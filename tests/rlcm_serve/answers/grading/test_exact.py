import pytest

from calibration.policy.voting import NO_ANSWER
from rlcm_serve.answers.grading.exact import ExactGrader
from rlcm_serve.errors import RequestRefused

GRADER = ExactGrader()


def test_case_and_white_space_are_looked_past_and_nothing_else() -> None:
    pairs = [("  New\n york ", "NEW York"), ("ﬁne", "fine"), ("7", "7.0"), ("a b", "ab"), ("a", "")]
    assert GRADER.grade(pairs) == [True, True, False, False, False]


def test_classes_are_the_same_texts() -> None:
    assert GRADER.classes_of_all([["a", "B ", None, "b", "A"]]) == [[0, 1, NO_ANSWER, 1, 0]]


def test_an_empty_reference_is_refused() -> None:
    GRADER.check_reference("x")
    with pytest.raises(RequestRefused, match="empty"):
        GRADER.check_reference(" \n")
