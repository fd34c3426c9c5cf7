"""The report data of a certificate: what was measured on its traces, small enough to display.

A certificate states a guarantee. Report data contain the measurements: realised risk and tokens of
each level, p-values around each policy, and the reliability of the confidence.
`calibration.report.build_data` makes them; reading them needs neither traces nor a plotting
library.
"""

import functools
import json
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Self, get_args, get_origin, get_type_hints

from calibration.errors import CertificateError
from calibration.files import write_text
from calibration.metrics.reliability import ReliabilityBin
from calibration.monitoring.reference import ReferenceCounts
from calibration.report_kit.content import Caption
from calibration.traces.recorded import RecordedSeries

FORMAT = "rlcm-exhibit"
VERSION = 2
WITHOUT_INTERVALS = 1
"""The version before, which has no intervals but those of the risk; they are read as None."""
HEAD = ("format", "version")
EXIT_BINS = 20
EXIT_EDGES = tuple(round(number / EXIT_BINS, 2) for number in range(EXIT_BINS + 1))
"""Edges of the bins of confidences at exit: each bin is (low, high]; the first includes 0."""


@dataclass(frozen=True, slots=True)
class ProblemSet:
    """A set of problems on which something was measured.

    Attributes:
        n_problems: number of problems.
        n_units: exchangeable units among them.
        full_right: share answered correctly at the full budget.
        full_right_low: lower end of its 95% interval; None in report data of version 1.
        full_right_high: upper end.
    """

    n_problems: int
    n_units: int
    full_right: float
    full_right_low: float | None = None
    full_right_high: float | None = None


@dataclass(frozen=True, slots=True)
class LevelFigures:
    """Figures of one level's policy on one set of problems; see `calibration.Evaluation`.

    Attributes:
        risk: realised risk; None if nothing was answered.
        risk_low: lower end of its 95% interval.
        risk_high: upper end.
        share_answered: share of all questions that are answered.
        share_right: share of all questions that are answered correctly.
        tokens: reasoning and answer tokens per question, all samples together.
        full_budget_tokens: the same without early exits.
        exits: number of rollouts by the reason they stop if the vote ends none before.
        confidence: number of rollouts by their confidence at the stop, in the bins of `EXIT_EDGES`.
        share_answered_low, share_answered_high: 95% interval of `share_answered`; None, as those
            below, in report data of version 1.
        share_right_low, share_right_high: 95% interval of `share_right`.
        tokens_low, tokens_high: 95% interval of `tokens`; None for a single unit, and where units
            do not differ.
        tokens_share_low, tokens_share_high: 95% interval of `tokens` over `full_budget_tokens`;
            None in the same cases.
    """

    risk: float | None
    risk_low: float | None
    risk_high: float | None
    share_answered: float
    share_right: float
    tokens: float
    full_budget_tokens: float
    exits: dict[str, int]
    confidence: tuple[int, ...]
    share_answered_low: float | None = None
    share_answered_high: float | None = None
    share_right_low: float | None = None
    share_right_high: float | None = None
    tokens_low: float | None = None
    tokens_high: float | None = None
    tokens_share_low: float | None = None
    tokens_share_high: float | None = None


@dataclass(frozen=True, slots=True)
class ReportLevel:
    """One level: figures on the calibration problems, which are optimistic, and on test problems.

    Both are None if no policy is certified. `test` is also None if no test problems were given.
    `reference` has the readings of the calibration problems that live ones are compared with; it is
    empty in older report data.
    """

    alpha: float
    calibration: LevelFigures | None
    test: LevelFigures | None
    reference: tuple[ReferenceCounts, ...] = ()


@dataclass(frozen=True, slots=True)
class MapPoint:
    """The position of a policy on a map.

    Attributes:
        lambda_low: λ1; None if it never exits low.
        lambda_high: λ2; None if it never exits high.
        x: column, from 0; fractional between two columns.
        y: row, from 0; fractional between two rows.
    """

    lambda_low: float | None
    lambda_high: float | None
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class TestedPoint(MapPoint):
    """A policy in the level's order of tests.

    Attributes:
        in_plane: whether it differs from the map's policy only in λ1 and λ2.
        certified: whether it is certified at this level.
    """

    in_plane: bool
    certified: bool


@dataclass(frozen=True, slots=True)
class Map:
    """P-values over λ1 x λ2 around the policy of one level; see `PValueMap`.

    Attributes:
        alpha: the level.
        certified: whether the level is certified.
        lambda_low: λ1 of each column, rising; None for no low exits.
        lambda_high: λ2 of each row, rising; None for no high exits.
        p_values: one row per λ2; None where λ1 would reach λ2.
        certified_cells: column and row of the cells that were tested and certified.
        tested: the policies in the order of tests, each point once.
        chosen: the policy that is served; None if no policy is certified.
        held: all other settings of the map's policies, which are constant.
    """

    alpha: float
    certified: bool
    lambda_low: tuple[float | None, ...]
    lambda_high: tuple[float | None, ...]
    p_values: tuple[tuple[float | None, ...], ...]
    certified_cells: tuple[tuple[int, ...], ...]
    tested: tuple[TestedPoint, ...]
    chosen: MapPoint | None
    held: dict[str, bool | int | float]


@dataclass(frozen=True, slots=True)
class Readings:
    """How well a set of readings predicts which answers are right.

    Readings of one rollout depend on each other, so these are estimates without intervals.

    Attributes:
        n_readings: number of readings.
        accuracy: share of them whose answer was right.
        ece: expected calibration error over `bins`.
        brier: Brier score.
        auroc: None if all readings are right, or all wrong.
        bins: of equal width; empty ones are left out.
    """

    n_readings: int
    accuracy: float
    ece: float
    brier: float
    auroc: float | None
    bins: tuple[ReliabilityBin, ...]


@dataclass(frozen=True, slots=True)
class ReliabilityData:
    """Reliability of all recorded readings, and of the readings at the end of the reasoning.

    `on_test` says whether they come from the test problems or from the calibration problems.
    """

    on_test: bool
    all: Readings
    final: Readings


@dataclass(frozen=True, slots=True)
class FigureTexts:
    """The captions of the four figures."""

    risk: Caption
    tokens: Caption
    p_values: Caption
    reliability: Caption


@dataclass(frozen=True, slots=True)
class ReportData:
    """The measurements for one certificate.

    Attributes:
        certificate: digest of the certificate.
        calibration: the problems of the test.
        test: problems that the fit did not use; None if none were given.
        levels: by rising alpha.
        maps: one for each level.
        reliability: reliability of the confidence.
        captions: the texts of the figures.
        recorded: recorded questions to try the levels on; None if there are none.
    """

    certificate: str
    calibration: ProblemSet
    test: ProblemSet | None
    levels: tuple[ReportLevel, ...]
    maps: tuple[Map, ...]
    reliability: ReliabilityData
    captions: FigureTexts
    recorded: RecordedSeries | None = None

    def confidence_at(self, alpha: float) -> tuple[int, ...] | None:
        """Calibration rollouts by their confidence at exit; None if no policy is certified."""
        for level in self.levels:
            if level.alpha == alpha and level.calibration is not None:
                return level.calibration.confidence
        return None

    def reference_at(self, alpha: float) -> tuple[ReferenceCounts, ...]:
        """The readings that live ones of a level are compared with; empty if they are not known."""
        return next((level.reference for level in self.levels if level.alpha == alpha), ())

    def to_json(self) -> dict[str, Any]:
        """The data as plain JSON values."""
        return {"format": FORMAT, "version": VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """The report data from the values of `to_json`.

        Raises:
            CertificateError: these are no report data, of an unknown version, or damaged.
        """
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise CertificateError(f"not report data: its format is not {FORMAT!r}")
        if values.get("version") not in (WITHOUT_INTERVALS, VERSION):
            raise CertificateError(
                f"report data version {values.get('version')!r} is unknown, this release reads "
                f"{WITHOUT_INTERVALS} and {VERSION}: make it again with `rlcm report-data`"
            )
        content = {name: value for name, value in values.items() if name not in HEAD}
        try:
            found: Self = _read(cls, content)
        except (AttributeError, TypeError, ValueError) as error:
            raise CertificateError(
                f"the report data is damaged ({error}): make it again with `rlcm report-data`"
            ) from error
        return found

    def save(self, path: Path) -> None:
        """Write compact JSON, completely or not at all; creates the folder if needed."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, self.to_text() + "\n")

    def to_text(self) -> str:
        """The JSON as one line."""
        return json.dumps(
            self.to_json(), separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the file that `save` wrote.

        Raises:
            CertificateError: these are no report data, of an unknown version, or damaged.
        """
        return cls.from_text(path.read_bytes())

    @classmethod
    def from_text(cls, text: str | bytes) -> Self:
        """The report data from JSON text.

        Raises:
            CertificateError: these are no report data, of an unknown version, or damaged.
        """
        try:
            return cls.from_json(json.loads(text))
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise CertificateError(
                f"the report data is not JSON ({error}): make it again with `rlcm report-data`"
            ) from error


def _read(kind: Any, value: Any) -> Any:
    """A value of this type from plain JSON.

    Raises:
        AttributeError, TypeError, ValueError: the value does not have this type.
    """
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        needed = {each.name for each in fields(kind) if each.default is MISSING}
        if odd := sorted(needed - set(value) | set(value) - hints.keys()):
            raise ValueError(f"missing or unknown fields {odd}")
        return kind(**{name: _read(hints[name], each) for name, each in value.items()})
    if get_origin(kind) is tuple:
        (of, _) = get_args(kind)
        return tuple(_read(of, one) for one in value)
    if get_origin(kind) is dict:
        (_, of) = get_args(kind)
        return {name: _read(of, one) for name, one in value.items()}
    options = get_args(kind) or (kind,)
    if value is None and NoneType in options:
        return None
    for option in options:
        if is_dataclass(option):
            return _read(option, value)
    accepted = (*options, int) if float in options else options
    if not isinstance(value, accepted) or (isinstance(value, bool) and bool not in options):
        raise ValueError(f"{value!r} is no {kind}")
    return float(value) if float in options and int not in options else value


_hints = functools.cache(get_type_hints)  # cached: thousands of points have the same few types


def report_data_path(certificate: Path) -> Path:
    """The file of a certificate file's report data, in `reports/` next to it."""
    return certificate.parent / "reports" / certificate.name


def old_report_data_path(certificate: Path) -> Path:
    """Where releases up to 0.1 wrote the report data of a certificate file: in `exhibits/`."""
    return certificate.parent / "exhibits" / certificate.name
