"""What goes over the wire about certificates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import Field

from calibration.certificate.certificate import Certificate, CertifiedLevel, Level
from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.terms import (
    BoundedRisk,
    CertificateId,
    Delta,
    ExpectedTokens,
    FullBudgetTokens,
    PromiseKind,
    RiskOnCalibration,
    RiskUpper,
    Samples,
    ShareAnswered,
    ThinkingBudget,
    Vote,
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
FINGERPRINT_EXAMPLE = {"model": "9f0c5b", "probe": "1b7a2e", "temperature": 0.8, "top_p": 1.0}


class LevelBody(Wire):
    """One level of risk: the policy that keeps it, or the reason why none was certified."""

    alpha: Annotated[float, Field(description="The level.", examples=[0.1])]
    certified: Annotated[bool, Field(description="Whether a policy keeps it.", examples=[True])]
    policy: Annotated[
        dict[str, bool | int | float] | None,
        Field(
            description="The exit policy it is served with; null if none is certified.",
            examples=[LEVEL_EXAMPLE["policy"]],
        ),
    ]
    reason: Annotated[
        str | None,
        Field(
            description="Why none is certified, with the numbers, and what to do.",
            examples=["n too small: ...; record more problems"],
        ),
    ]
    p_value: Annotated[
        float, Field(description="Of the hypothesis that the risk exceeds alpha.", examples=[0.002])
    ]
    risk: RiskOnCalibration
    risk_upper: RiskUpper
    share_answered: ShareAnswered
    share_right: Annotated[
        float | None, Field(description="Answered and right, of all problems.", examples=[0.86])
    ]
    expected_tokens: ExpectedTokens
    full_budget_tokens: FullBudgetTokens

    @classmethod
    def from_level(cls, level: Level) -> Self:
        """The level as it goes over the wire."""
        if isinstance(level, CertifiedLevel):
            shown = asdict(level) | {"policy": level.policy.to_scalars(), "reason": None}
        else:
            shown = dict.fromkeys(cls.model_fields) | asdict(level)
        shown["certified"] = level.certified
        return cls(**{name: shown[name] for name in cls.model_fields})


class ProcedureBody(Wire):
    """How one question is answered, as far as a caller chooses it."""

    n: Samples
    vote: Vote
    max_tokens: ThinkingBudget


class CertificateBody(Wire):
    """A certificate: what is promised, for exactly what, and whether the service answers under it.

    The whole of it, as `rlcm verify` reads it, is at `/certificates/{id}`.
    """

    id: CertificateId
    active: Annotated[bool, Field(description="Whether it is in force.", examples=[True])]
    fits: Annotated[
        bool | None,
        Field(
            description="Whether it was fitted on the engine that is served; null while that one "
            "starts.",
            examples=[True],
        ),
    ]
    misfit: Annotated[str | None, Field(description="Why not: every difference.", examples=[None])]
    origin: Annotated[
        str, Field(description="Where it comes from.", examples=["job cal_5f3a9c21d07e"])
    ]
    added: Annotated[
        str | None,
        Field(
            description="When it was put into the store, ISO 8601; null for a file.",
            examples=["2026-01-12T09:30:00+00:00"],
        ),
    ]
    created: Annotated[
        str | None, Field(description="Date of the fit, if noted.", examples=["2026-01-12"])
    ]
    risk: BoundedRisk
    promise: PromiseKind
    delta: Delta
    procedure: Annotated[
        ProcedureBody,
        Field(description="The questions it is for.", examples=[PROCEDURE_EXAMPLE]),
    ]
    method: Annotated[
        str, Field(description="Tests and policies, in words.", examples=["Learn-then-Test: ..."])
    ]
    levels: Annotated[
        list[LevelBody], Field(description="By rising alpha.", examples=[[LEVEL_EXAMPLE]])
    ]
    n_problems: Annotated[
        int, Field(description="Calibration problems, those that tested.", examples=[1600])
    ]
    smallest_certifiable_alpha: Annotated[
        float, Field(description="Where to refit; no promise.", examples=[0.043])
    ]
    covers: Annotated[
        str, Field(description="What the promise covers.", examples=["the policy of each level"])
    ]
    does_not_cover: Annotated[
        list[str],
        Field(description="What it does not.", examples=[["other problem distributions"]]),
    ]
    fingerprint: Annotated[
        dict[str, Any] | None,
        Field(
            description="What was calibrated: any other engine voids it.",
            examples=[FINGERPRINT_EXAMPLE],
        ),
    ]

    @classmethod
    def from_kept(cls, kept: KeptCertificate, engine_known: bool) -> Self:
        """The certificate as it goes over the wire."""
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
    """All certificates there are."""

    certificates: Annotated[
        list[CertificateBody],
        Field(description="Those in force first.", examples=[[]]),
    ]


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
