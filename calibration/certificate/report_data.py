"""Report data: what it takes to judge a certificate, measured on its traces, small enough to show.

A certificate says what is promised. Its report data says what was measured: realised risk and
tokens of each level, p-values around each policy, reliability of the confidence.
`calibration.report.build_data` computes it; reading it needs neither traces nor plotting.
"""

import functools
import json
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Self, get_args, get_origin, get_type_hints

from calibration.errors import CertificateError
from calibration.files import write_text
from calibration.metrics import ReliabilityBin
from calibration.report_kit.content import Caption

FORMAT = "rlcm-exhibit"
VERSION = 1
HEAD = ("format", "version")
EXIT_BINS = 20
EXIT_EDGES = tuple(round(number / EXIT_BINS, 2) for number in range(EXIT_BINS + 1))
"""Edges of the bins of confidences at exit: each bin is (low, high], and the first includes 0."""


@dataclass(frozen=True, slots=True)
class ProblemSet:
    """Problems that something was measured on.

    Attributes:
        n_problems: of the set.
        n_units: exchangeable units among them.
        full_right: share answered right at the full budget.
    """

    n_problems: int
    n_units: int
    full_right: float


@dataclass(frozen=True, slots=True)
class LevelFigures:
    """What the policy of one level did on one set of problems; see `calibration.Evaluation`.

    Attributes:
        risk: realised; None if nothing was answered.
        risk_low: lower end of its 95 % interval.
        risk_high: upper end.
        share_answered: of all questions.
        share_right: answered and right, of all questions.
        tokens: reasoning and answer tokens per question, all samples together.
        full_budget_tokens: the same without early exits.
        exits: rollouts by the reason they stopped.
        confidence: rollouts by the reading at which they stopped, in the bins of `EXIT_EDGES`.
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


@dataclass(frozen=True, slots=True)
class ReportLevel:
    """One level: on the calibration problems, where figures are optimistic, and on test problems.

    Both are None where nothing is certified, `test` also where no test problems were given.
    """

    alpha: float
    calibration: LevelFigures | None
    test: LevelFigures | None


@dataclass(frozen=True, slots=True)
class MapPoint:
    """Where a policy lies on a map.

    Attributes:
        lambda_low: λ1; None if it never gives up.
        lambda_high: λ2; None if it never stops early.
        x: column, from 0; fractional between two.
        y: row, likewise.
    """

    lambda_low: float | None
    lambda_high: float | None
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class TestedPoint(MapPoint):
    """A policy that the level could come to test.

    Attributes:
        in_plane: it differs from the map's policy in λ1 and λ2 alone.
        certified: it passed at this level.
    """

    in_plane: bool
    certified: bool


@dataclass(frozen=True, slots=True)
class Map:
    """p-values over λ1 x λ2 around the policy of one level; see `PValueMap`.

    Attributes:
        alpha: the level.
        certified: whether the level is.
        lambda_low: λ1 of each column, rising; None never fires.
        lambda_high: λ2 of each row, rising; None never fires.
        p_values: a row for each λ2; None where λ1 would reach λ2.
        certified_cells: column and row of the cells that were tested and passed.
        tested: the policies that were in line to be tested, each place once.
        chosen: the policy that is served; None where nothing is certified.
        held: every other setting of the map's policies.
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
    """How well a set of readings says what is right; see `calibration.report.summary`."""

    n_readings: int
    accuracy: float
    ece: float
    brier: float
    auroc: float | None
    bins: tuple[ReliabilityBin, ...]


@dataclass(frozen=True, slots=True)
class ReliabilityData:
    """Of every recorded reading, and of those at the end of the reasoning.

    `on_test` says whether they are of the test problems or else of the calibration problems.
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
    """What was seen of one certificate.

    Attributes:
        certificate: its digest.
        calibration: the problems that tested.
        test: problems that had no part in the fit; None if none were given.
        levels: by rising alpha.
        maps: one of each level.
        reliability: of the confidence.
        captions: in words.
    """

    certificate: str
    calibration: ProblemSet
    test: ProblemSet | None
    levels: tuple[ReportLevel, ...]
    maps: tuple[Map, ...]
    reliability: ReliabilityData
    captions: FigureTexts

    def confidence_at(self, alpha: float) -> tuple[int, ...] | None:
        """Calibration rollouts by their confidence at exit; None if nothing is certified there."""
        for level in self.levels:
            if level.alpha == alpha and level.calibration is not None:
                return level.calibration.confidence
        return None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"format": FORMAT, "version": VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """The report data of `to_json`.

        Raises:
            CertificateError: it is none, of another version, or damaged.
        """
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise CertificateError(f"not report data: its format is not {FORMAT!r}")
        if values.get("version") != VERSION:
            raise CertificateError(
                f"report data version {values.get('version')!r} is unknown, this release reads "
                f"{VERSION}: make it again with `rlcm report-data`"
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
        """Write it as compact JSON, whole or not at all; makes its folder if need be."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, self.to_text() + "\n")

    def to_text(self) -> str:
        """The JSON as one line."""
        return json.dumps(
            self.to_json(), separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote.

        Raises:
            CertificateError: it is none, of another version, or damaged.
        """
        return cls.from_text(path.read_bytes())

    @classmethod
    def from_text(cls, text: str | bytes) -> Self:
        """The report data of this JSON.

        Raises:
            CertificateError: it is none, of another version, or damaged.
        """
        try:
            return cls.from_json(json.loads(text))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise CertificateError(
                f"the report data is not JSON ({error}): make it again with `rlcm report-data`"
            ) from error


def _read(kind: Any, value: Any) -> Any:
    """A value of this type from plain JSON.

    Raises:
        AttributeError, TypeError, ValueError: it is none.
    """
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        if odd := sorted(hints.keys() ^ set(value)):
            raise ValueError(f"missing or unknown fields {odd}")
        return kind(**{name: _read(hint, value[name]) for name, hint in hints.items()})
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


_hints = functools.cache(get_type_hints)  # thousands of places are read, of few types


def report_data_path(certificate: Path) -> Path:
    """The file of a certificate file's report data, in `reports/` next to it."""
    return certificate.parent / "reports" / certificate.name


def old_report_data_path(certificate: Path) -> Path:
    """Where releases up to 0.1 wrote the report data of a certificate file: in `exhibits/`."""
    return certificate.parent / "exhibits" / certificate.name
