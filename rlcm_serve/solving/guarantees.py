"""Which policy a question runs under, and what may be promised for it.

A guarantee speaks of one procedure: this engine, this risk, this many samples, this vote, this
budget. A question that departs from all that are certified is still answered, under the policy of
the nearest one, but without a guarantee, and the reason says what departed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Self

from calibration import FULL_BUDGET, ExitPolicy
from calibration.certificate.certificate import Certificate, CertifiedLevel
from calibration.errors import InfeasibleAlpha
from calibration.testing.fwer import Promise
from rlcm_serve.core import (
    Budget,
    Expectation,
    Guarantee,
    OnInfeasible,
    Question,
    RiskName,
    Role,
)
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.errors import CertificateMismatch, Infeasible
from rlcm_serve.solving.fingerprints import ServedProcedure, require_fit

CERTIFICATE_FOLDER = "certificates"
"""Where a model's folder keeps its certificates, one JSON file each."""

NO_CERTIFICATE = (
    "no certificate is loaded, so nothing is known about the risk: record problems with "
    "`rlcm collect` and fit one with `rlcm fit`"
)


@dataclass(frozen=True, slots=True)
class Terms:
    """What one question is answered under: a guarantee, or the reason why there is none.

    `policy` None means an abstention before any token is drawn. `expectation` is of the certified
    procedure; None for any other.
    """

    policy: ExitPolicy | None
    budget: Budget
    guarantee: Guarantee | None
    no_guarantee_reason: str | None
    expectation: Expectation | None = None


def find_certificates(model: Path) -> tuple[Path, ...]:
    """The certificates that lie in a model's folder; none if there is no such folder."""
    return tuple(sorted((model / CERTIFICATE_FOLDER).glob("*.json")))


class Guarantees:
    """The certificates of one engine; never altered, so that a question keeps those it began with.

    Raises:
        CertificateMismatch: a certificate was fitted on something else than this engine, or two are
            for the same procedure, or one bounds a risk that the service does not know; the message
            names each difference.
    """

    def __init__(self, identity: EngineIdentity, certificates: Sequence[Certificate] = ()) -> None:
        self.identity = identity
        for certificate in certificates:
            require_fit(certificate, identity)
        self._certified = [(ServedProcedure.of_certificate(one), one) for one in certificates]
        for (procedure, one), (other_procedure, other) in combinations(self._certified, 2):
            if procedure == other_procedure:
                raise CertificateMismatch(
                    f"certificates {one.id} and {other.id} are for the same procedure: keep the "
                    "one to serve, or name its file"
                )

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """Those in force."""
        return tuple(certificate for _, certificate in self._certified)

    @classmethod
    def load(cls, identity: EngineIdentity, files: Sequence[Path]) -> Self:
        """The guarantees of these certificate files.

        Raises:
            CertificateMismatch: as for the class.
            CertificateError: a file is no certificate, of another version, or was edited.
        """
        return cls(identity, [Certificate.load(file) for file in files])

    def terms_for(self, question: Question) -> Terms:
        """The policy for a question's alpha, and the promise it may be given.

        Raises:
            Infeasible: no certified policy keeps this alpha, and the question asks for an error
                then.
        """
        asked = ServedProcedure.of_question(question, self.identity.budget.thinking)
        budget = replace(self.identity.budget, thinking=asked.max_tokens)
        nearest = _nearest(asked, self._certified)
        if nearest is None:
            return Terms(FULL_BUDGET, budget, None, self._why_uncertified(question.risk))
        procedure, certificate = nearest
        try:
            level = _level(certificate, question.alpha)
        except Infeasible as infeasible:
            return _terms_without_level(question, budget, infeasible)
        departures = [*_departures(procedure, asked), *_overrides(self.identity, question)]
        if departures:
            reason = (
                f"certificate {certificate.id} is for another procedure: {'; '.join(departures)}"
            )
            return Terms(level.policy, budget, None, reason)
        return Terms(
            policy=level.policy,
            budget=budget,
            guarantee=_guarantee(certificate, level, question.alpha),
            no_guarantee_reason=None,
            expectation=Expectation(level.expected_tokens, level.full_budget_tokens),
        )

    def _why_uncertified(self, risk: RiskName) -> str:
        if not self._certified:
            return NO_CERTIFICATE
        bounded = sorted({procedure.risk for procedure, _ in self._certified})
        return (
            f"no certificate bounds the risk '{risk}', so it was answered at the full budget; "
            f"certified here: {', '.join(bounded)}"
        )


def _nearest(
    asked: ServedProcedure, certified: Iterable[tuple[ServedProcedure, Certificate]]
) -> tuple[ServedProcedure, Certificate] | None:
    """The certificate of the same risk that is nearest; a smaller n is the safer stand-in."""
    of_risk = [pair for pair in certified if pair[0].risk == asked.risk]
    return min(
        of_risk,
        key=lambda pair: (
            pair[0].samples != asked.samples,
            pair[0].vote != asked.vote,
            abs(pair[0].max_tokens - asked.max_tokens),
            pair[0].samples,
        ),
        default=None,
    )


def _level(certificate: Certificate, alpha: float) -> CertifiedLevel:
    try:
        return certificate.level_for(alpha)
    except InfeasibleAlpha as error:
        raise Infeasible(
            alpha=alpha,
            smallest_certifiable=error.smallest_certifiable,
            certified=tuple(level.alpha for level in certificate.levels if level.certified),
            why=str(error),
        ) from error


def _terms_without_level(question: Question, budget: Budget, infeasible: Infeasible) -> Terms:
    """What a question has asked for in case that nothing is certified at its alpha.

    Raises:
        Infeasible: it asked for an error.
    """
    if question.on_infeasible is OnInfeasible.ERROR:
        raise infeasible
    full = question.on_infeasible is OnInfeasible.FULL_BUDGET
    done = "answered at the full budget" if full else "not answered"
    reason = f"{infeasible}; {done}, as on_infeasible asked for"
    return Terms(FULL_BUDGET if full else None, budget, None, reason)


def _departures(certified: ServedProcedure, asked: ServedProcedure) -> list[str]:
    """Where the procedure is another than the certified one, both values named."""
    fields = {"n": "samples", "vote": "vote", "max_tokens": "max_tokens"}
    values = {name: (getattr(asked, at), getattr(certified, at)) for name, at in fields.items()}
    if asked.samples == 1 or certified.samples == 1:
        del values["vote"]
    return [
        f"{name} is {value}, certified is {fitted}"
        for name, (value, fitted) in values.items()
        if value != fitted
    ]


def _overrides(identity: EngineIdentity, question: Question) -> list[str]:
    """What the question changes of the engine's own settings, and of its prompt."""
    overrides = [
        f"{name} is {value:g}, certified is {fitted:g}"
        for name, value, fitted in (
            ("temperature", question.temperature, identity.sampling.temperature),
            ("top_p", question.top_p, identity.sampling.top_p),
        )
        if value not in (None, fitted)
    ]
    if question.seed is not None:
        overrides.append(
            f"seed is {question.seed}, certified are free draws (seeds can be fished for)"
        )
    roles = {message.role for message in question.context}
    if Role.SYSTEM in roles:
        overrides.append("there is a system prompt, certified are questions without one")
    if roles - {Role.SYSTEM}:
        overrides.append("the conversation has several turns, certified are single questions")
    return overrides


def _guarantee(certificate: Certificate, level: CertifiedLevel, alpha: float) -> Guarantee:
    return Guarantee(
        risk=certificate.risk,
        alpha_requested=alpha,
        alpha_certified=level.alpha,
        delta=certificate.delta,
        promise=str(certificate.promise),
        certificate=certificate.id,
        statement=_statement(certificate, level),
    )


_AT_MOST = {
    RiskName.SELECTIVE: (
        "Among the questions it answers under this policy, the service answers at most {} wrong "
        "on average"
    ),
    RiskName.ERROR: "Of all questions, the service answers at most {} wrong on average",
    RiskName.REGRET: (
        "Of all questions, on average at most {} lose by the early stop a right answer that the "
        "full budget would have given"
    ),
}


def _statement(certificate: Certificate, level: CertifiedLevel) -> str:
    choice = (
        "whichever alpha is asked for"
        if certificate.promise is Promise.SIMULTANEOUS
        else "provided that alpha was chosen without looking at outcomes"
    )
    return (
        f"{_AT_MOST[RiskName(certificate.risk)].format(f'{100 * level.alpha:g}%')}, with "
        f"{100 * (1 - certificate.delta):g}% "
        f"confidence over the draw of the {certificate.n_problems} calibration problems, {choice}; "
        f"this does not cover: {'; '.join(certificate.does_not_cover)}."
    )
