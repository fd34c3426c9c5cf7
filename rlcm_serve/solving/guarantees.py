"""Selects the policy of a question and the guarantee that covers its answer.

A guarantee is for one profile and procedure: engine, risk, number of samples, vote and budget. A
question that differs from every certified procedure, or an engine that computes other numbers, is
answered under the policy of the nearest certificate, but without a guarantee. The reason names each
difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self

from calibration import FULL_BUDGET, ExitPolicy
from calibration.certificate.certificate import Certificate
from calibration.certificate.kinds import named
from calibration.certificate.levels import CertifiedLevel
from calibration.errors import InfeasibleAlpha
from calibration.traces.fingerprint import Effect
from rlcm_serve.core import (
    Budget,
    Expectation,
    Guarantee,
    NoGuarantee,
    OnInfeasible,
    Question,
    Verified,
)
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.errors import CertificateMismatch, Infeasible
from rlcm_serve.signing import SUFFIX as SIGNATURE_SUFFIX
from rlcm_serve.solving.asking import Asked, HowAsked, ask_under
from rlcm_serve.solving.fingerprints import (
    RESTORE,
    ServedProcedure,
    departures_of,
    profiles_of,
    voided_by,
)
from rlcm_serve.solving.slots import ServedUnder
from rlcm_serve.solving.statement import guarantee_of

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
    certificate; None without a guarantee. `asked` has the question's profile and its messages.
    """

    asked: Asked
    policy: ExitPolicy | None
    budget: Budget
    guarantee: Guarantee | None
    no_guarantee_reason: str | None
    expectation: Expectation | None = None
    no_guarantee_code: NoGuarantee | None = None

    def without(self, reason: str, code: NoGuarantee) -> Terms:
        """The same policy without a guarantee."""
        return replace(
            self,
            guarantee=None,
            no_guarantee_reason=reason,
            expectation=None,
            no_guarantee_code=code,
        )


def find_certificates(model: Path) -> tuple[Path, ...]:
    """The certificate files in a model's folder; empty if there is no such folder."""
    files = sorted((model / CERTIFICATE_FOLDER).glob("*.json"))
    return tuple(file for file in files if not file.name.endswith(SIGNATURE_SUFFIX))


class Withdrawn(NamedTuple):
    """Why a certificate's guarantee is not given, and since when (Unix time).

    `restored` is when its policies were put back, without a guarantee; None if they were not. Until
    then the policies of levels below `below` serve, or the full budget if there is none.
    """

    why: str
    since: float
    restored: float | None = None
    below: float | None = None

    @property
    def reason(self) -> str:
        """Why answers have no guarantee, and how they are given."""
        if self.restored is not None or self.below is None:
            return self.reason_at(None)
        served = f"with policies of levels below alpha {self.below:g}, or at the full budget"
        since = f"{self.why}; answered without a guarantee until a fresh certificate is active"
        return f"{since}, {served}"

    def reason_at(self, level: CertifiedLevel | None) -> str:
        """Why an answer has no guarantee that is given with the policy of a smaller level.

        Args:
            level: the smaller level; None for the full budget, or the policy that was put back.
        """
        if self.restored is not None:
            return f"{self.why}; its policy was put back without a guarantee"
        served = "at the full budget"
        if level is not None:
            served = f"with the policy of alpha {level.alpha:g}"
        return f"{self.why}; answered {served} until a fresh certificate is active"

    def level(self, certificate: Certificate, alpha: float) -> CertifiedLevel | None:
        """The level whose policy serves a question for `alpha`; None for the full budget.

        It has another policy than the level that alarmed.
        """
        if self.below is None:
            return None
        certified = certificate.certified_levels
        alarmed = [one.policy for one in certified if one.alpha == self.below]
        most = min(alpha, self.below)
        smaller = (one for one in certified if one.alpha <= most and one.policy not in alarmed)
        return max(smaller, key=lambda one: one.alpha, default=None)


class _Certified(NamedTuple):
    """A certificate with a profile and the procedure that it is for.

    `voids` are the departures of this engine for which no answer has its guarantee.
    """

    profile: str
    procedure: ServedProcedure
    certificate: Certificate
    voids: tuple[str, ...]


class Guarantees:
    """The active certificates of one engine. Immutable: a question keeps those it started with.

    Args:
        identities: of the engine, one for each profile.
        certificates: those to serve.
        verified: by id, how their figures were verified.
        unsigned: ids of those that are not served, because they lack the signature that the
            service demands.
        withdrawn: by id, those whose guarantee is not given since an alarm.
        refused: by id, why others are not served in the place of a withdrawn one.

    Raises:
        CertificateMismatch: a certificate was fitted on something else than this engine, or two are
            for the same procedure, or one bounds a risk that the service does not know; the message
            names each difference.
        CertificateError: the figures of a certificate contradict each other.
    """

    def __init__(
        self,
        identities: Sequence[EngineIdentity],
        certificates: Sequence[Certificate] = (),
        verified: Mapping[str, Verified] | None = None,
        unsigned: Sequence[str] = (),
        withdrawn: Mapping[str, Withdrawn] | None = None,
        refused: Mapping[str, str] | None = None,
    ) -> None:
        self.identities = tuple(identities)
        self.unsigned = tuple(unsigned)
        self.withdrawn = dict(withdrawn or {})
        self._refused = dict(refused or {})
        self._verified = dict(verified or {})
        self._profiles = [identity.profile for identity in identities]
        self._certificates = tuple(certificates)
        self._certified: list[_Certified] = []
        for certificate in certificates:
            certificate.check()
            fitting = profiles_of(certificate, identities)
            for identity in identities:
                if identity.profile.name in fitting:
                    self._add(identity, certificate)

    def _add(self, identity: EngineIdentity, certificate: Certificate) -> None:
        profile = identity.profile.name
        procedure = ServedProcedure.of_certificate(certificate)
        for other in self._certified:
            if (profile, procedure) == (other.profile, other.procedure):
                raise CertificateMismatch(
                    f"certificates {other.certificate.id} and {certificate.id} are for the same "
                    "procedure: keep one of them, or name its file with --certificate"
                )
        voids = tuple(departures_of(certificate, identity, Effect.VOIDS))
        self._certified.append(_Certified(profile, procedure, certificate, voids))

    @cached_property
    def served_under(self) -> Mapping[str, ServedUnder]:
        """What answers are given under, by the names of the profiles."""
        return {one.profile.name: ServedUnder.of(one) for one in self.identities}

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """The active certificates."""
        return self._certificates

    @property
    def given(self) -> frozenset[str]:
        """Ids of the certificates whose guarantee answers can have: neither void nor withdrawn."""
        valid = {one.certificate.id for one in self._certified if not one.voids}
        return frozenset(valid - self.withdrawn.keys())

    def profiles_of(self, id_: str) -> tuple[str, ...]:
        """The profiles that an active certificate is for."""
        return tuple(one.profile for one in self._certified if one.certificate.id == id_)

    def void(self, id_: str) -> str | None:
        """Why no answer of this engine has an active certificate's guarantee; None if they may."""
        return voided_by(*self._fitted_here(id_))

    def caveats(self, id_: str) -> tuple[str, ...]:
        """How this engine departs from the one that an active certificate was fitted on."""
        fitted_here = self._fitted_here(id_)
        voids = departures_of(*fitted_here, Effect.VOIDS)
        warns = departures_of(*fitted_here, Effect.WARNS)
        return (
            *(f"{line}: its answers have no guarantee; {RESTORE}" for line in voids),
            *(f"{line}: its answers are the same up to rounding" for line in warns),
        )

    def _fitted_here(self, id_: str) -> tuple[Certificate, EngineIdentity]:
        """An active certificate, and the engine under a profile that it is for."""
        certificate = next(one for one in self._certificates if one.id == id_)
        return certificate, self._identity_named(self.profiles_of(id_)[0])

    def verified(self, id_: str) -> Verified:
        """How the figures of an active certificate were verified."""
        return self._verified.get(id_, Verified.NONE)

    @classmethod
    def load(cls, identities: Sequence[EngineIdentity], files: Sequence[Path]) -> Self:
        """The guarantees of these certificate files.

        Raises:
            CertificateMismatch: as for the class.
            CertificateError: a file is no certificate, of another version, or was edited.
        """
        return cls(identities, [Certificate.load(file) for file in files])

    def identity_for(self, question: Question) -> EngineIdentity:
        """The engine under the question's profile.

        Raises:
            RequestRefused: the question names a profile that is not served.
        """
        return self._identity_of(ask_under(question, self._profiles))

    def _identity_of(self, asked: Asked) -> EngineIdentity:
        return self._identity_named(asked.profile.name)

    def _identity_named(self, profile: str) -> EngineIdentity:
        return next(one for one in self.identities if one.profile.name == profile)

    def terms_for(self, question: Question) -> Terms:
        """The policy for a question's alpha, and the promise it may be given.

        Raises:
            Infeasible: no certified policy keeps this alpha, and the question asks for an error
                then.
            RequestRefused: the question names a profile that is not served.
        """
        asked = ask_under(question, self._profiles)
        identity = self._identity_of(asked)
        how = HowAsked.of(question, asked, identity.budget.thinking)
        wanted = how.procedure
        budget = replace(identity.budget, thinking=wanted.max_tokens)
        of_profile = [one for one in self._certified if one.profile == asked.profile.name]
        nearest = _nearest(wanted, of_profile)
        if nearest is None:
            why = self._why_uncertified(question, asked)
            return _unpromised(asked, FULL_BUDGET, budget, why, NoGuarantee.UNCERTIFIED)
        certificate = nearest.certificate
        withdrawn = self.withdrawn.get(certificate.id)
        if withdrawn is not None and withdrawn.restored is None:
            smaller = withdrawn.level(certificate, question.alpha)
            policy = FULL_BUDGET if smaller is None else smaller.policy
            reason, lost = withdrawn.reason_at(smaller), NoGuarantee.WITHDRAWN
            return _unpromised(asked, policy, budget, reason, lost)
        try:
            level = _level(certificate, question.alpha)
        except Infeasible as infeasible:
            return _terms_without_level(question, asked, budget, infeasible)
        alike = {o.procedure.samples for o in of_profile if o.procedure.risk == question.risk}
        departures = how.departures_from(certificate, [*alike])
        if nearest.voids:
            departures += [*nearest.voids, RESTORE]
        if departures:
            reason = (
                f"certificate {certificate.id} does not cover this request: {'; '.join(departures)}"
            )
            return _unpromised(asked, level.policy, budget, reason, NoGuarantee.NOT_COVERED)
        if withdrawn is not None:
            lost = NoGuarantee.WITHDRAWN
            return _unpromised(asked, level.policy, budget, withdrawn.reason, lost)
        return Terms(
            asked=asked,
            policy=level.policy,
            budget=budget,
            guarantee=replace(
                guarantee_of(certificate, level, question.alpha, question.kind),
                verified=self.verified(certificate.id),
            ),
            no_guarantee_reason=None,
            expectation=Expectation(level.expected_tokens, level.full_budget_tokens),
        )

    def _why_uncertified(self, question: Question, asked: Asked) -> str:
        if not self._certified and self.unsigned:
            return (
                "this service demands signed certificates, and none of its certificates is signed "
                f"by a trusted key ({', '.join(self.unsigned)}): sign them with `rlcm keys sign`"
            )
        if not self._certified:
            for id_, why in self._refused.items():
                return f"certificate {id_} is not served: {why}"
            return NO_CERTIFICATE
        profile, risk = asked.profile.name, question.risk
        of_profile = [one for one in self._certified if one.profile == profile]
        bounded = sorted({one.procedure.risk for one in of_profile})
        if not bounded:
            return self._why_no_profile(asked)
        kinds = sorted({o.procedure.kind or "" for o in of_profile if o.procedure.risk == risk})
        if kinds:
            remedy = "activate the certificate of all kinds that was fitted with them"
            return (
                f"the certificates for the risk '{risk}' are for questions of the kinds "
                f"{named(kinds)} alone, so it was answered at the full budget: "
                + (f"name the question's kind, or {remedy}" if question.kind is None else remedy)
            )
        return (
            f"no certificate covers the risk '{risk}', so it was answered at the full budget; "
            f"risks with a certificate: {', '.join(bounded)}"
        )

    def _why_no_profile(self, asked: Asked) -> str:
        certified = dict.fromkeys(one.profile for one in self._certified)
        return "; ".join(
            (
                f"no certificate is for the profile {asked.profile.name!r}, so it was answered at "
                "the full budget",
                *asked.departures,
                f"profiles with a certificate: {', '.join(certified)}",
            )
        )


def _nearest(wanted: ServedProcedure, certified: Iterable[_Certified]) -> _Certified | None:
    """The nearest certificate of the same risk; among equals, the one with the smaller n.

    It is that of the question's kind, or else that of all kinds.
    """

    def distance(one: _Certified) -> tuple[bool, bool, int, bool, int]:
        fitted = one.procedure
        return (
            fitted.samples != wanted.samples,
            fitted.vote != wanted.vote,
            abs(fitted.max_tokens - wanted.max_tokens),
            fitted.kind != wanted.kind,
            fitted.samples,
        )

    fitting = [
        one
        for one in certified
        if one.procedure.risk == wanted.risk and one.procedure.kind in (wanted.kind, None)
    ]
    return min(fitting, key=distance, default=None)


def _level(certificate: Certificate, alpha: float) -> CertifiedLevel:
    try:
        return certificate.level_for(alpha)
    except InfeasibleAlpha as error:
        raise Infeasible(
            alpha=alpha,
            smallest_certifiable=error.smallest_certifiable,
            certified=tuple(level.alpha for level in certificate.certified_levels),
            why=str(error),
        ) from error


def _terms_without_level(
    question: Question, asked: Asked, budget: Budget, infeasible: Infeasible
) -> Terms:
    """The terms that `on_infeasible` requests if no policy is certified at the question's alpha.

    Raises:
        Infeasible: it asked for an error.
    """
    if question.on_infeasible is OnInfeasible.ERROR:
        raise infeasible
    full = question.on_infeasible is OnInfeasible.FULL_BUDGET
    done = "answered at the full budget" if full else "not answered"
    reason = f"{infeasible}; {done}, as on_infeasible requests"
    policy = FULL_BUDGET if full else None
    return _unpromised(asked, policy, budget, reason, NoGuarantee.INFEASIBLE)


def _unpromised(
    asked: Asked, policy: ExitPolicy | None, budget: Budget, reason: str, code: NoGuarantee
) -> Terms:
    return Terms(asked, policy, budget, None, reason, no_guarantee_code=code)
