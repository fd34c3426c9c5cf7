"""Which certificate serves a question of a kind, and what its guarantee says about that kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from calibration import Certificate, ExitPolicy, InfeasibleLevel, Kind, Promise
from calibration.certificate.wording import covers, does_not_cover
from calibration.simulation.risks import SELECTIVE
from rlcm_serve.core import Question
from rlcm_serve.errors import CertificateMismatch, Infeasible
from rlcm_serve.solving.guarantees import Guarantees, Terms
from rlcm_serve.solving.slots import slot_of
from tests.rlcm_serve.scripted_engine import IDENTITY, certificate

SAFE, FAST = ExitPolicy(lambda_high=0.95), ExitPolicy(lambda_high=0.8)
KINDS, RARE, DELTA = ("algebra", "geometry", "logic"), ("poetry",), 0.4
"""Each of three kinds has a quarter of delta, as the certificate of all kinds has."""
QUESTION = Question("A dial shows 3.", alpha=0.1)


def of_kind(
    name: str | None,
    policies: Mapping[float, ExitPolicy | None],
    *,
    lacks: bool = False,
    promise: Promise = Promise.SIMULTANEOUS,
) -> Certificate:
    """A certificate for a kind; `lacks` says that its failed levels have too few labels."""
    kind = Kind("topic", name, KINDS, RARE, DELTA)
    made = certificate(policies, promise=promise)
    levels = tuple(
        replace(level, n_too_small=lacks) if isinstance(level, InfeasibleLevel) else level
        for level in made.levels
    )
    return replace(
        made,
        kind=kind,
        levels=levels,
        covers=covers(SELECTIVE, DELTA, promise, made.p_value, of_kind=kind),
        does_not_cover=does_not_cover(SELECTIVE, of_kind=kind),
    )


POOLED = of_kind(None, {0.1: SAFE, 0.2: FAST})
ALGEBRA = of_kind("algebra", {0.1: FAST})
GEOMETRY = of_kind("geometry", {0.1: None, 0.2: FAST}, lacks=True)
LOGIC = of_kind("logic", {0.1: None})
ALL = (POOLED, ALGEBRA, GEOMETRY, LOGIC)


def terms_of(kind: str | None, *certificates: Certificate, alpha: float = 0.1) -> Terms:
    guarantees = Guarantees([IDENTITY], certificates or ALL)
    return guarantees.terms_for(replace(QUESTION, kind=kind, alpha=alpha))


def test_a_kind_with_a_certificate_of_its_own_is_served_by_it() -> None:
    terms = terms_of("algebra")
    assert terms.policy == FAST
    assert terms.guarantee is not None
    assert terms.guarantee.certificate == ALGEBRA.id
    assert terms.guarantee.kind == "algebra"
    assert terms.guarantee.delta == DELTA, "all kinds keep their promises at once"
    assert terms.guarantee.statement == (
        "Of the questions of kind 'algebra' that this policy answers, at most 10% get a wrong "
        "answer on average. This covers first asks of questions drawn as the calibration's were, "
        "with 60% confidence over the draw of 500 calibration problems, whichever kind and alpha "
        "are chosen."
    )


def test_a_kind_with_too_few_labels_is_told_that_nothing_is_promised_for_it() -> None:
    terms = terms_of("poetry")
    assert terms.policy == SAFE
    assert terms.guarantee is not None
    assert terms.guarantee.certificate == POOLED.id
    assert terms.guarantee.kind is None
    said = "For questions of kind 'poetry' alone nothing is promised."
    assert terms.guarantee.statement.endswith(said)
    few = "questions of one of the kinds 'poetry', which have too few labels"
    assert few in terms.guarantee.does_not_cover


def test_a_question_without_a_kind_has_the_guarantee_of_all_kinds() -> None:
    terms = terms_of(None)
    assert terms.guarantee is not None
    assert terms.guarantee.certificate == POOLED.id
    assert "nothing is promised" not in terms.guarantee.statement


def test_a_kind_that_no_calibration_problem_was_of_has_no_guarantee() -> None:
    terms = terms_of("Algebra")
    assert terms.policy == SAFE
    assert terms.guarantee is None
    assert terms.no_guarantee_reason == (
        f"certificate {POOLED.id} does not cover this request: kind is 'Algebra', and the "
        "calibration problems were of the kinds 'algebra', 'geometry', 'logic', 'poetry'"
    )


def test_where_a_kind_has_no_level_the_average_over_all_kinds_is_no_excuse() -> None:
    """Whether its risk is too high or its labels are too few at this alpha."""
    for kind, certified in (("logic", ()), ("geometry", (0.2,))):
        with pytest.raises(Infeasible) as caught:
            terms_of(kind)
        assert caught.value.certified == certified


def test_a_plain_certificate_promises_nothing_for_a_kind_that_is_named() -> None:
    terms = terms_of("algebra", certificate({0.1: SAFE}))
    assert terms.guarantee is not None
    assert "of kind 'algebra' alone nothing is promised" in terms.guarantee.statement


def test_certificates_of_single_kinds_are_not_for_questions_without_one() -> None:
    terms = terms_of(None, ALGEBRA)
    assert terms.guarantee is None
    assert "for questions of the kinds 'algebra' alone" in (terms.no_guarantee_reason or "")


def test_each_kind_has_one_active_certificate() -> None:
    assert len({slot_of(one) for one in ALL}) == len(ALL)
    assert slot_of(POOLED) == slot_of(certificate({0.1: SAFE})), "one takes the place of the other"
    with pytest.raises(CertificateMismatch, match="for the same procedure"):
        Guarantees([IDENTITY], [ALGEBRA, of_kind("algebra", {0.2: FAST})])


def test_pointwise_alpha_is_chosen_beforehand_and_the_kind_is_not() -> None:
    made = of_kind("algebra", {0.1: FAST}, promise=Promise.POINTWISE)
    guarantee = terms_of("algebra", made).guarantee
    assert guarantee is not None
    assert guarantee.statement.endswith("whichever kind is chosen, if alpha was chosen beforehand.")


def test_a_question_of_another_kind_is_not_told_to_name_its_kind() -> None:
    """There is no certificate of all kinds."""
    unnamed, other = (terms_of(kind, ALGEBRA).no_guarantee_reason for kind in (None, "history"))
    assert unnamed is not None
    assert unnamed.endswith(
        "full budget: name the question's kind, or activate the certificate of all kinds that was "
        "fitted with them"
    )
    assert other is not None
    assert other.endswith(
        "full budget: activate the certificate of all kinds that was fitted with them"
    )
