"""Wire types of report data: measurements for judging a certificate."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field

from calibration.certificate.levels import CertifiedLevel, Level
from calibration.certificate.report_data import EXIT_EDGES, LevelFigures, ReportData, ReportLevel
from calibration.traces.fingerprint import Fingerprint
from rlcm_serve.api.wire import terms
from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.certificates import (
    LEVEL_EXAMPLE,
    CertificateBody,
    JointBody,
    KindBody,
    LevelBody,
)
from rlcm_serve.store.certificates import KeptCertificate

_FIGURES_EXAMPLE = {"risk": 0.071, "share_answered": 0.93, "tokens": 133.2}
_READINGS_EXAMPLE = {"n_readings": 1920, "accuracy": 0.88, "ece": 0.02, "brier": 0.05}
_WORDS_EXAMPLE = {"title": "Target against realised risk", "text": "...", "alt": "..."}


class ProblemSetBody(Wire):
    """A set of problems that was measured."""

    n_problems: int = Field(examples=[1600])
    """Number of problems in the set."""
    n_units: int = Field(examples=[1600])
    """Number of exchangeable units in the set: groups, and problems without a group."""
    full_right: float = Field(examples=[0.87])
    """Share of problems answered correctly at the full thinking budget."""
    full_right_low: float | None = Field(examples=[0.85])
    """Lower end of the 95% confidence interval of `full_right`; null in old report data."""
    full_right_high: float | None = Field(examples=[0.89])
    """Upper end of the 95% confidence interval of `full_right`; null in old report data."""


class FiguresBody(Wire):
    """Measurements of a level's policy on one set of problems."""

    risk: float | None = Field(examples=[0.071])
    """Realised risk; null if no question was answered."""
    risk_low: float | None = Field(examples=[0.058])
    """Lower end of the 95% confidence interval of the realised risk."""
    risk_high: float | None = Field(examples=[0.086])
    """Upper end of the 95% confidence interval of the realised risk."""
    share_answered: float = Field(examples=[0.93])
    """Share of questions that were answered."""
    share_answered_low: float | None = Field(examples=[0.9])
    """Lower end of the 95% confidence interval of `share_answered`; null in old report data."""
    share_answered_high: float | None = Field(examples=[0.95])
    """Upper end of the 95% confidence interval of `share_answered`; null in old report data."""
    share_right: float = Field(examples=[0.86])
    """Share of questions that were answered correctly."""
    share_right_low: float | None = Field(examples=[0.83])
    """Lower end of the 95% confidence interval of `share_right`; null in old report data."""
    share_right_high: float | None = Field(examples=[0.89])
    """Upper end of the 95% confidence interval of `share_right`; null in old report data."""
    tokens: float = Field(examples=[133.2])
    """Mean number of generated tokens per question, over all samples."""
    tokens_low: float | None = Field(examples=[128.4])
    """Lower end of the 95% confidence interval of `tokens`; null in old report data."""
    tokens_high: float | None = Field(examples=[138.0])
    """Upper end of the 95% confidence interval of `tokens`; null in old report data."""
    full_budget_tokens: float = Field(examples=[381.5])
    """Mean number of generated tokens per question without early exits, over all samples."""
    tokens_share: float = Field(examples=[0.349])
    """`tokens` divided by `full_budget_tokens`."""
    tokens_share_low: float | None = Field(examples=[0.337])
    """Lower end of the 95% confidence interval of `tokens_share`; null in old report data."""
    tokens_share_high: float | None = Field(examples=[0.361])
    """Upper end of the 95% confidence interval of `tokens_share`; null in old report data."""
    exits: terms.ExitCounts
    confidence: tuple[int, ...] = Field(examples=[[12, 4]])
    """Number of samples by their confidence when they ended, in the bins of `confidence_edges`."""

    @classmethod
    def of(cls, found: LevelFigures) -> Self:
        """The wire form of a level's figures."""
        given = {name: getattr(found, name) for name in LevelFigures.__slots__}
        share = float(f"{found.tokens / found.full_budget_tokens:.4g}")
        return cls(**given, tokens_share=share)


class ReportLevelBody(Wire):
    """A risk level: what is guaranteed and what was measured."""

    alpha: terms.Alpha
    certified: terms.IsCertified
    reason: terms.WhyUncertified
    policy: terms.PolicyScalars
    p_value: terms.PValue
    risk_upper: terms.RiskUpper
    lambda_low: float | None = Field(examples=[None])
    """λ1, the threshold of the low exit; null if the policy has no low exit."""
    lambda_high: float | None = Field(examples=[0.75])
    """λ2, the threshold of the high exit; null if the policy has no high exit."""
    calibration: FiguresBody | None = Field(examples=[_FIGURES_EXAMPLE])
    """Measurements on the calibration problems. They tend to be optimistic, because these problems
    selected the policy. Null if the level is not certified.
    """
    test: FiguresBody | None = Field(examples=[_FIGURES_EXAMPLE])
    """Measurements on test problems that had no part in the fit; null if there are none."""

    @classmethod
    def of(cls, level: Level, seen: ReportLevel) -> Self:
        """The wire form of a level."""
        policy = level.policy if isinstance(level, CertifiedLevel) else None
        known = LevelBody.from_level(level).model_dump(include=set(cls.model_fields))
        return cls(
            **known,
            lambda_low=policy.lambda_low if policy is not None and policy.exits_low else None,
            lambda_high=policy.lambda_high if policy is not None and policy.exits_high else None,
            calibration=None if seen.calibration is None else FiguresBody.of(seen.calibration),
            test=None if seen.test is None else FiguresBody.of(seen.test),
        )


class PlaceBody(Wire):
    """The position of a policy on a map of p-values."""

    lambda_low: float | None = Field(examples=[None])
    """λ1, the threshold of the low exit; null if the policy has no low exit."""
    lambda_high: float | None = Field(examples=[0.75])
    """λ2, the threshold of the high exit; null if the policy has no high exit."""
    x: float = Field(examples=[0.0])
    """Column of the map, counted from 0; a fraction lies between two columns."""
    y: float = Field(examples=[12.0])
    """Row of the map, counted from 0; a fraction lies between two rows."""


class TestedPlaceBody(PlaceBody):
    """The position of a policy that the test of this level may reach."""

    in_plane: bool = Field(examples=[True])
    """Whether the policy differs from the map's other policies only in λ1 and λ2."""
    certified: bool = Field(examples=[True])
    """Whether the policy passed the test at this level."""


class MapBody(Wire):
    """p-values over λ1 and λ2 around one policy. An untested p-value promises nothing."""

    alpha: terms.Alpha
    certified: terms.IsCertified
    lambda_low: tuple[float | None, ...] = Field(examples=[[None, 0.02]])
    """λ1 of each column; null stands for no low exit."""
    lambda_high: tuple[float | None, ...] = Field(examples=[[0.3, None]])
    """λ2 of each row; null stands for no high exit."""
    p_values: tuple[tuple[float | None, ...], ...] = Field(examples=[[[0.91, None]]])
    """p-value of each cell: a row for each λ2, a column for each λ1. Null where λ1 would reach λ2.
    """
    certified_cells: tuple[tuple[int, ...], ...] = Field(examples=[[[0, 12]]])
    """Column and row of each cell whose policy was tested and passed."""
    tested: tuple[TestedPlaceBody, ...] = Field(examples=[[TestedPlaceBody.example()]])
    """The policies that the test of this level may reach."""
    chosen: PlaceBody | None = Field(examples=[PlaceBody.example()])
    """The policy that this level is served with; null if no policy is certified."""
    held: dict[str, bool | int | float] = Field(examples=[{"patience": 64}])
    """Settings that the policies of all cells share."""


class BinBody(Wire):
    """A bin of a reliability diagram. It includes `low` and excludes `high`, except at 1."""

    low: float = Field(examples=[0.9])
    """Lower edge of the bin."""
    high: float = Field(examples=[1.0])
    """Upper edge of the bin."""
    count: int = Field(examples=[900])
    """Number of readings in the bin."""
    confidence: float = Field(examples=[0.97])
    """Mean confidence of the readings in the bin."""
    accuracy: float = Field(examples=[0.96])
    """Share of the readings in the bin whose answer is correct."""


class ReadingsBody(Wire):
    """How well confidence predicts correctness, over a set of readings."""

    n_readings: int = Field(examples=[1920])
    """Number of readings."""
    accuracy: float = Field(examples=[0.88])
    """Share of the readings whose answer is correct."""
    ece: float = Field(examples=[0.02])
    """Expected calibration error."""
    brier: float = Field(examples=[0.05])
    """Brier score."""
    auroc: float | None = Field(examples=[0.95])
    """Area under the ROC curve of confidence as a predictor of correctness; null if all answers are
    correct or all are wrong.
    """
    bins: tuple[BinBody, ...] = Field(examples=[[BinBody.example()]])
    """Bins of the reliability diagram; empty bins are left out."""


class ReliabilitiesBody(Wire):
    """Reliability of the confidence."""

    on_test: bool = Field(examples=[True])
    """True if measured on test problems, false if on calibration problems."""
    all: ReadingsBody = Field(examples=[_READINGS_EXAMPLE])
    """Reliability over every recorded reading."""
    final: ReadingsBody = Field(examples=[_READINGS_EXAMPLE])
    """Reliability of the final readings, at the end of the thinking."""


class WordsBody(Wire):
    """Text for a figure of `rlcm report`."""

    title: str = Field(examples=[_WORDS_EXAMPLE["title"]])
    """Title of the figure."""
    text: str = Field(examples=["Points below ..."])
    """How to read the figure."""
    alt: str = Field(examples=["Realised risk ..."])
    """Content of the figure in words."""


class CaptionsBody(Wire):
    """Texts for the four figures of `rlcm report`."""

    risk: WordsBody = Field(examples=[_WORDS_EXAMPLE])
    """Text for the figure of realised risk."""
    tokens: WordsBody = Field(examples=[_WORDS_EXAMPLE])
    """Text for the figure of tokens."""
    p_values: WordsBody = Field(examples=[_WORDS_EXAMPLE])
    """Text for the maps of p-values."""
    reliability: WordsBody = Field(examples=[_WORDS_EXAMPLE])
    """Text for the reliability diagram."""


class ReportBody(Wire):
    """Report data of a certificate: measurements for judging it, rounded."""

    id: terms.CertificateId
    active: terms.IsActive
    fits: terms.Fits
    misfit: terms.Misfit
    withdrawn: terms.GuaranteeWithdrawn
    voided: terms.GuaranteeVoided
    risk: terms.BoundedRisk
    promise: terms.PromiseKind
    delta: terms.Delta
    average: terms.AveragedOver
    n: terms.Samples
    vote: terms.Vote
    max_tokens: terms.ThinkingBudget
    kind: KindBody | None = Field(default=None, examples=[None])
    """Kind of question that the certificate is for; null if it does not distinguish kinds."""
    joint: JointBody | None = Field(default=None, examples=[None])
    """What holds jointly with the levels; null if nothing does."""
    method: terms.MethodInWords
    created: terms.CreatedOn
    smallest_certifiable_alpha: terms.SmallestAlpha
    verified: terms.VerifiedBy
    covers: terms.Covers
    does_not_cover: terms.DoesNotCover
    fingerprint: terms.FingerprintOf
    engine_fingerprint: dict[str, Any] | None = Field(examples=[terms.FINGERPRINT_EXAMPLE])
    """Fingerprint of the running engine, for comparison with `fingerprint`; null while the engine
    starts.
    """
    calibration: ProblemSetBody = Field(examples=[ProblemSetBody.example()])
    """The calibration problems, which the tests used."""
    test: ProblemSetBody | None = Field(examples=[ProblemSetBody.example(n_problems=240)])
    """Test problems that had no part in the fit; null if there are none."""
    levels: list[ReportLevelBody] = Field(examples=[[LEVEL_EXAMPLE]])
    """Levels of the certificate, by ascending alpha."""
    maps: tuple[MapBody, ...] = Field(examples=[[{"alpha": 0.1, "certified": True}]])
    """A map of p-values for each level."""
    confidence_edges: tuple[float, ...] = Field(examples=[EXIT_EDGES])
    """Edges of the bins that `confidence` counts. Each bin excludes its lower edge and includes its
    upper edge; the first bin includes 0.
    """
    reliability: ReliabilitiesBody = Field(examples=[{"on_test": True}])
    """How well confidence predicts correctness."""
    captions: CaptionsBody = Field(examples=[{"risk": _WORDS_EXAMPLE}])
    """Texts for the figures of `rlcm report`."""

    @classmethod
    def of(cls, kept: KeptCertificate, found: ReportData, engine: Fingerprint | None) -> Self:
        """The report data of a certificate, with what the certificate says.

        Args:
            kept: the certificate.
            found: its report data, measured on its traces.
            engine: fingerprint of the running engine; None while it starts.
        """
        body = CertificateBody.from_kept(kept, engine_known=engine is not None)
        return cls(
            **body.model_dump(include=set(cls.model_fields) - {"levels"}),
            **dict(body.procedure),
            engine_fingerprint=None if engine is None else engine.to_json(),
            calibration=ProblemSetBody.model_validate(found.calibration),
            test=None if found.test is None else ProblemSetBody.model_validate(found.test),
            levels=[
                ReportLevelBody.of(level, seen)
                for level, seen in zip(kept.certificate.levels, found.levels, strict=True)
            ],
            maps=tuple(map(MapBody.model_validate, found.maps)),
            confidence_edges=EXIT_EDGES,
            reliability=ReliabilitiesBody.model_validate(found.reliability),
            captions=CaptionsBody.model_validate(found.captions),
        )
