from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calibration.errors import CalibrationError
from calibration.policy.exit_rule import FULL_BUDGET, ExitPolicy
from calibration.simulation.risks import ERROR, REGRET, RISKS, SELECTIVE, Outcomes, Risk, risk_named

# Draws: right, wrong, and abstaining (or unreadable); one policy. The full budget is right on all
# but the second.
OUTCOMES = Outcomes(
    answered_DT=np.array([[True], [True], [False]]),
    correct_DT=np.array([[True], [False], [False]]),
    tokens_DT=np.array([[10], [20], [30]]),
    confidence_DT=np.array([[0.9], [0.8], [0.1]]),
    full_correct_D=np.array([True, False, True]),
    full_tokens_D=np.array([40, 40, 40]),
)


def test_losses_by_hand() -> None:
    loss, weight = SELECTIVE.loss(OUTCOMES)
    assert loss.ravel().tolist() == [False, True, False]
    assert weight is not None
    assert weight.ravel().tolist() == [True, True, False]
    loss, weight = ERROR.loss(OUTCOMES)
    assert loss.ravel().tolist() == [False, True, True]
    assert weight is None
    loss, weight = REGRET.loss(OUTCOMES)
    assert loss.ravel().tolist() == [False, False, True]
    assert weight is None


def test_a_loss_of_ones_own() -> None:
    risk = Risk.custom("cost", lambda outcomes: outcomes.tokens_DT / 40)
    loss, weight = risk.loss(OUTCOMES)
    assert loss.ravel().tolist() == [0.25, 0.5, 0.75]
    assert weight is None
    assert not risk.answers_always
    boolean = Risk.custom("unsure", lambda outcomes: outcomes.confidence_DT < 0.5)
    assert boolean.loss(OUTCOMES)[0].dtype == np.float64


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda o: o.tokens_DT, "loss 'mine' has the value 10.0: give numbers in"),
        (lambda o: o.tokens_DT - 10.5, "has the value -0.5"),
        (lambda o: o.tokens_DT * np.nan, "has the value nan"),
        (lambda o: o.full_correct_D, r"has the shape \(3,\): give draws x policies, \(3, 1\)"),
        (lambda o: o.tokens_DT.astype(str), "give numbers"),
    ],
)
def test_a_loss_of_ones_own_is_checked(
    loss: Callable[[Outcomes], np.ndarray[Any, Any]], message: str
) -> None:
    with pytest.raises(CalibrationError, match=message):
        Risk.custom("mine", loss).loss(OUTCOMES)


def test_names() -> None:
    assert risk_named("regret") is REGRET
    assert list(RISKS) == ["selective", "error", "regret"]
    with pytest.raises(CalibrationError, match="give one of selective, error, regret"):
        risk_named("loss")
    with pytest.raises(CalibrationError, match="'error' is built in"):
        Risk.custom("error", lambda outcomes: outcomes.tokens_DT)


FORCED = ExitPolicy(lambda_low=0.2, patience=32, answer_on_low=True)


@pytest.mark.parametrize("risk", [ERROR, REGRET])
def test_counting_every_question_takes_an_answer_to_each(risk: Risk) -> None:
    risk.check_policies([FULL_BUDGET, FORCED, ExitPolicy(lambda_high=0.5)])
    for change in (
        {"answer_on_low": False},
        {"lambda_answer": 0.1},
        {"lambda_vote": 0.1},
        {"lambda_low": -0.1, "low_rise": 0.3, "low_slope": 1.0, "answer_on_low": False},
    ):
        (field, value) = list(change.items())[-1]
        with pytest.raises(CalibrationError, match=f"policy 1 has {field} = {value}"):
            risk.check_policies([FORCED, replace(FORCED, **change)])


def test_selective_takes_any_policy() -> None:
    SELECTIVE.check_policies([FORCED, ExitPolicy(0.2, lambda_answer=0.5, lambda_vote=0.5)])
