"""Which policy a question runs under, and what may be promised for it.

A guarantee speaks of one procedure: this engine, this many samples, this vote, this budget. A
question that departs from it is still answered under the policy certified for its alpha, but
without a guarantee, and the reason says what departed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Self

from calibration import FULL_BUDGET, ExitPolicy
from calibration.certificate import Certificate, CertifiedLevel
from calibration.errors import InfeasibleAlpha
from calibration.fingerprint import Fingerprint
from calibration.fwer import Promise
from rlcm_serve.answers import GRADER
from rlcm_serve.core import Budget, Guarantee, Question
from rlcm_serve.engine.base import EngineIdentity
from rlcm_serve.errors import CertificateMismatch, Infeasible

CERTIFICATE_FOLDER = "certificates"
"""Where a model's folder keeps its certificates, one JSON file each."""

RISK = "selective"
"""The risk this service keeps: it abstains on a low exit, where other risks make it answer."""

NO_CERTIFICATE = (
    "no certificate is loaded, so nothing is known about the risk: record problems with "
    "`rlcm collect` and fit one with `rlcm fit`"
)


@dataclass(frozen=True, slots=True)
class Terms:
    """What one question is answered under: a guarantee, or the reason why there is none."""

    policy: ExitPolicy
    budget: Budget
    guarantee: Guarantee | None
    no_guarantee_reason: str | None


def find_certificates(model: Path) -> tuple[Path, ...]:
    """The certificates that lie in a model's folder; none if there is no such folder."""
    return tuple(sorted((model / CERTIFICATE_FOLDER).glob("*.json")))


def fingerprint_of(
    identity: EngineIdentity, samples: int = 1, vote: str = "confidence"
) -> Fingerprint:
    """What is calibrated when this engine draws `samples` samples and merges them by `vote`."""
    return Fingerprint(
        model=identity.model,
        probe=identity.probe,
        tokenizer=identity.tokenizer,
        chat_template=identity.chat_template,
        temperature=identity.sampling.temperature,
        top_p=identity.sampling.top_p,
        checkpoint_interval=identity.checkpoint_interval,
        max_tokens=identity.budget.thinking,
        answer_max_tokens=identity.budget.answer,
        forced_suffix=identity.forced_suffix,
        grader=GRADER,
        samples=samples,
        vote=vote,
    )


class Guarantees:
    """The certificates of one engine.

    Raises:
        CertificateMismatch: a certificate was fitted on something else than this engine, or two are
            for the same procedure, or one bounds another risk; the message names each difference.
    """

    def __init__(self, identity: EngineIdentity, certificates: Sequence[Certificate] = ()) -> None:
        self.identity = identity
        self._certified = [(_require_fit(one, identity), one) for one in certificates]
        for (fitted, one), (other_fitted, other) in combinations(self._certified, 2):
            if fitted == other_fitted:
                raise CertificateMismatch(
                    f"certificates {one.id} and {other.id} are for the same procedure: keep the "
                    "one to serve, or name its file"
                )

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """Those it holds."""
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
            Infeasible: certificates are loaded, but none of the policies keeps this alpha.
        """
        thinking = question.max_tokens or self.identity.budget.thinking
        budget = Budget(thinking=thinking, answer=self.identity.budget.answer)
        if not self._certified:
            return Terms(FULL_BUDGET, budget, None, NO_CERTIFICATE)
        fitted, certificate = min(self._certified, key=lambda pair: _distance(pair[0], question))
        level = _level(certificate, question.alpha)
        if departures := _departures(fitted, question):
            reason = (
                f"certificate {certificate.id} is for another procedure: {'; '.join(departures)}"
            )
            return Terms(level.policy, budget, None, reason)
        return Terms(level.policy, budget, _guarantee(certificate, level, question.alpha), None)


def _require_fit(certificate: Certificate, identity: EngineIdentity) -> Fingerprint:
    """The fingerprint of a certificate that is of this engine."""
    if certificate.risk != RISK:
        raise CertificateMismatch(
            f"certificate {certificate.id} bounds the risk {certificate.risk!r}: this service "
            f"keeps {RISK!r}; fit one for that"
        )
    fitted = certificate.fingerprint
    if fitted is None:
        raise CertificateMismatch(
            f"certificate {certificate.id} is not servable: its traces carry no fingerprint, so "
            "nothing says which engine it holds for; record with `rlcm collect` and fit again"
        )
    # Samples and vote are the caller's to choose, question by question.
    served = fingerprint_of(identity, samples=fitted.samples, vote=fitted.vote)
    if differences := fitted.differences(served):
        raise CertificateMismatch(
            f"certificate {certificate.id} was not fitted on this engine (certificate here, engine "
            f"there): {'; '.join(differences)}. Serve what it was fitted on, record and fit again, "
            "or start without it"
        )
    return fitted


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


def _departures(certified: Fingerprint, question: Question) -> list[str]:
    """What the question asks for that was not certified, both values named."""
    departures = []
    if question.samples != certified.samples:
        departures.append(f"n is {question.samples}, certified is {certified.samples}")
    # One sample wins any vote.
    if question.samples > 1 and question.vote != certified.vote:
        departures.append(f"vote is {question.vote}, certified is {certified.vote}")
    if question.max_tokens not in (None, certified.max_tokens):
        departures.append(
            f"max_tokens is {question.max_tokens}, certified is {certified.max_tokens}"
        )
    return departures


def _distance(certified: Fingerprint, question: Question) -> tuple[bool, bool, int]:
    """How far a certificate is from the question; a smaller n is the safer stand-in."""
    return certified.samples != question.samples, certified.vote != question.vote, certified.samples


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


def _statement(certificate: Certificate, level: CertifiedLevel) -> str:
    choice = (
        "whichever alpha is asked for"
        if certificate.promise is Promise.SIMULTANEOUS
        else "provided that alpha was chosen without looking at outcomes"
    )
    return (
        f"Among the questions it answers under this policy, the service answers at most "
        f"{100 * level.alpha:g}% wrong on average, with {100 * (1 - certificate.delta):g}% "
        f"confidence over the draw of the {certificate.n_problems} calibration problems, {choice}; "
        f"this does not cover: {'; '.join(certificate.does_not_cover)}."
    )
