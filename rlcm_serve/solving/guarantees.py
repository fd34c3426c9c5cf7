"""Selects the policy of a question and the guarantee that covers its answer.

A guarantee is for one procedure: engine, risk, number of samples, vote and budget. A question that
differs from every certified procedure is answered under the policy of the nearest certificate, but
without a guarantee. The reason names each difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Self

from calibration import FULL_BUDGET, ExitPolicy
from calibration.certificate.certificate import Certificate
from calibration.certificate.levels import CertifiedLevel
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
    Verified,
)
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.errors import CertificateMismatch, Infeasible
from rlcm_serve.signing import SUFFIX as SIGNATURE_SUFFIX
from rlcm_serve.solving.fingerprints import ServedProcedure, require_fit

CERTIFICATE_FOLDER = "certificates"
"""Folder of certificate files inside a model's folder."""

NO_CERTIFICATE = (
    "no certificate is loaded, so the risk is unknown: record labelled problems with "
    "`rlcm collect` and fit a certificate with `rlcm fit`"
)


@dataclass(frozen=True, slots=True)
class Terms:
    """The policy of one question, with its guarantee or the reason why there is none.

    `policy` None means an abstention before any token is generated. `expectation` is that of the
    certificate; None without a guarantee.
    """

    policy: ExitPolicy | None
    budget: Budget
    guarantee: Guarantee | None
    no_guarantee_reason: str | None
    expectation: Expectation | None = None


def find_certificates(model: Path) -> tuple[Path, ...]:
    """The certificate files in a model's folder; empty if there is no such folder."""
    files = sorted((model / CERTIFICATE_FOLDER).glob("*.json"))
    return tuple(file for file in files if not file.name.endswith(SIGNATURE_SUFFIX))


class Guarantees:
    """The active certificates of one engine. Immutable: a question keeps those it started with.

    Args:
        identity: of the engine.
        certificates: those to serve.
        verified: by id, how their figures were verified.
        unsigned: ids of those that are not served, because they lack the signature that the
            service demands.

    Raises:
        CertificateMismatch: a certificate was fitted on something else than this engine, or two are
            for the same procedure, or one bounds a risk that the service does not know; the message
            names each difference.
        CertificateError: the figures of a certificate contradict each other.
    """

    def __init__(
        self,
        identity: EngineIdentity,
        certificates: Sequence[Certificate] = (),
        verified: Mapping[str, Verified] | None = None,
        unsigned: Sequence[str] = (),
    ) -> None:
        self.identity = identity
        self.unsigned = tuple(unsigned)
        self._verified = dict(verified or {})
        for certificate in certificates:
            certificate.check()
            require_fit(certificate, identity)
        self._certified = [(ServedProcedure.of_certificate(one), one) for one in certificates]
        for (procedure, one), (other_procedure, other) in combinations(self._certified, 2):
            if procedure == other_procedure:
                raise CertificateMismatch(
                    f"certificates {one.id} and {other.id} are for the same procedure: keep one "
                    "of them, or name its file with --certificate"
                )

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """The active certificates."""
        return tuple(certificate for _, certificate in self._certified)

    def verified(self, id_: str) -> Verified:
        """How the figures of an active certificate were verified."""
        return self._verified.get(id_, Verified.NONE)

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
                f"certificate {certificate.id} does not cover this request: {'; '.join(departures)}"
            )
            return Terms(level.policy, budget, None, reason)
        return Terms(
            policy=level.policy,
            budget=budget,
            guarantee=replace(
                _guarantee(certificate, level, question.alpha),
                verified=self.verified(certificate.id),
            ),
            no_guarantee_reason=None,
            expectation=Expectation(level.expected_tokens, level.full_budget_tokens),
        )

    def _why_uncertified(self, risk: RiskName) -> str:
        if not self._certified and self.unsigned:
            return (
                "this service demands signed certificates, and none of its certificates is signed "
                f"by a trusted key ({', '.join(self.unsigned)}): sign them with `rlcm keys sign`"
            )
        if not self._certified:
            return NO_CERTIFICATE
        bounded = sorted({procedure.risk for procedure, _ in self._certified})
        return (
            f"no certificate covers the risk '{risk}', so it was answered at the full budget; "
            f"risks with a certificate: {', '.join(bounded)}"
        )


def _nearest(
    asked: ServedProcedure, certified: Iterable[tuple[ServedProcedure, Certificate]]
) -> tuple[ServedProcedure, Certificate] | None:
    """The nearest certificate of the same risk; among equals, the one with the smaller n."""
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
    """The terms that `on_infeasible` requests if no policy is certified at the question's alpha.

    Raises:
        Infeasible: it asked for an error.
    """
    if question.on_infeasible is OnInfeasible.ERROR:
        raise infeasible
    full = question.on_infeasible is OnInfeasible.FULL_BUDGET
    done = "answered at the full budget" if full else "not answered"
    reason = f"{infeasible}; {done}, as on_infeasible requests"
    return Terms(FULL_BUDGET if full else None, budget, None, reason)


def _departures(certified: ServedProcedure, asked: ServedProcedure) -> list[str]:
    """How the requested procedure differs from the certified one, with both values."""
    fields = {"n": "samples", "vote": "vote", "max_tokens": "max_tokens"}
    values = {name: (getattr(asked, at), getattr(certified, at)) for name, at in fields.items()}
    if asked.samples == 1 or certified.samples == 1:
        del values["vote"]
    return [
        f"{name} is {value}, the certified value is {fitted}"
        for name, (value, fitted) in values.items()
        if value != fitted
    ]


def _overrides(identity: EngineIdentity, question: Question) -> list[str]:
    """What the question changes in the sampling and the prompt that certificates assume."""
    overrides = [
        f"{name} is {value:g}, the certified value is {fitted:g}"
        for name, value, fitted in (
            ("temperature", question.temperature, identity.sampling.temperature),
            ("top_p", question.top_p, identity.sampling.top_p),
        )
        if value not in (None, fitted)
    ]
    if question.seed is not None:
        overrides.append(f"seed is {question.seed}; certificates assume unseeded sampling")
    roles = {message.role for message in question.context}
    if Role.SYSTEM in roles:
        overrides.append("there is a system prompt; certificates assume there is none")
    if roles - {Role.SYSTEM}:
        overrides.append("the conversation has several turns; certificates assume one question")
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
        n_problems=certificate.n_problems,
        method=certificate.method,
        covers=certificate.covers,
        does_not_cover=certificate.does_not_cover,
    )


_AT_MOST = {
    RiskName.SELECTIVE: (
        "Of the questions that the service answers under this policy, at most {} get a wrong "
        "answer on average"
    ),
    RiskName.ERROR: "Of all questions, at most {} get a wrong answer on average",
    RiskName.REGRET: (
        "Of all questions, at most {} on average lose a right answer of the full budget to early "
        "stopping"
    ),
}


def _statement(certificate: Certificate, level: CertifiedLevel) -> str:
    """The guarantee in one sentence of at most 40 words; its limits are fields of `Guarantee`."""
    choice = (
        "whichever alpha is asked for"
        if certificate.promise is Promise.SIMULTANEOUS
        else "provided that alpha was chosen without looking at outcomes"
    )
    return (
        f"{_AT_MOST[RiskName(certificate.risk)].format(f'{100 * level.alpha:g}%')}, with "
        f"{100 * (1 - certificate.delta):g}% confidence over the draw of {certificate.n_problems} "
        f"calibration problems, {choice}."
    )
