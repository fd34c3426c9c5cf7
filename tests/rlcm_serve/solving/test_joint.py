"""What holds jointly with a level is in the guarantee, as fields and as a sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from calibration import Certificate, ExitPolicy
from calibration.certificate.kinds import POOLED_SHARE, Kind
from calibration.certificate.wording import covers, does_not_cover
from calibration.simulation.groups import Average, Groups
from calibration.simulation.risks import RISKS
from calibration.testing.joint import Joint, NextQuestions, SideBound, next_delta, next_most
from calibration.testing.p_values import PValue, clopper_pearson_upper
from rlcm_serve.core import NextQuestionsBound, Question, RiskName
from rlcm_serve.solving.guarantees import Guarantees
from tests.rlcm_serve.scripted_engine import IDENTITY, certificate

POLICY = ExitPolicy(lambda_high=0.8)


def with_joint(risk: str = "selective") -> Certificate:
    """Its levels have delta .1, which is 4 of 6 parts of the whole."""
    made = certificate({0.1: POLICY, 0.2: POLICY}, risk=risk)
    bounds = (SideBound("declined", 0.45, (0.45, 0.45)),)
    joint = Joint(0.15, bounds, NextQuestions(100, (0, 0)))
    share = next_delta(joint, made.promise, 2)
    most = tuple(next_most(100, level.alpha, share) for level in made.levels)
    joint = replace(joint, next=NextQuestions(100, most))
    said = covers(RISKS[risk], joint.delta, made.promise, made.p_value, joint=joint)
    return replace(made, joint=joint, covers=said)


def test_the_guarantee_says_what_holds_at_once() -> None:
    guarantees = Guarantees([IDENTITY], [with_joint()])
    guarantee = guarantees.terms_for(Question("A dial shows 3.", alpha=0.15)).guarantee
    assert guarantee is not None
    assert guarantee.delta == 0.15
    assert guarantee.bounds == {"declined": 0.45}
    assert guarantee.next_questions == NextQuestionsBound(100, 17)
    assert guarantee.statement.endswith(
        "with 85% confidence over the draw of 500 calibration problems, whichever alpha is chosen. "
        "At the same time, the service abstains on at most 45% of all questions, and in one count "
        "of 100 answered questions, from a moment that was fixed before, at most 17 get a wrong "
        "answer."
    )
    assert "at most the bound of the level, 0.45" in guarantee.covers


@pytest.mark.parametrize(
    ("risk", "said"),
    [
        (
            "error",
            "in one count of 100 questions, from a moment that was fixed before, at most 17 get a "
            "wrong answer.",
        ),
        (
            "regret",
            "in one count of 100 questions, from a moment that was fixed before, at most 17 lose a "
            "right answer.",
        ),
    ],
)
def test_the_next_questions_count_as_the_risk_does(risk: str, said: str) -> None:
    made = with_joint(risk)
    assert made.joint is not None
    share = made.joint.statement_delta / len(made.tested.policies)
    none = float(clopper_pearson_upper(0, made.n_units, share))
    answering = replace(made.joint, bounds=(SideBound("declined", None, (none, none)),))
    text = covers(RISKS[risk], 0.15, made.promise, made.p_value, joint=answering)
    guarantees = Guarantees([IDENTITY], [replace(made, joint=answering, covers=text)])
    asked = Question("A dial shows 3.", alpha=0.1, risk=RiskName(risk))
    guarantee = guarantees.terms_for(asked).guarantee
    assert guarantee is not None
    assert guarantee.statement.endswith(said)


def test_what_groups_count_is_said_of_every_bound() -> None:
    groups = Groups(Average.GROUPS)
    made = replace(with_joint(), p_value=PValue.BETTING, groups=groups)
    how = RISKS[made.risk], 0.15, made.promise, made.p_value
    text = covers(*how, groups=groups, joint=made.joint)
    limits = does_not_cover(RISKS[made.risk], groups=groups)
    made = replace(made, covers=text, does_not_cover=limits)
    guarantees = Guarantees([IDENTITY], [made])
    guarantee = guarantees.terms_for(Question("A dial shows 3.", alpha=0.15)).guarantee
    assert guarantee is not None
    assert "At the same time, counting every group equally, the service" in guarantee.statement
    assert (
        "in one count of 100 answered questions from different groups, from a moment that was "
        "fixed before, at most" in guarantee.statement
    )


def test_bounds_of_one_kind_are_not_given_for_all_questions() -> None:
    made = with_joint()
    kind = Kind("topic", "algebra", ("algebra",), (), made.whole_delta / (1 - POOLED_SHARE))
    how = RISKS[made.risk], kind.delta, made.promise, made.p_value
    text = covers(*how, of_kind=kind, joint=made.joint)
    limits = does_not_cover(RISKS[made.risk], of_kind=kind)
    made = replace(made, kind=kind, covers=text, does_not_cover=limits)
    question = Question("A dial shows 3.", alpha=0.15, kind="algebra")
    guarantee = Guarantees([IDENTITY], [made]).terms_for(question).guarantee
    assert guarantee is not None
    assert "abstains on at most 45% of all questions of kind 'algebra'," in guarantee.statement
    assert "100 answered questions of kind 'algebra', from a moment" in guarantee.statement


def test_without_such_statements_nothing_is_added() -> None:
    guarantees = Guarantees([IDENTITY], [certificate({0.1: POLICY})])
    guarantee = guarantees.terms_for(Question("A dial shows 3.", alpha=0.1)).guarantee
    assert guarantee is not None
    assert guarantee.bounds == {}
    assert guarantee.next_questions is None
    assert "At once" not in guarantee.statement
