"""What goes over the wire for who wants to judge a certificate."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field

from calibration.certificate.certificate import CertifiedLevel, Level
from calibration.certificate.report_data import EXIT_EDGES, LevelFigures, ReportData, ReportLevel
from calibration.policy.exit_rule import ExitPolicy
from calibration.traces.fingerprint import Fingerprint
from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.certificates import FINGERPRINT_EXAMPLE, LEVEL_EXAMPLE
from rlcm_serve.api.wire.terms import (
    BoundedRisk,
    CertificateId,
    Delta,
    PromiseKind,
    RiskUpper,
    Samples,
    ThinkingBudget,
    Vote,
)
from rlcm_serve.store.certificates import KeptCertificate

_PROBLEMS_EXAMPLE = {"n_problems": 1600, "n_units": 1600, "full_right": 0.87}
_FIGURES_EXAMPLE = {"risk": 0.071, "share_answered": 0.93, "tokens": 133.2}
_PLACE_EXAMPLE = {"lambda_low": None, "lambda_high": 0.75, "x": 0.0, "y": 12.0}
_BIN_EXAMPLE = {"low": 0.9, "high": 1.0, "count": 900, "confidence": 0.97, "accuracy": 0.96}
_READINGS_EXAMPLE = {"n_readings": 1920, "accuracy": 0.88, "ece": 0.02, "brier": 0.05}
_WORDS_EXAMPLE = {"title": "Target against realised risk", "text": "...", "alt": "..."}


class ProblemSetBody(Wire):
    """Problems that something was measured on."""

    n_problems: Annotated[int, Field(description="Of the set.", examples=[1600])]
    n_units: Annotated[int, Field(description="Exchangeable units of them.", examples=[1600])]
    full_right: Annotated[
        float, Field(description="Share right at the full budget.", examples=[0.87])
    ]


class FiguresBody(Wire):
    """What the policy of a level did on one set of problems."""

    risk: Annotated[
        float | None,
        Field(description="Realised; null if nothing was answered.", examples=[0.071]),
    ]
    risk_low: Annotated[
        float | None, Field(description="Lower end of its 95 % interval.", examples=[0.058])
    ]
    risk_high: Annotated[float | None, Field(description="Upper end.", examples=[0.086])]
    share_answered: Annotated[float, Field(description="Of all questions.", examples=[0.93])]
    share_right: Annotated[
        float, Field(description="Answered and right, of all questions.", examples=[0.86])
    ]
    tokens: Annotated[
        float, Field(description="Mean per question, all samples together.", examples=[133.2])
    ]
    full_budget_tokens: Annotated[
        float, Field(description="The same without early exits.", examples=[381.5])
    ]
    tokens_share: Annotated[
        float, Field(description="The one as a share of the other.", examples=[0.349])
    ]
    exits: Annotated[
        dict[str, int],
        Field(description="Samples by why they stopped.", examples=[{"high": 1500, "low": 0}]),
    ]
    confidence: Annotated[
        tuple[int, ...],
        Field(
            description="Samples by the reading at which they stopped, in the bins of "
            "`confidence_edges`.",
            examples=[[12, 4]],
        ),
    ]

    @classmethod
    def of(cls, found: LevelFigures) -> Self:
        """The figures as they go over the wire."""
        given = {name: getattr(found, name) for name in LevelFigures.__slots__}
        share = float(f"{found.tokens / found.full_budget_tokens:.4g}")
        return cls(**given, tokens_share=share)


class ReportLevelBody(Wire):
    """One level: what is promised, and what was seen."""

    alpha: Annotated[float, Field(description="The target.", examples=[0.1])]
    certified: Annotated[bool, Field(description="Whether it is kept.", examples=[True])]
    reason: Annotated[str | None, Field(description="Why not.", examples=[None])]
    policy: Annotated[
        dict[str, bool | int | float] | None,
        Field(description="The exit policy served.", examples=[LEVEL_EXAMPLE["policy"]]),
    ]
    p_value: Annotated[float, Field(description="Of: risk > alpha.", examples=[0.0021])]
    risk_upper: RiskUpper
    lambda_low: Annotated[
        float | None, Field(description="λ1; null if it never gives up.", examples=[None])
    ]
    lambda_high: Annotated[
        float | None, Field(description="λ2; null if it never stops early.", examples=[0.75])
    ]
    calibration: Annotated[
        FiguresBody | None,
        Field(
            description="On the problems that chose the policy, and so optimistic; null if not "
            "certified.",
            examples=[_FIGURES_EXAMPLE],
        ),
    ]
    test: Annotated[
        FiguresBody | None,
        Field(
            description="On problems that had no part in the fit; null if none are known.",
            examples=[_FIGURES_EXAMPLE],
        ),
    ]

    @classmethod
    def of(cls, level: Level, seen: ReportLevel) -> Self:
        """The level as it goes over the wire."""
        served = level if isinstance(level, CertifiedLevel) else None
        policy = None if served is None else served.policy
        return cls(
            alpha=level.alpha,
            certified=level.certified,
            reason=getattr(level, "reason", None),
            policy=None if policy is None else policy.to_scalars(),
            p_value=level.p_value,
            risk_upper=None if served is None else served.risk_upper,
            lambda_low=None if policy is None or _never_low(policy) else policy.lambda_low,
            lambda_high=None if policy is None or policy.lambda_high > 1 else policy.lambda_high,
            calibration=None if seen.calibration is None else FiguresBody.of(seen.calibration),
            test=None if seen.test is None else FiguresBody.of(seen.test),
        )


class PlaceBody(Wire):
    """Where a policy lies on a map."""

    lambda_low: Annotated[
        float | None, Field(description="λ1; null if it never gives up.", examples=[None])
    ]
    lambda_high: Annotated[
        float | None, Field(description="λ2; null if it never stops early.", examples=[0.75])
    ]
    x: Annotated[
        float, Field(description="Column, from 0; fractional between two.", examples=[0.0])
    ]
    y: Annotated[float, Field(description="Row, likewise.", examples=[12.0])]


class TestedPlaceBody(PlaceBody):
    """A policy that the level could come to test."""

    in_plane: Annotated[
        bool,
        Field(description="It differs from the others here in λ1 and λ2 alone.", examples=[True]),
    ]
    certified: Annotated[bool, Field(description="It passed at this level.", examples=[True])]


class MapBody(Wire):
    """p-values over λ1 x λ2 around one policy. Small ones that were not tested promise nothing."""

    alpha: Annotated[float, Field(description="The level.", examples=[0.1])]
    certified: Annotated[bool, Field(description="Whether the level is.", examples=[True])]
    lambda_low: Annotated[
        tuple[float | None, ...],
        Field(description="λ1 of each column; null never gives up.", examples=[[None, 0.02]]),
    ]
    lambda_high: Annotated[
        tuple[float | None, ...],
        Field(description="λ2 of each row; null never stops early.", examples=[[0.3, None]]),
    ]
    p_values: Annotated[
        tuple[tuple[float | None, ...], ...],
        Field(
            description="A row for each λ2; null where there is no such policy.",
            examples=[[[0.91, None]]],
        ),
    ]
    certified_cells: Annotated[
        tuple[tuple[int, ...], ...],
        Field(
            description="Column and row of the cells that were tested and passed; other tested "
            "policies lie between cells.",
            examples=[[[0, 12]]],
        ),
    ]
    tested: Annotated[
        tuple[TestedPlaceBody, ...],
        Field(
            description="The policies in line to be tested.",
            examples=[[_PLACE_EXAMPLE | {"in_plane": True, "certified": True}]],
        ),
    ]
    chosen: Annotated[
        PlaceBody | None,
        Field(description="Served; null if nothing is certified.", examples=[_PLACE_EXAMPLE]),
    ]
    held: Annotated[
        dict[str, bool | int | float],
        Field(description="Settings that all cells share.", examples=[{"patience": 64}]),
    ]


class BinBody(Wire):
    """Readings with a confidence in [low, high); the last bin includes 1."""

    low: Annotated[float, Field(description="Lower edge.", examples=[0.9])]
    high: Annotated[float, Field(description="Upper edge.", examples=[1.0])]
    count: Annotated[int, Field(description="Readings in it.", examples=[900])]
    confidence: Annotated[float, Field(description="Their mean.", examples=[0.97])]
    accuracy: Annotated[float, Field(description="Share right of them.", examples=[0.96])]


class ReadingsBody(Wire):
    """How well a set of readings says what is right."""

    n_readings: Annotated[int, Field(description="Counted.", examples=[1920])]
    accuracy: Annotated[float, Field(description="Share right.", examples=[0.88])]
    ece: Annotated[float, Field(description="Expected calibration error.", examples=[0.02])]
    brier: Annotated[float, Field(description="Brier score.", examples=[0.05])]
    auroc: Annotated[
        float | None,
        Field(
            description="How often a right answer has more confidence than a wrong one; null if "
            "there are not both.",
            examples=[0.95],
        ),
    ]
    bins: Annotated[
        tuple[BinBody, ...], Field(description="Without the empty ones.", examples=[[_BIN_EXAMPLE]])
    ]


class ReliabilitiesBody(Wire):
    """Of the confidence, on test problems if any are known, else on calibration problems."""

    on_test: Annotated[bool, Field(description="Which of them.", examples=[True])]
    all: Annotated[
        ReadingsBody, Field(description="Every recorded reading.", examples=[_READINGS_EXAMPLE])
    ]
    final: Annotated[
        ReadingsBody, Field(description="At the end of reasoning.", examples=[_READINGS_EXAMPLE])
    ]


class WordsBody(Wire):
    """What stands beside a figure of `rlcm report`."""

    title: Annotated[str, Field(description="Its heading.", examples=[_WORDS_EXAMPLE["title"]])]
    text: Annotated[str, Field(description="What to make of it.", examples=["Points below ..."])]
    alt: Annotated[str, Field(description="Its content in words.", examples=["Realised risk ..."])]


class CaptionsBody(Wire):
    """Of the four figures."""

    risk: Annotated[WordsBody, Field(description="Of the risks.", examples=[_WORDS_EXAMPLE])]
    tokens: Annotated[WordsBody, Field(description="Of the tokens.", examples=[_WORDS_EXAMPLE])]
    p_values: Annotated[WordsBody, Field(description="Of the maps.", examples=[_WORDS_EXAMPLE])]
    reliability: Annotated[
        WordsBody, Field(description="Of the reliability.", examples=[_WORDS_EXAMPLE])
    ]


class ReportBody(Wire):
    """What it takes to judge a certificate. Figures from traces are rounded."""

    id: CertificateId
    active: Annotated[bool, Field(description="Whether it is in force.", examples=[True])]
    fits: Annotated[
        bool | None,
        Field(
            description="Whether it is of the engine served; null while it starts.", examples=[True]
        ),
    ]
    misfit: Annotated[str | None, Field(description="Why not: every difference.", examples=[None])]
    risk: BoundedRisk
    promise: PromiseKind
    delta: Delta
    n: Samples
    vote: Vote
    max_tokens: ThinkingBudget
    method: Annotated[
        str, Field(description="Tests and policies, in words.", examples=["Learn-then-Test: ..."])
    ]
    created: Annotated[str | None, Field(description="Date of the fit.", examples=["2026-01-12"])]
    smallest_certifiable_alpha: Annotated[
        float, Field(description="Where to refit; no promise.", examples=[0.043])
    ]
    covers: Annotated[
        str, Field(description="What the promise covers.", examples=["the policy of each level"])
    ]
    does_not_cover: Annotated[
        list[str], Field(description="What it does not.", examples=[["other problems"]])
    ]
    fingerprint: Annotated[
        dict[str, Any] | None,
        Field(description="What was calibrated.", examples=[FINGERPRINT_EXAMPLE]),
    ]
    engine_fingerprint: Annotated[
        dict[str, Any] | None,
        Field(
            description="The same of the engine served, asked as the certificate says; null while "
            "it starts.",
            examples=[FINGERPRINT_EXAMPLE],
        ),
    ]
    calibration: Annotated[
        ProblemSetBody, Field(description="Problems that tested.", examples=[_PROBLEMS_EXAMPLE])
    ]
    test: Annotated[
        ProblemSetBody | None,
        Field(
            description="Problems that had no part in the fit; null if none are known.",
            examples=[_PROBLEMS_EXAMPLE | {"n_problems": 240}],
        ),
    ]
    levels: Annotated[
        list[ReportLevelBody], Field(description="By rising alpha.", examples=[[LEVEL_EXAMPLE]])
    ]
    maps: Annotated[
        tuple[MapBody, ...],
        Field(description="One of each level.", examples=[[{"alpha": 0.1, "certified": True}]]),
    ]
    confidence_edges: Annotated[
        tuple[float, ...],
        Field(
            description="Of the bins of confidences, each (low, high]; the first includes 0.",
            examples=[EXIT_EDGES],
        ),
    ]
    reliability: Annotated[
        ReliabilitiesBody, Field(description="Of the confidence.", examples=[{"on_test": True}])
    ]
    captions: Annotated[
        CaptionsBody, Field(description="In words.", examples=[{"risk": _WORDS_EXAMPLE}])
    ]

    @classmethod
    def of(cls, kept: KeptCertificate, found: ReportData, engine: Fingerprint | None) -> Self:
        """The report data of a certificate, with what the certificate says.

        Args:
            kept: the certificate.
            found: measured on its traces.
            engine: what is served; None while it starts.
        """
        made, fitted = kept.certificate, kept.certificate.fingerprint
        return cls(
            id=made.id,
            active=kept.active,
            fits=None if engine is None else kept.misfit is None,
            misfit=kept.misfit,
            risk=made.risk,
            promise=made.promise.value,
            delta=made.delta,
            n=made.procedure.samples,
            vote=made.procedure.vote,
            max_tokens=None if fitted is None else fitted.max_tokens,
            method=made.method,
            created=made.created,
            smallest_certifiable_alpha=made.smallest_certifiable_alpha,
            covers=made.covers,
            does_not_cover=list(made.does_not_cover),
            fingerprint=None if fitted is None else fitted.to_json(),
            engine_fingerprint=None if engine is None else engine.to_json(),
            calibration=ProblemSetBody.model_validate(found.calibration),
            test=None if found.test is None else ProblemSetBody.model_validate(found.test),
            levels=[
                ReportLevelBody.of(level, seen)
                for level, seen in zip(made.levels, found.levels, strict=True)
            ],
            maps=tuple(map(MapBody.model_validate, found.maps)),
            confidence_edges=EXIT_EDGES,
            reliability=ReliabilitiesBody.model_validate(found.reliability),
            captions=CaptionsBody.model_validate(found.captions),
        )


def _never_low(policy: ExitPolicy) -> bool:
    return policy.lambda_low < 0 and policy.low_rise == 0
