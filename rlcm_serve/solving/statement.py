"""The guarantee of an answer, and its statement in words."""

from __future__ import annotations

from calibration.certificate.certificate import Certificate
from calibration.certificate.levels import CertifiedLevel
from calibration.certificate.wording import EQUALLY, at_most, percent
from calibration.testing.fwer import Promise
from calibration.testing.p_values import PValue
from rlcm_serve.core import Guarantee, NextQuestionsBound, RiskName


def guarantee_of(
    certificate: Certificate, level: CertifiedLevel, alpha: float, kind: str | None = None
) -> Guarantee:
    """The guarantee of a question with this alpha and of this kind, served at this level."""
    return Guarantee(
        risk=certificate.risk,
        alpha_requested=alpha,
        alpha_certified=level.alpha,
        delta=certificate.whole_delta,
        promise=str(certificate.promise),
        certificate=certificate.id,
        statement=_statement(certificate, level, kind),
        n_problems=certificate.n_problems,
        method=certificate.method,
        covers=certificate.covers,
        does_not_cover=certificate.does_not_cover,
        kind=certificate.about,
        bounds=_bounds(certificate, level),
        next_questions=_next_questions(certificate, level),
    )


_AT_MOST = {
    RiskName.SELECTIVE: (
        "Of the questions{kind} that this policy answers, at most {share} get a wrong answer on "
        "average"
    ),
    RiskName.ERROR: "Of all questions{kind}, at most {share} get a wrong answer on average",
    RiskName.REGRET: (
        "Of all questions{kind}, at most {share} on average lose a right answer to early stopping"
    ),
}


def _statement(certificate: Certificate, level: CertifiedLevel, kind: str | None) -> str:
    """The guarantee in about 45 words; its limits are fields of `Guarantee`.

    A question of a kind that the certificate is not for is told so.
    """
    about = certificate.about
    like = "like the calibration's" if _is_gated(certificate) else "drawn as the calibration's were"
    at_most = _AT_MOST[RiskName(certificate.risk)].format(
        share=f"{100 * level.alpha:g}%", kind=_of_kind(certificate)
    )
    drawn, groups = f"{certificate.n_problems} calibration problems", certificate.groups
    if groups is not None:
        drawn = f"{certificate.n_units} calibration groups"
        if not groups.by_size:
            at_most = f"Counting every group equally, {at_most[0].lower()}{at_most[1:]}"
    limit = " in the limit of many problems" if certificate.p_value is PValue.CLT else ""
    alone = f" For questions of kind {kind!r} alone nothing is promised." if kind != about else ""
    confidence = f"{percent(1 - certificate.whole_delta)} confidence{limit}"
    return (
        f"{at_most}. This covers first asks of questions {like}, with {confidence} over the draw "
        f"of {drawn}, {_choice(certificate)}.{_jointly(certificate, level)}{alone}"
    )


def _bounds(certificate: Certificate, level: CertifiedLevel) -> dict[str, float]:
    """The bounds on other risks at a level."""
    if certificate.joint is None:
        return {}
    at = certificate.levels.index(level)
    found = {one.risk: one.bounds[at] for one in certificate.joint.bounds}
    return {name: bound for name, bound in found.items() if bound is not None}


def _next_questions(certificate: Certificate, level: CertifiedLevel) -> NextQuestionsBound | None:
    """How many of the next questions go wrong at most at a level."""
    coming = None if certificate.joint is None else certificate.joint.next
    if coming is None:
        return None
    most = coming.most[certificate.levels.index(level)]
    return None if most is None else NextQuestionsBound(coming.questions, most)


def _is_gated(certificate: Certificate) -> bool:
    return certificate.fingerprint is not None and certificate.fingerprint.is_gated


def _of_kind(certificate: Certificate) -> str:
    return f" of kind {certificate.about!r}" if certificate.about else ""


_SIDES = {
    "declined": "the service abstains on at most {most} of all questions{which}",
    "wrong": "at most {most} of all questions{which} get a wrong answer",
    "lost": "at most {most} of all questions{which} lose a right answer",
}
_BEGUN = ", from a moment that was fixed before"
_GO_WRONG = {
    RiskName.SELECTIVE: "answered questions{which}{begun}, at most {most} get a wrong answer",
    RiskName.ERROR: "questions{which}{begun}, at most {most} get a wrong answer",
    RiskName.REGRET: "questions{which}{begun}, at most {most} lose a right answer",
}


def _jointly(certificate: Certificate, level: CertifiedLevel) -> str:
    """What holds jointly with a level, in one more sentence. Shares are averages as the level's."""
    groups = certificate.groups
    like = " like the calibration's" if _is_gated(certificate) else ""
    which = f"{_of_kind(certificate)}{like}"
    said = [
        _SIDES[name].format(most=at_most(bound), which=which)
        for name, bound in _bounds(certificate, level).items()
    ]
    if (coming := _next_questions(certificate, level)) is not None:
        apart = "" if groups is None else " from different groups"
        wrong = _GO_WRONG[RiskName(certificate.risk)].format(
            most=coming.most, which=f"{which}{apart}", begun=_BEGUN
        )
        said.append(f"in one count of {coming.questions} {wrong}")
    equally = "" if groups is None or groups.by_size else EQUALLY
    return f" At the same time, {equally}{', and '.join(said)}." if said else ""


def _choice(certificate: Certificate) -> str:
    """What may be chosen after looking."""
    kinds = certificate.kind is not None and certificate.kind.certified
    if certificate.promise is Promise.SIMULTANEOUS:
        if certificate.sequential is not None:
            return "at all times and whichever alpha is chosen"
        return "whichever kind and alpha are chosen" if kinds else "whichever alpha is chosen"
    return (
        "whichever kind is chosen, if alpha was chosen beforehand"
        if kinds
        else ("if alpha was chosen beforehand")
    )
