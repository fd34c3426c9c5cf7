"""Makes the report data of a certificate from its traces: the numbers of a report, rounded."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from calibration.certificate.certificate import Certificate
from calibration.certificate.evaluate import Evaluation
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
from calibration.policy.exit_rule import FULL_BUDGET, NEVER, ExitPolicy
from calibration.policy.exit_search import find_exits
from calibration.report import captions
from calibration.report.intervals import Intervals, intervals
from calibration.report.pvalue_map import NEVER_LOW, PValueMap, high_of, low_of
from calibration.report.recorded import choose_recorded
from calibration.report.reference import Reference, references
from calibration.report.summary import (
    Measured,
    Summary,
    measured_part,
    summarize,
    tested_part,
)
from calibration.simulation.risks import Risk
from calibration.traces.traces import Traces

FIGURE_DIGITS, THRESHOLD_DIGITS, P_VALUE_DIGITS = 4, 6, 3
"""Significant digits that are kept."""
_IN_MAPS = ("lambda_low", "lambda_high")


def build_report_data(
    certificate: Certificate,
    traces: Traces,
    test: Traces | None = None,
    risk: Risk | None = None,
    questions: Mapping[str, str] | None = None,
) -> ReportData:
    """The report data of a certificate.

    Args:
        certificate: what to report on.
        traces: those it was fitted on.
        test: problems that had no part in the fit, for honest figures.
        risk: needed if the certificate bounds a loss of your own.
        questions: text of each problem, by id, to be shown with recorded questions.

    Raises:
        CertificateError: traces of another recording than the certificate's.
        CalibrationError: `traces` are not those it was fitted on, `test` shares problems or groups
            with them, a user's loss is missing, or a problem has too few rollouts.
    """
    traces, test = certificate.problems_of(traces), test and certificate.problems_of(test)
    summary = summarize(certificate, traces, test, risk)
    tested = tested_part(certificate, traces)
    labelled = measured_part(certificate, tested)
    on_calibration = _figures(certificate, summary.measured[-1], labelled)
    compared = _references(certificate, tested)
    on_test: dict[float, LevelFigures] = {}
    if test is not None:
        on_test = _figures(certificate, summary.shown, test)
    return ReportData(
        certificate=certificate.digest,
        calibration=_problems(summary.measured[-1], _full_budget(certificate, labelled)),
        test=None if test is None else _problems(summary.shown, _full_budget(certificate, test)),
        levels=tuple(
            ReportLevel(
                level.alpha,
                on_calibration.get(level.alpha),
                on_test.get(level.alpha),
                compared.get(level.alpha, ()),
            )
            for level in certificate.levels
        ),
        maps=tuple(map(_map, summary.maps)),
        reliability=ReliabilityData(
            on_test=summary.shown.on_test,
            all=_rounded(summary.all_readings),
            final=_rounded(summary.final_readings),
        ),
        captions=_captions(summary),
        recorded=choose_recorded(
            certificate,
            labelled if test is None else test,
            on_test=test is not None,
            questions=questions,
        ),
    )


def _problems(measured: Measured, found: Intervals) -> ProblemSet:
    return ProblemSet(
        measured.n_problems,
        measured.n_units,
        _short(measured.full_right),
        _maybe(found.full_right.low),
        _maybe(found.full_right.high),
    )


def _full_budget(certificate: Certificate, traces: Traces) -> Intervals:
    """The intervals of the procedure without early exits."""
    (found,) = intervals([FULL_BUDGET], traces, certificate.procedure, certificate.groups)
    return found


def _figures(
    certificate: Certificate, measured: Measured, traces: Traces
) -> dict[float, LevelFigures]:
    """The figures of each certified level, by its alpha."""
    policies = [one.policy for one in certificate.certified_levels]
    found = [
        (level.alpha, level.evaluation) for level in measured.levels if level.evaluation is not None
    ]
    around = intervals(policies, traces, certificate.procedure, certificate.groups)
    return {
        alpha: _level(evaluation, confidence, of)
        for (alpha, evaluation), confidence, of in zip(
            found, _confidences(policies, traces), around, strict=True
        )
    }


def _references(certificate: Certificate, traces: Traces) -> dict[float, Reference]:
    """What live readings of each certified level are compared with, by its alpha."""
    levels = certificate.certified_levels
    found = references(certificate, [level.policy for level in levels], traces)
    return {level.alpha: one for level, one in zip(levels, found, strict=True)}


def _confidences(policies: Sequence[ExitPolicy], traces: Traces) -> Iterator[tuple[int, ...]]:
    """For each policy, the rollouts in each bin of the reading at which it stops them."""
    if not policies:
        return
    stop_RT = find_exits(policies, traces.tokens_RC, traces.confidence_RC, traces.final_R).stop_RT
    at_stop_RT = np.take_along_axis(traces.confidence_RC, stop_RT, axis=1)
    for t in range(len(policies)):
        bin_R = np.searchsorted(EXIT_EDGES[1:], at_stop_RT[:, t], side="left")
        yield tuple(np.bincount(bin_R, minlength=len(EXIT_EDGES) - 1).tolist())


def _level(found: Evaluation, confidence: tuple[int, ...], around: Intervals) -> LevelFigures:
    low, high = found.risk_interval or (None, None)
    tokens = around.tokens or (None, None)
    share = around.tokens_share or (None, None)
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
        share_answered_low=_maybe(around.answered.low),
        share_answered_high=_maybe(around.answered.high),
        share_right_low=_maybe(around.right.low),
        share_right_high=_maybe(around.right.high),
        tokens_low=_maybe(tokens[0]),
        tokens_high=_maybe(tokens[1]),
        tokens_share_low=_maybe(share[0]),
        tokens_share_high=_maybe(share[1]),
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
