"""Wire types of certificates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Self

from pydantic import Field

from calibration.certificate.certificate import Certificate, CertifiedLevel, Level
from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.terms import (
    Alpha,
    BoundedRisk,
    CalibrationProblems,
    CertificateId,
    Covers,
    CreatedOn,
    Delta,
    DoesNotCover,
    ExpectedTokens,
    FingerprintOf,
    Fits,
    FullBudgetTokens,
    IsActive,
    IsCertified,
    MethodInWords,
    Misfit,
    PolicyScalars,
    PromiseKind,
    PValue,
    RiskOnCalibration,
    RiskUpper,
    Samples,
    ShareAnswered,
    ShareRight,
    SmallestAlpha,
    ThinkingBudget,
    Vote,
    WhyUncertified,
)
from rlcm_serve.store.certificates import KeptCertificate

LEVEL_EXAMPLE = {
    "alpha": 0.1,
    "certified": True,
    "policy": {"lambda_low": 0.4, "patience": 64, "lambda_high": 0.975},
    "reason": None,
    "p_value": 0.0021,
    "risk": 0.071,
    "risk_upper": 0.112,
    "share_answered": 0.93,
    "share_right": 0.86,
    "expected_tokens": 133.2,
    "full_budget_tokens": 381.5,
}
PROCEDURE_EXAMPLE = {"n": 1, "vote": "confidence", "max_tokens": 1024}


class LevelBody(Wire):
    """A risk level: the certified policy, or the reason why none is certified."""

    alpha: Alpha
    certified: IsCertified
    policy: PolicyScalars
    reason: WhyUncertified
    p_value: PValue
    risk: RiskOnCalibration
    risk_upper: RiskUpper
    share_answered: ShareAnswered
    share_right: ShareRight
    expected_tokens: ExpectedTokens
    full_budget_tokens: FullBudgetTokens

    @classmethod
    def from_level(cls, level: Level) -> Self:
        """The wire form of a level."""
        if isinstance(level, CertifiedLevel):
            shown = asdict(level) | {"policy": level.policy.to_scalars(), "reason": None}
        else:
            shown = dict.fromkeys(cls.model_fields) | asdict(level)
        shown["certified"] = level.certified
        return cls(**{name: shown[name] for name in cls.model_fields})


class ProcedureBody(Wire):
    """The part of a certificate that a caller selects: number of samples, vote and budget."""

    n: Samples
    vote: Vote
    max_tokens: ThinkingBudget


class CertificateBody(Wire):
    """A certificate: its guarantee, what it applies to, and whether it is active.

    `/certificates/{id}` has the complete certificate, as `rlcm verify` reads it.
    """

    id: CertificateId
    active: IsActive
    fits: Fits
    misfit: Misfit
    origin: str = Field(examples=["job cal_5f3a9c21d07e"])
    """Where the certificate comes from: a file, an upload or a calibration job."""
    added: str | None = Field(examples=["2026-01-12T09:30:00+00:00"])
    """When the certificate was stored, as an ISO 8601 time in UTC; null for a file."""
    created: CreatedOn
    risk: BoundedRisk
    promise: PromiseKind
    delta: Delta
    procedure: ProcedureBody = Field(examples=[PROCEDURE_EXAMPLE])
    """How a question must be asked to be covered by the certificate."""
    method: MethodInWords
    levels: list[LevelBody] = Field(examples=[[LEVEL_EXAMPLE]])
    """Levels of the certificate, by ascending alpha."""
    n_problems: CalibrationProblems
    smallest_certifiable_alpha: SmallestAlpha
    covers: Covers
    does_not_cover: DoesNotCover
    fingerprint: FingerprintOf

    @classmethod
    def from_kept(cls, kept: KeptCertificate, engine_known: bool) -> Self:
        """The wire form of a certificate."""
        made = kept.certificate
        return cls(
            id=made.id,
            active=kept.active,
            fits=kept.misfit is None if engine_known else None,
            misfit=kept.misfit,
            origin=kept.origin,
            added=None if kept.added is None else iso(kept.added),
            created=made.created,
            risk=made.risk,
            promise=made.promise.value,
            delta=made.delta,
            procedure=_procedure(made),
            method=made.method,
            levels=[LevelBody.from_level(level) for level in made.levels],
            n_problems=made.n_problems,
            smallest_certifiable_alpha=made.smallest_certifiable_alpha,
            covers=made.covers,
            does_not_cover=list(made.does_not_cover),
            fingerprint=None if made.fingerprint is None else made.fingerprint.to_json(),
        )


class CertificateList(Wire):
    """All certificates of the service."""

    certificates: list[CertificateBody] = Field(examples=[[]])
    """All certificates, active ones first."""


def iso(seconds: float) -> str:
    """A time in seconds since 1970 as ISO 8601, UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def json_body(description: str, examples: list[Mapping[str, Any]]) -> dict[str, Any]:
    """An OpenAPI response that is JSON of a shape documented elsewhere."""
    schema = {"type": "object", "description": description, "examples": examples}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _procedure(certificate: Certificate) -> ProcedureBody:
    fitted = certificate.fingerprint
    return ProcedureBody(
        n=certificate.procedure.samples,
        vote=certificate.procedure.vote,
        max_tokens=None if fitted is None else fitted.max_tokens,
    )
