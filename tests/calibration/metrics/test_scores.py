from dataclasses import replace

import numpy as np
import pytest

from calibration import CalibrationError
from calibration.metrics.scores import ScoredRollouts

SCORED = ScoredRollouts(
    problem_R=np.array([1, 0, 2, 0]),
    correct_R=np.array([True, False, False, True]),
    confidence_R=np.array([0.5, 0.25, 0.0, 1.0]),
    answer_class_R=np.array([0, 1, -1, 0]),
    unit_P=np.array([0, 1, 0]),
)


def test_counts() -> None:
    assert (SCORED.n_rollouts, SCORED.n_problems, SCORED.n_units) == (4, 3, 2)
    assert SCORED.rollouts_P.tolist() == [2, 1, 1]
    assert SCORED.right_P.tolist() == [1, 1, 0]
    assert SCORED.unit_R.tolist() == [1, 0, 0, 0]


def test_a_problem_without_a_group_is_a_unit() -> None:
    alone = replace(SCORED, unit_P=None)
    assert alone.n_units == 3
    assert alone.unit_R.tolist() == [1, 0, 2, 0]
    assert alone.units_P.tolist() == [0, 1, 2]


def test_select_numbers_anew() -> None:
    kept = SCORED.select(np.array([False, True, True]))
    assert kept.problem_R.tolist() == [0, 1]
    assert kept.correct_R.tolist() == [True, False]
    assert kept.confidence_R.tolist() == [0.5, 0.0]
    assert kept.answer_class_R.tolist() == [0, -1]
    assert kept.unit_P is not None
    assert kept.unit_P.tolist() == [1, 0]
    assert SCORED.select(np.array([False, True, False])).n_units == 1
    assert replace(SCORED, unit_P=None).select(np.array([True, False, True])).n_units == 2


@pytest.mark.parametrize(
    ("keep", "message"),
    [([False] * 3, "0 of 3 problems kept, out of 3"), ([True] * 2, "2 of 2 problems kept")],
)
def test_select_refuses(keep: list[bool], message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        SCORED.select(np.array(keep))


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("correct_R", np.array([True]), r"correct_R \(1,\)"),
        ("correct_R", np.array([1, 0, 0, 1]), "correct_R holds int64: give booleans"),
        ("problem_R", np.array([0.0, 1.0, 2.0, 0.0]), "problem_R holds float64"),
        ("problem_R", np.array([1, 0, 3, 0]), r"problem 2 of 0 \.\. 3 has no rollout"),
        ("problem_R", np.array([1, 0, -1, 0]), "problem is -1"),
        ("confidence_R", np.array([0.5, np.nan, 0.0, 1.0]), "confidence is nan"),
        ("confidence_R", np.array([0.5, 1.5, 0.0, 1.0]), "confidence is 1.5"),
        ("answer_class_R", np.array([0, 1, -2, 0]), "answer class is -2"),
        ("answer_class_R", np.array([-1, 1, -1, 0]), "without an answer is graded right"),
        ("unit_P", np.array([0, 1]), "2 units for 3 problems"),
        ("unit_P", np.array([0, 2, 0]), r"unit 1 of 0 \.\. 2 has no problem"),
    ],
)
def test_refuses(column: str, value: np.ndarray, message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        replace(SCORED, **{column: value})


def test_refuses_no_rollouts() -> None:
    whole = np.empty(0, dtype=np.int64)
    with pytest.raises(CalibrationError, match="no rollouts"):
        ScoredRollouts(whole, np.empty(0, dtype=np.bool_), np.empty(0), whole)
