"""A certificate for each kind of question, and one for all kinds together, under one delta."""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from calibration.certificate.certificate import Certificate
from calibration.certificate.certify import certify
from calibration.certificate.fitting.request import ALPHAS, DELTA, DesignRequest
from calibration.certificate.kinds import Kind, delta_of_each, group_of_several
from calibration.certificate.plan import Plan, plan
from calibration.certificate.wording import covers, does_not_cover
from calibration.errors import CalibrationError
from calibration.simulation.risks import SELECTIVE, Risk
from calibration.testing.fwer import Promise
from calibration.testing.joint import levels_delta, requested
from calibration.testing.methods import Method
from calibration.testing.p_values import fewest_problems
from calibration.testing.until import LIKELY
from calibration.traces.table import KIND
from calibration.traces.traces import Traces

ENOUGH = 2
"""How many times as many labels as a test without a wrong answer takes make a kind worth its share.

With so many, a kind whose risk is a quarter of alpha passes in most calibrations.
"""


def certify_kinds(
    traces: Traces,
    *,
    by: str = KIND.name,
    delta: float = DELTA,
    alphas: Sequence[float] = ALPHAS,
    risk: str | Risk = SELECTIVE,
    promise: Promise | str = Promise.SIMULTANEOUS,
    method: Method | str = Method.AUTO,
    order: Traces | None = None,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
    **settings: Any,
) -> list[Certificate]:
    """Certificates that hold together: of all kinds, then of each kind with enough labels.

    The guarantee: with probability at least 1 - delta over the draw of the problems, every
    certificate keeps its promise; so the risk is bounded among the questions of each certified
    kind, and on average over all questions. A quarter of delta goes to the certificate of all
    kinds, the rest in equal parts to the others. A kind has enough labels if it has twice as many
    as its largest alpha takes without a wrong answer; so which kinds these are follows from the
    number of problems alone. It does not cover a kind without a certificate of its own, or kinds
    that were declared after looking at labels. A group has one kind: otherwise the number of
    problems of another kind would say something about the losses of this one.

    Args:
        traces: read with the column of the kinds (`read_traces`).
        by: the name of that column, to note in the certificates.
        delta: the probability with which any of the certificates may fail.
        alphas: risk levels, each in (0, 1).
        risk: see `certify`, like everything else here.
        promise: whether the levels of each certificate hold at once.
        method: which policies are tested.
        order: labelled problems on which order and scale are learned, of any kind.
        on_progress: called with the number of certificates done and the number of them.
        settings: the other arguments of `certify`.

    Raises:
        CalibrationError: no problem has a kind, a group has several, or as for `certify`.
    """
    request = DesignRequest.of(
        delta=delta, alphas=alphas, risk=risk, promise=promise, method=method
    )
    traces = traces.passing()
    joint = {name: settings.get(name) for name in ("bounds", "next_questions")}
    enough, pooled = divided(traces, by, request, **joint)
    found = []
    for name in (None, *enough):
        kind = Kind(by, name, enough, pooled, delta)
        made = certify(
            kind.select(traces),
            delta=kind.own_delta,
            alphas=alphas,
            risk=risk,
            promise=promise,
            method=method,
            order=order,
            **settings,
        )
        found.append(_of_kind(made, kind, request.risk))
        on_progress(len(found), 1 + len(enough))
    return found


def divided(
    traces: Traces,
    by: str,
    request: DesignRequest,
    bounds: Mapping[str, float | None] | None,
    next_questions: int | None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The kinds with enough labels for a certificate of their own, and the others; both sorted.

    Raises:
        CalibrationError: there are no kinds, or a group has several.
    """
    units_of = _units_of_kinds(traces, by)
    enough = _enough(units_of, lambda count: _labels_for(count, request, bounds, next_questions))
    return enough, tuple(sorted(units_of.keys() - {*enough}))


@dataclass(frozen=True, slots=True)
class KindsPlan:
    """Forecasts for certificates of kinds, which share one delta as `certify_kinds` divides it.

    Attributes:
        pooled: for the certificate of all kinds together.
        of_kinds: for that of each kind with enough pilot problems. Their numbers count problems of
            the kind.
        labels: with fewer problems than this, a kind has no certificate of its own.
        enough: by alpha, the fewest problems of all kinds, drawn with the pilot's shares of the
            kinds, that certify it for each of `of_kinds` taken alone, and for all kinds together,
            with a probability of 90%; None if no number does. All of these certificates at once are
            less likely.
        skipped: kinds with too few problems in the pilot for a forecast, sorted.
    """

    pooled: Plan
    of_kinds: dict[str, Plan]
    labels: int
    enough: dict[float, int | None]
    skipped: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def plan_kinds(
    pilot: Traces,
    *,
    by: str = KIND.name,
    delta: float = DELTA,
    alphas: Sequence[float] = ALPHAS,
    risk: str | Risk = SELECTIVE,
    promise: Promise | str = Promise.SIMULTANEOUS,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
    **settings: Any,
) -> KindsPlan:
    """`plan` for the certificates that `certify_kinds` makes, if each kind forecast gets one.

    A kind with few pilot problems has a poor forecast: 50 of each kind say something. One with
    fewer than any kind's certificate takes, even if it had the share of all kinds, has none.

    Args:
        pilot: read with the column of the kinds (`read_traces`).
        by: the name of that column.
        delta: see `certify_kinds`.
        alphas: see `certify_kinds`.
        risk: see `certify_kinds`.
        promise: see `certify_kinds`.
        on_progress: called with the number of certificates done and the number of them.
        settings: the other arguments of `plan`.

    Raises:
        CalibrationError: no problem has a kind, no kind has enough problems, a group has several
            kinds, or as for `plan`.
    """
    request = DesignRequest.of(delta=delta, alphas=alphas, risk=risk, promise=promise)
    joint = {name: settings.get(name) for name in ("bounds", "next_questions")}

    def labels_for(count: int) -> int:
        return _labels_for(count, request, **joint)

    pilot = pilot.passing()
    kinds, skipped = _forecastable(pilot, by, fewest=labels_for(1))
    found: dict[str | None, Plan] = {}
    for name in (None, *kinds):
        on_progress(len(found), 1 + len(kinds))
        kind = Kind(by, name, kinds, (), delta)
        found[name] = plan(
            kind.select(pilot), delta=kind.own_delta, alphas=alphas, risk=risk, promise=promise,
            sequential=False, **settings,
        )  # fmt: skip
    labels = labels_for(len(kinds))
    pooled = found.pop(None)
    of_kinds = {str(name): one for name, one in found.items()}
    enough = {alpha: _of_all(alpha, pooled, of_kinds, labels) for alpha in request.alphas}
    return KindsPlan(pooled, of_kinds, labels, enough, skipped)


def _forecastable(pilot: Traces, by: str, fewest: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The kinds with at least so many problems or groups, and the others; both sorted.

    Raises:
        CalibrationError: there are none of the first, or no kinds at all.
    """
    units_of = _units_of_kinds(pilot, by)
    enough = tuple(kind for kind in units_of if units_of[kind] >= fewest)
    if not enough:
        raise CalibrationError(
            f"the pilot has at most {max(units_of.values())} problems or groups of one kind in the "
            f"column {by!r}, and no kind has a certificate of its own with fewer than {fewest}: "
            "record a larger pilot, or name a column with fewer kinds"
        )
    return enough, tuple(sorted(units_of.keys() - {*enough}))


def _of_all(alpha: float, pooled: Plan, of_kinds: Mapping[str, Plan], labels: int) -> int | None:
    """How many problems of all kinds are enough for each of them; None if no number is."""
    needed = [pooled.enough[alpha]]
    for own in of_kinds.values():
        needed.append(_drawn_for(own, alpha, own.n_pilot / pooled.n_pilot, labels))
    known = [one for one in needed if one is not None]
    return max(known) if len(known) == len(needed) else None


def _drawn_for(own: Plan, alpha: float, share: float, labels: int) -> int | None:
    """The fewest problems of all kinds that certify alpha for one kind in `LIKELY` of the cases.

    How many of n problems are of the kind is Binomial(n, share). Between two sizes of the
    forecast, as many calibrations count as certified as at the smaller one. More problems certify
    no less, so a share that falls with the size is taken for chance.

    Args:
        own: the forecast of the kind.
        alpha: risk level.
        share: of the kind among all problems.
        labels: with fewer problems, the kind has no certificate.
    """
    tried = [(each.n, each.certified) for each in own.forecasts if each.alpha == alpha]
    size_S, certified_S = np.array(tried).T
    rise_S = np.diff(np.maximum.accumulate(certified_S), prepend=0.0)
    needed_S = np.maximum(size_S, labels)

    def certified(n: int) -> float:
        return float(rise_S @ stats.binom.sf(needed_S - 1, n, share))

    # Of so many problems, more are of the kind than needed, up to a probability of about 1e-20.
    most = math.ceil(4 * (needed_S.max() + 10) / share)
    found = bisect_left(range(most), LIKELY, key=certified)
    return found if found < most else None


def _units_of_kinds(traces: Traces, by: str) -> dict[str, int]:
    """How many problems or groups there are of each kind, by the sorted kinds.

    Raises:
        CalibrationError: there are none, or a group has several.
    """
    if traces.kinds is None or not any(traces.kinds):
        raise CalibrationError(
            f"no problem has a kind in the column {by!r}: name the column that holds the kinds, or "
            "leave the kinds out"
        )
    if (mixed := group_of_several(zip(traces.groups, traces.kinds, strict=True))) is not None:
        raise CalibrationError(
            f"{mixed}: name a column whose kinds do not divide groups, or leave the kinds out"
        )
    counted = Counter(kind for _, kind in {*zip(traces.units, traces.kinds, strict=True)} if kind)
    return dict(sorted(counted.items()))


def _labels_for(
    count: int,
    request: DesignRequest,
    bounds: Mapping[str, float | None] | None,
    next_questions: int | None,
) -> int:
    """The fewest units of a kind with a certificate of its own, if so many have one."""
    own = delta_of_each(request.delta, count)
    levels = levels_delta(own, requested(own, request.risk, bounds or {}, next_questions))
    level_delta = replace(request, delta=levels).level_delta
    return ENOUGH * fewest_problems(max(request.alphas), level_delta)


def _enough(units_of: Mapping[str, int], labels_for: Callable[[int], int]) -> tuple[str, ...]:
    """The kinds with enough labels: as many as have them when delta is divided among so many."""
    by_size = sorted(units_of, key=lambda kind: (-units_of[kind], kind))
    for count in range(len(by_size), 0, -1):
        if units_of[by_size[count - 1]] >= labels_for(count):
            return tuple(sorted(by_size[:count]))
    return ()


def _of_kind(made: Certificate, kind: Kind, risk: Risk) -> Certificate:
    """The same certificate, which says what it is for and what holds with it."""
    gated = made.fingerprint is not None and made.fingerprint.is_gated
    return replace(
        made,
        kind=kind,
        covers=covers(
            risk,
            kind.delta,
            made.promise,
            made.p_value,
            groups=made.groups,
            gated=gated,
            of_kind=kind,
            joint=made.joint,
        ),
        does_not_cover=does_not_cover(risk, groups=made.groups, gated=gated, of_kind=kind),
    )
