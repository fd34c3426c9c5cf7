"""Wire types of report data: measurements for judging a certificate."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field

from calibration.certificate.certificate import CertifiedLevel, Level
from calibration.certificate.report_data import EXIT_EDGES, LevelFigures, ReportData, ReportLevel
from calibration.policy.exit_rule import ExitPolicy
from calibration.traces.fingerprint import Fingerprint
from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.certificates import LEVEL_EXAMPLE
from rlcm_serve.api.wire.terms import (
    FINGERPRINT_EXAMPLE,
    Alpha,
    BoundedRisk,
    CertificateId,
    Covers,
    CreatedOn,
    Delta,
    DoesNotCover,
    ExitCounts,
    FingerprintOf,
    Fits,
    IsActive,
    IsCertified,
    MethodInWords,
    Misfit,
    PolicyScalars,
    PromiseKind,
    PValue,
    RiskUpper,
    Samples,
    SmallestAlpha,
    ThinkingBudget,
    Vote,
    WhyUncertified,
)
from rlcm_serve.store.certificates import KeptCertificate

_PROBLEMS_EXAMPLE = {"n_problems": 1600, "n_units": 1600, "full_right": 0.87}
_FIGURES_EXAMPLE = {"risk": 0.071, "share_answered": 0.93, "tokens": 133.2}
_PLACE_EXAMPLE = {"lambda_low": None, "lambda_high": 0.75, "x": 0.0, "y": 12.0}
_BIN_EXAMPLE = {"low": 0.9, "high": 1.0, "count": 900, "confidence": 0.97, "accuracy": 0.96}
_READINGS_EXAMPLE = {"n_readings": 1920, "accuracy": 0.88, "ece": 0.02, "brier": 0.05}
_WORDS_EXAMPLE = {"title": "Target against realised risk", "text": "...", "alt": "..."}


class ProblemSetBody(Wire):
    """A set of problems that was measured."""

    n_problems: Annotated[int, Field(description="Number of problems in the set.", examples=[1600])]
    n_units: Annotated[
        int,
        Field(
            description="Number of exchangeable units in the set: groups, and problems without "
            "a group.",
            examples=[1600],
        ),
    ]
    full_right: Annotated[
        float,
        Field(
            description="Share of problems answered correctly at the full thinking budget.",
            examples=[0.87],
        ),
    ]


class FiguresBody(Wire):
    """Measurements of a level's policy on one set of problems."""

    risk: Annotated[
        float | None,
        Field(description="Realised risk; null if no question was answered.", examples=[0.071]),
    ]
    risk_low: Annotated[
        float | None,
        Field(
            description="Lower end of the 95% confidence interval of the realised risk.",
            examples=[0.058],
        ),
    ]
    risk_high: Annotated[
        float | None,
        Field(
            description="Upper end of the 95% confidence interval of the realised risk.",
            examples=[0.086],
        ),
    ]
    share_answered: Annotated[
        float, Field(description="Share of questions that were answered.", examples=[0.93])
    ]
    share_right: Annotated[
        float,
        Field(description="Share of questions that were answered correctly.", examples=[0.86]),
    ]
    tokens: Annotated[
        float,
        Field(
            description="Mean number of generated tokens per question, over all samples.",
            examples=[133.2],
        ),
    ]
    full_budget_tokens: Annotated[
        float,
        Field(
            description="Mean number of generated tokens per question without early exits, over"
            " all samples.",
            examples=[381.5],
        ),
    ]
    tokens_share: Annotated[
        float, Field(description="`tokens` divided by `full_budget_tokens`.", examples=[0.349])
    ]
    exits: ExitCounts
    confidence: Annotated[
        tuple[int, ...],
        Field(
            description="Number of samples by their confidence when they ended, in the bins of "
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
    """A risk level: what is guaranteed and what was measured."""

    alpha: Alpha
    certified: IsCertified
    reason: WhyUncertified
    policy: PolicyScalars
    p_value: PValue
    risk_upper: RiskUpper
    lambda_low: Annotated[
        float | None,
        Field(
            description="λ1, the threshold of the low exit; null if the policy has no low exit.",
            examples=[None],
        ),
    ]
    lambda_high: Annotated[
        float | None,
        Field(
            description="λ2, the threshold of the high exit; null if the policy has no high exit.",
            examples=[0.75],
        ),
    ]
    calibration: Annotated[
        FiguresBody | None,
        Field(
            description="Measurements on the calibration problems. They tend to be optimistic, "
            "because these problems selected the policy. Null if the level is not "
            "certified.",
            examples=[_FIGURES_EXAMPLE],
        ),
    ]
    test: Annotated[
        FiguresBody | None,
        Field(
            description="Measurements on test problems that had no part in the fit; null if "
            "there are none.",
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
    """The position of a policy on a map of p-values."""

    lambda_low: Annotated[
        float | None,
        Field(
            description="λ1, the threshold of the low exit; null if the policy has no low exit.",
            examples=[None],
        ),
    ]
    lambda_high: Annotated[
        float | None,
        Field(
            description="λ2, the threshold of the high exit; null if the policy has no high exit.",
            examples=[0.75],
        ),
    ]
    x: Annotated[
        float,
        Field(
            description="Column of the map, counted from 0; a fraction lies between two columns.",
            examples=[0.0],
        ),
    ]
    y: Annotated[
        float,
        Field(
            description="Row of the map, counted from 0; a fraction lies between two rows.",
            examples=[12.0],
        ),
    ]


class TestedPlaceBody(PlaceBody):
    """The position of a policy that the test of this level may reach."""

    in_plane: Annotated[
        bool,
        Field(
            description="Whether the policy differs from the map's other policies only in λ1 "
            "and λ2.",
            examples=[True],
        ),
    ]
    certified: Annotated[
        bool,
        Field(description="Whether the policy passed the test at this level.", examples=[True]),
    ]


class MapBody(Wire):
    """p-values over λ1 and λ2 around one policy. An untested p-value promises nothing."""

    alpha: Alpha
    certified: IsCertified
    lambda_low: Annotated[
        tuple[float | None, ...],
        Field(
            description="λ1 of each column; null stands for no low exit.", examples=[[None, 0.02]]
        ),
    ]
    lambda_high: Annotated[
        tuple[float | None, ...],
        Field(description="λ2 of each row; null stands for no high exit.", examples=[[0.3, None]]),
    ]
    p_values: Annotated[
        tuple[tuple[float | None, ...], ...],
        Field(
            description="p-value of each cell: a row for each λ2, a column for each λ1. Null "
            "where λ1 would reach λ2.",
            examples=[[[0.91, None]]],
        ),
    ]
    certified_cells: Annotated[
        tuple[tuple[int, ...], ...],
        Field(
            description="Column and row of each cell whose policy was tested and passed.",
            examples=[[[0, 12]]],
        ),
    ]
    tested: Annotated[
        tuple[TestedPlaceBody, ...],
        Field(
            description="The policies that the test of this level may reach.",
            examples=[[_PLACE_EXAMPLE | {"in_plane": True, "certified": True}]],
        ),
    ]
    chosen: Annotated[
        PlaceBody | None,
        Field(
            description="The policy that this level is served with; null if no policy is "
            "certified.",
            examples=[_PLACE_EXAMPLE],
        ),
    ]
    held: Annotated[
        dict[str, bool | int | float],
        Field(
            description="Settings that the policies of all cells share.",
            examples=[{"patience": 64}],
        ),
    ]


class BinBody(Wire):
    """A bin of a reliability diagram. It includes `low` and excludes `high`, except at 1."""

    low: Annotated[float, Field(description="Lower edge of the bin.", examples=[0.9])]
    high: Annotated[float, Field(description="Upper edge of the bin.", examples=[1.0])]
    count: Annotated[int, Field(description="Number of readings in the bin.", examples=[900])]
    confidence: Annotated[
        float, Field(description="Mean confidence of the readings in the bin.", examples=[0.97])
    ]
    accuracy: Annotated[
        float,
        Field(
            description="Share of the readings in the bin whose answer is correct.", examples=[0.96]
        ),
    ]


class ReadingsBody(Wire):
    """How well confidence predicts correctness, over a set of readings."""

    n_readings: Annotated[int, Field(description="Number of readings.", examples=[1920])]
    accuracy: Annotated[
        float, Field(description="Share of the readings whose answer is correct.", examples=[0.88])
    ]
    ece: Annotated[float, Field(description="Expected calibration error.", examples=[0.02])]
    brier: Annotated[float, Field(description="Brier score.", examples=[0.05])]
    auroc: Annotated[
        float | None,
        Field(
            description="Area under the ROC curve of confidence as a predictor of correctness; "
            "null if all answers are correct or all are wrong.",
            examples=[0.95],
        ),
    ]
    bins: Annotated[
        tuple[BinBody, ...],
        Field(
            description="Bins of the reliability diagram; empty bins are left out.",
            examples=[[_BIN_EXAMPLE]],
        ),
    ]


class ReliabilitiesBody(Wire):
    """Reliability of the confidence."""

    on_test: Annotated[
        bool,
        Field(
            description="True if measured on test problems, false if on calibration problems.",
            examples=[True],
        ),
    ]
    all: Annotated[
        ReadingsBody,
        Field(description="Reliability over every recorded reading.", examples=[_READINGS_EXAMPLE]),
    ]
    final: Annotated[
        ReadingsBody,
        Field(
            description="Reliability of the final readings, at the end of the thinking.",
            examples=[_READINGS_EXAMPLE],
        ),
    ]


class WordsBody(Wire):
    """Text for a figure of `rlcm report`."""

    title: Annotated[
        str, Field(description="Title of the figure.", examples=[_WORDS_EXAMPLE["title"]])
    ]
    text: Annotated[
        str, Field(description="How to read the figure.", examples=["Points below ..."])
    ]
    alt: Annotated[
        str, Field(description="Content of the figure in words.", examples=["Realised risk ..."])
    ]


class CaptionsBody(Wire):
    """Texts for the four figures of `rlcm report`."""

    risk: Annotated[
        WordsBody,
        Field(description="Text for the figure of realised risk.", examples=[_WORDS_EXAMPLE]),
    ]
    tokens: Annotated[
        WordsBody, Field(description="Text for the figure of tokens.", examples=[_WORDS_EXAMPLE])
    ]
    p_values: Annotated[
        WordsBody, Field(description="Text for the maps of p-values.", examples=[_WORDS_EXAMPLE])
    ]
    reliability: Annotated[
        WordsBody, Field(description="Text for the reliability diagram.", examples=[_WORDS_EXAMPLE])
    ]


class ReportBody(Wire):
    """Report data of a certificate: measurements for judging it, rounded."""

    id: CertificateId
    active: IsActive
    fits: Fits
    misfit: Misfit
    risk: BoundedRisk
    promise: PromiseKind
    delta: Delta
    n: Samples
    vote: Vote
    max_tokens: ThinkingBudget
    method: MethodInWords
    created: CreatedOn
    smallest_certifiable_alpha: SmallestAlpha
    covers: Covers
    does_not_cover: DoesNotCover
    fingerprint: FingerprintOf
    engine_fingerprint: Annotated[
        dict[str, Any] | None,
        Field(
            description="Fingerprint of the running engine, for comparison with `fingerprint`; "
            "null while the engine starts.",
            examples=[FINGERPRINT_EXAMPLE],
        ),
    ]
    calibration: Annotated[
        ProblemSetBody,
        Field(
            description="The calibration problems, which the tests used.",
            examples=[_PROBLEMS_EXAMPLE],
        ),
    ]
    test: Annotated[
        ProblemSetBody | None,
        Field(
            description="Test problems that had no part in the fit; null if there are none.",
            examples=[_PROBLEMS_EXAMPLE | {"n_problems": 240}],
        ),
    ]
    levels: Annotated[
        list[ReportLevelBody],
        Field(
            description="Levels of the certificate, by ascending alpha.", examples=[[LEVEL_EXAMPLE]]
        ),
    ]
    maps: Annotated[
        tuple[MapBody, ...],
        Field(
            description="A map of p-values for each level.",
            examples=[[{"alpha": 0.1, "certified": True}]],
        ),
    ]
    confidence_edges: Annotated[
        tuple[float, ...],
        Field(
            description="Edges of the bins that `confidence` counts. Each bin excludes its "
            "lower edge and includes its upper edge; the first bin includes 0.",
            examples=[EXIT_EDGES],
        ),
    ]
    reliability: Annotated[
        ReliabilitiesBody,
        Field(
            description="How well confidence predicts correctness.", examples=[{"on_test": True}]
        ),
    ]
    captions: Annotated[
        CaptionsBody,
        Field(
            description="Texts for the figures of `rlcm report`.",
            examples=[{"risk": _WORDS_EXAMPLE}],
        ),
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
