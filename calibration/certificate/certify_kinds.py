"""A certificate for each kind of question, and one for all kinds together, under one delta."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from calibration.certificate.certificate import Certificate
from calibration.certificate.certify import certify, check_alphas, parse_choice
from calibration.certificate.kinds import Kind
from calibration.certificate.wording import covers, does_not_cover
from calibration.errors import CalibrationError
from calibration.simulation.risks import SELECTIVE, Risk, risk_named
from calibration.testing.fwer import Promise, delta_per_level
from calibration.testing.methods import Method, share_learned_from
from calibration.testing.p_values import fewest_problems, require_rate
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
    delta: float = 0.1,
    alphas: Sequence[float] = (0.05, 0.1, 0.2),
    risk: str | Risk = SELECTIVE,
    promise: Promise | str = Promise.SIMULTANEOUS,
    method: Method | str = Method.AUTO,
    order: Traces | None = None,
    **settings: Any,
) -> list[Certificate]:
    """Certificates that hold together: of all kinds, then of each kind with enough labels.

    The guarantee: with probability at least 1 - delta over the draw of the problems, every
    certificate keeps its promise; so the risk is bounded among the questions of each certified
    kind, and on average over all questions. A quarter of delta goes to the certificate of all
    kinds, the rest in equal parts to the others. A kind has enough labels if it has twice as many
    as its largest alpha takes without a wrong answer; so which kinds these are follows from the
    number of problems alone. It does not cover a kind without a certificate of its own, or kinds
    that were declared after looking at labels.

    Args:
        traces: read with the column of the kinds (`read_traces`).
        by: the name of that column, to note in the certificates.
        delta: the probability with which any of the certificates may fail.
        alphas: risk levels, each in (0, 1).
        risk: see `certify`, like everything else here.
        promise: whether the levels of each certificate hold at once.
        method: which policies are tested.
        order: labelled problems on which order and scale are learned, of any kind.
        settings: the other arguments of `certify`.

    Raises:
        CalibrationError: no problem has a kind, or as for `certify`.
    """
    risk = risk_named(risk) if isinstance(risk, str) else risk
    promise = parse_choice("promise", Promise, promise)
    method = parse_choice("method", Method, method)
    alphas = check_alphas(alphas)
    require_rate("delta", delta)
    traces = traces.passing()
    if traces.kinds is None:
        raise CalibrationError(
            f"no problem has a kind in the column {by!r}: name the column that holds the kinds, or "
            "leave the kinds out"
        )
    units_of = {
        kind: _units_tested(traces.of_kind(kind), method, risk, order)
        for kind in sorted(set(filter(None, traces.kinds)))
    }
    enough = _enough(units_of, by, alphas, delta, promise)
    pooled = tuple(kind for kind in units_of if kind not in enough)
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
        found.append(_of_kind(made, kind, risk))
    return found


def _units_tested(traces: Traces, method: Method, risk: Risk, order: Traces | None) -> int:
    """The units of one kind that are left to test on."""
    share = 0.0 if order is not None else share_learned_from(method, risk, traces.n_units)
    return traces.n_units - round(share * traces.n_units)


def _enough(
    units_of: Mapping[str, int], by: str, alphas: Sequence[float], delta: float, promise: Promise
) -> tuple[str, ...]:
    """The kinds with enough labels: as many as have them when delta is divided among so many."""
    by_size = sorted(units_of, key=lambda kind: (-units_of[kind], kind))
    for count in range(len(by_size), 0, -1):
        chosen = tuple(sorted(by_size[:count]))
        own_delta = Kind(by, chosen[0], chosen, (), delta).own_delta
        needed = fewest_problems(max(alphas), delta_per_level(own_delta, alphas, promise))
        if units_of[by_size[count - 1]] >= ENOUGH * needed:
            return chosen
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
