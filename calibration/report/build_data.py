"""Makes the report data of a certificate from its traces: the numbers of a report, rounded."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from calibration.certificate.certificate import Certificate
from calibration.certificate.evaluate import Evaluation
from calibration.certificate.levels import CertifiedLevel
from calibration.certificate.report_data import (
    EXIT_EDGES,
    FigureTexts,
    LevelFigures,
    Map,
    MapPoint,
    ProblemSet,
    Readings,
    ReliabilityData,
    ReportData,
    ReportLevel,
    TestedPoint,
)
from calibration.policy.exit_rule import ExitPolicy
from calibration.policy.exit_search import find_exits
from calibration.report import captions
from calibration.report.pvalue_map import NEVER_LOW, PValueMap, high_of, low_of
from calibration.report.summary import Measured, Summary, summarize
from calibration.simulation.risks import Risk
from calibration.testing.families import NEVER
from calibration.testing.methods import find_split
from calibration.traces.traces import Traces

FIGURE_DIGITS, THRESHOLD_DIGITS, P_VALUE_DIGITS = 4, 6, 3
"""Significant digits that are kept."""
_IN_MAPS = ("lambda_low", "lambda_high")


def build_report_data(
    certificate: Certificate,
    traces: Traces,
    test: Traces | None = None,
    risk: Risk | None = None,
) -> ReportData:
    """The report data of a certificate.

    Args:
        certificate: what to report on.
        traces: those it was fitted on.
        test: problems that had no part in the fit, for honest figures.
        risk: needed if the certificate bounds a loss of your own.

    Raises:
        CertificateError: traces of another recording than the certificate's.
        CalibrationError: `traces` are not those it was fitted on, `test` shares problems or groups
            with them, a user's loss is missing, or a problem has too few rollouts.
    """
    traces, test = certificate.problems_of(traces), test and certificate.problems_of(test)
    summary = summarize(certificate, traces, test, risk)
    # `summarize` has refused traces that have no such part.
    _, tested = find_split(traces, certificate.calibration_digest) or (None, traces)
    on_calibration = _figures(certificate, summary.measured[-1], tested)
    on_test: dict[float, LevelFigures] = {}
    if test is not None:
        on_test = _figures(certificate, summary.shown, test)
    return ReportData(
        certificate=certificate.digest,
        calibration=_problems(summary.measured[-1]),
        test=None if test is None else _problems(summary.shown),
        levels=tuple(
            ReportLevel(level.alpha, on_calibration.get(level.alpha), on_test.get(level.alpha))
            for level in certificate.levels
        ),
        maps=tuple(map(_map, summary.maps)),
        reliability=ReliabilityData(
            on_test=summary.shown.on_test,
            all=_rounded(summary.all_readings),
            final=_rounded(summary.final_readings),
        ),
        captions=_captions(summary),
    )


def _problems(measured: Measured) -> ProblemSet:
    return ProblemSet(measured.n_problems, measured.n_units, _short(measured.full_right))


def _figures(
    certificate: Certificate, measured: Measured, traces: Traces
) -> dict[float, LevelFigures]:
    """The figures of each certified level, by its alpha."""
    policies = [one.policy for one in certificate.levels if isinstance(one, CertifiedLevel)]
    found = [
        (level.alpha, level.evaluation) for level in measured.levels if level.evaluation is not None
    ]
    return {
        alpha: _level(evaluation, confidence)
        for (alpha, evaluation), confidence in zip(
            found, _confidences(policies, traces), strict=True
        )
    }


def _confidences(policies: Sequence[ExitPolicy], traces: Traces) -> Iterator[tuple[int, ...]]:
    """For each policy, the rollouts in each bin of the reading at which it stops them."""
    if not policies:
        return
    stop_RT = find_exits(policies, traces.tokens_RC, traces.confidence_RC, traces.final_R).stop_RT
    at_stop_RT = np.take_along_axis(traces.confidence_RC, stop_RT, axis=1)
    for t in range(len(policies)):
        bin_R = np.searchsorted(EXIT_EDGES[1:], at_stop_RT[:, t], side="left")
        yield tuple(np.bincount(bin_R, minlength=len(EXIT_EDGES) - 1).tolist())


def _level(found: Evaluation, confidence: tuple[int, ...]) -> LevelFigures:
    low, high = found.risk_interval or (None, None)
    return LevelFigures(
        risk=_maybe(found.realised_risk),
        risk_low=_maybe(low),
        risk_high=_maybe(high),
        share_answered=_short(found.answered_share),
        share_right=_short(found.right_share),
        tokens=_short(found.tokens),
        full_budget_tokens=_short(found.full_budget_tokens),
        exits={str(reason): number for reason, number in found.exits.items()},
        confidence=confidence,
    )


def _map(found: PValueMap) -> Map:
    centre = found.centre
    places: dict[tuple[float, float, bool], TestedPoint] = {}
    for policy in found.tested:
        place = _place(found, policy.lambda_low, policy.lambda_high)
        key = (place.x, place.y, policy.in_plane)
        # Where several policies lie, one that passed is shown.
        if key not in places or (policy.certified and not places[key].certified):
            places[key] = TestedPoint(
                place.lambda_low,
                place.lambda_high,
                place.x,
                place.y,
                in_plane=policy.in_plane,
                certified=policy.certified,
            )
    tested = tuple(places[key] for key in sorted(places))
    return Map(
        alpha=found.alpha,
        certified=found.certified,
        lambda_low=tuple(map(_low, found.low_X)),
        lambda_high=tuple(map(_high, found.high_Y)),
        p_values=tuple(
            tuple(None if math.isnan(p) else _short(p, P_VALUE_DIGITS) for p in row)
            for row in found.p_YX.tolist()
        ),
        certified_cells=tuple(
            (int(one.x), int(one.y))
            for one in tested
            if one.certified and one.in_plane and one.x.is_integer() and one.y.is_integer()
        ),
        tested=tested,
        chosen=_place(found, low_of(centre), high_of(centre)) if found.certified else None,
        held={name: value for name, value in centre.to_scalars().items() if name not in _IN_MAPS},
    )


def _place(found: PValueMap, low: float, high: float) -> MapPoint:
    x, y = found.place(low, high)
    return MapPoint(_low(low), _high(high), _short(x), _short(y))


def _low(value: float) -> float | None:
    return None if value == NEVER_LOW else _short(value, THRESHOLD_DIGITS)


def _high(value: float) -> float | None:
    return None if value >= NEVER else _short(value, THRESHOLD_DIGITS)


def _rounded(found: Readings) -> Readings:
    return replace(
        found,
        accuracy=_short(found.accuracy),
        ece=_short(found.ece),
        brier=_short(found.brier),
        auroc=_maybe(found.auroc),
        bins=tuple(
            replace(one, confidence=_short(one.confidence), accuracy=_short(one.accuracy))
            for one in found.bins
        ),
    )


def _captions(summary: Summary) -> FigureTexts:
    return FigureTexts(
        risk=captions.of_risk(summary),
        tokens=captions.of_tokens(summary),
        p_values=captions.of_p_values(summary),
        reliability=captions.of_reliability(summary),
    )


def _maybe(value: float | None) -> float | None:
    return None if value is None else _short(value)


def _short(value: float, digits: int = FIGURE_DIGITS) -> float:
    return float(f"{value:.{digits}g}")
