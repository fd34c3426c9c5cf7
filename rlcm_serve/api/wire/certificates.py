"""Wire types of certificates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Self

from pydantic import Field

from calibration.certificate.certificate import Certificate
from calibration.certificate.levels import CertifiedLevel, Level
from calibration.simulation.groups import Average
from rlcm_serve.api.wire import terms
from rlcm_serve.api.wire.base import Wire
from rlcm_serve.store.certificates import KeptCertificate


class LevelBody(Wire):
    """A risk level: the certified policy, or the reason why none is certified."""

    alpha: terms.Alpha
    certified: terms.IsCertified
    policy: terms.PolicyScalars
    reason: terms.WhyUncertified
    p_value: terms.PValue
    risk: terms.RiskOnCalibration
    risk_upper: terms.RiskUpper
    share_answered: terms.ShareAnswered
    share_right: float | None = Field(examples=[0.86])
    """Share of the calibration problems that are answered correctly."""
    expected_tokens: terms.ExpectedTokens
    full_budget_tokens: terms.FullBudgetTokens

    @classmethod
    def from_level(cls, level: Level) -> Self:
        """The wire form of a level."""
        if isinstance(level, CertifiedLevel):
            shown = asdict(level) | {"policy": level.policy.to_scalars(), "reason": None}
        else:
            shown = dict.fromkeys(cls.model_fields) | asdict(level)
        shown["certified"] = level.certified
        return cls(**{name: shown[name] for name in cls.model_fields})


LEVEL_EXAMPLE = LevelBody.example(reason=None)


class ProcedureBody(Wire):
    """The part of a certificate that a caller selects: number of samples, vote and budget."""

    n: terms.Samples
    vote: terms.Vote
    max_tokens: terms.ThinkingBudget

    @classmethod
    def of(cls, certificate: Certificate) -> Self:
        """The part of a certificate; `max_tokens` is None without a fingerprint."""
        fitted = certificate.fingerprint
        return cls(
            n=certificate.procedure.samples,
            vote=certificate.procedure.vote,
            max_tokens=None if fitted is None else fitted.max_tokens,
        )


class KindBody(Wire):
    """The kind of question that a certificate is for, and what holds together with it."""

    by: str = Field(examples=["topic"])
    """Column of the calibration problems that named the kinds."""
    name: str | None = Field(examples=["algebra"])
    """The kind; null if the certificate is for questions of all kinds."""
    certified: list[str] = Field(examples=[["algebra", "geometry"]])
    """Kinds with certificates of their own, which were fitted together with this one."""
    pooled: list[str] = Field(examples=[["logic"]])
    """Kinds with too few labels for a certificate of their own."""
    delta: float = Field(examples=[0.1])
    """Probability that any of the certificates that were fitted together fails."""

    @classmethod
    def of(cls, certificate: Certificate) -> Self | None:
        """The wire form of a certificate's kind; None if it does not distinguish kinds."""
        return None if certificate.kind is None else cls(**_lists(asdict(certificate.kind)))


class SideBoundBody(Wire):
    """An upper bound on another risk than that of the levels."""

    risk: str = Field(examples=["declined"])
    """What is bounded: the share that is `declined`, `wrong` or `lost` of all questions, or, where
    groups count the same, the mean of their shares."""
    at_most: float | None = Field(examples=[0.4])
    """Limit that every policy served keeps; null if none was set."""
    bounds: list[float | None] = Field(examples=[[0.4, 0.4]])
    """The bound at each level; null where no policy is certified."""


class NextQuestionsOfLevels(Wire):
    """How many of the next questions go wrong at most, at each level."""

    questions: int = Field(examples=[100])
    """Number of next questions. Under the risk `selective`, those that are answered count."""
    most: list[int | None] = Field(examples=[[11, 17]])
    """Most of them that go wrong, at each level; null where no policy is certified."""
    different_groups: bool = Field(examples=[False])
    """Whether the bound holds only for questions of which no two are of one group."""


class JointBody(Wire):
    """What holds jointly with the levels of a certificate, under one delta."""

    delta: float = Field(examples=[0.1])
    """Probability that anything of it fails, levels included."""
    bounds: list[SideBoundBody] = Field(examples=[[SideBoundBody.example()]])
    """Upper bounds on other risks."""
    next: NextQuestionsOfLevels | None = Field(examples=[NextQuestionsOfLevels.example()])
    """Upper bounds on how many of the next questions go wrong; null if there are none."""

    @classmethod
    def of(cls, certificate: Certificate) -> Self | None:
        """The wire form of what holds jointly with a certificate's levels."""
        if certificate.joint is None:
            return None
        values = json.loads(json.dumps(certificate.joint.to_json()))
        if values["next"] is not None:
            values["next"]["different_groups"] = certificate.groups is not None
        return cls.model_validate(values)


def _lists(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(one) if isinstance(one, tuple) else one for name, one in values.items()}


class CertificateBody(Wire):
    """A certificate: its guarantee, what it applies to, and whether it is active.

    `/certificates/{id}` has the complete certificate, as `rlcm verify` reads it.
    """

    id: terms.CertificateId
    active: terms.IsActive
    fits: terms.Fits
    misfit: terms.Misfit
    withdrawn: terms.GuaranteeWithdrawn
    voided: terms.GuaranteeVoided
    profiles: terms.ServedProfiles
    verified: terms.VerifiedBy
    refusal: str | None = Field(examples=[None])
    """Why the service must not serve this certificate: it demands a signature of a trusted key, and
    there is none; or an alarm withdrew the guarantee of another certificate for the same questions,
    and this one cannot take its place. Null if it may.
    """
    origin: str = Field(examples=["job cal_5f3a9c21d07e"])
    """Where the certificate comes from: a file, an upload or a calibration job."""
    added: str | None = Field(examples=["2026-01-12T09:30:00+00:00"])
    """When the certificate was stored, as an ISO 8601 time in UTC; null for a file."""
    created: terms.CreatedOn
    risk: terms.BoundedRisk
    promise: terms.PromiseKind
    delta: terms.Delta
    average: terms.AveragedOver
    procedure: ProcedureBody = Field(examples=[ProcedureBody.example(max_tokens=1024)])
    """How a question must be asked to be covered by the certificate."""
    kind: KindBody | None = Field(default=None, examples=[None])
    """Kind of question that the certificate is for; null if it does not distinguish kinds."""
    joint: JointBody | None = Field(default=None, examples=[None])
    """What holds jointly with the levels; null if nothing does."""
    method: terms.MethodInWords
    levels: list[LevelBody] = Field(examples=[[LEVEL_EXAMPLE]])
    """Levels of the certificate, by ascending alpha."""
    n_problems: terms.CalibrationProblems
    smallest_certifiable_alpha: terms.SmallestAlpha
    covers: terms.Covers
    does_not_cover: terms.DoesNotCover
    fingerprint: terms.FingerprintOf

    @classmethod
    def from_kept(cls, kept: KeptCertificate, engine_known: bool) -> Self:
        """The wire form of a certificate."""
        made = kept.certificate
        return cls(
            id=made.id,
            active=kept.active,
            fits=kept.misfit is None if engine_known else None,
            misfit=kept.misfit,
            withdrawn=kept.withdrawn,
            voided=kept.voided,
            profiles=list(kept.profiles),
            verified=kept.verified.value,
            refusal=kept.refusal,
            origin=kept.origin,
            added=iso_or_none(kept.added),
            created=made.created,
            risk=made.risk,
            promise=made.promise.value,
            delta=made.delta,
            average=(Average.PROBLEMS if made.groups is None else made.groups.average).value,
            procedure=ProcedureBody.of(made),
            kind=KindBody.of(made),
            joint=JointBody.of(made),
            method=made.method,
            levels=[LevelBody.from_level(level) for level in made.levels],
            n_problems=made.n_problems,
            smallest_certifiable_alpha=made.smallest_certifiable_alpha,
            covers=made.covers,
            does_not_cover=made.does_not_cover,
            fingerprint=None if made.fingerprint is None else made.fingerprint.to_json(),
        )


class CertificateList(Wire):
    """All certificates of the service."""

    certificates: list[CertificateBody] = Field(examples=[[]])
    """All certificates, active ones first."""
    max_tokens: int | None = Field(examples=[960])
    """Thinking budget of questions that name neither a budget nor a profile. Certificates for other
    budgets do not cover them. Null while the engine starts.
    """


def iso(seconds: float) -> str:
    """A time in seconds since 1970 as ISO 8601, UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def iso_or_none(seconds: float | None) -> str | None:
    """As `iso`, of a time that may not have come."""
    return None if seconds is None else iso(seconds)


def json_body(description: str, examples: list[Mapping[str, Any]]) -> dict[str, Any]:
    """An OpenAPI response that is JSON of a shape documented elsewhere."""
    schema = {"type": "object", "description": description, "examples": examples}
    return {"description": description, "content": {"application/json": {"schema": schema}}}
