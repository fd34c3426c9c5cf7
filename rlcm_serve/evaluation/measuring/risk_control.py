"""Risk targets and realised risks: replays certificates, fits and compares sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from calibration import Certificate, ExitPolicy, certify
from calibration.certificate.evaluate import Evaluation, evaluate, replay_certificate
from calibration.certificate.levels import CertifiedLevel
from calibration.errors import CalibrationError
from calibration.metrics.estimates import Estimate
from calibration.report.intervals import Intervals, intervals
from calibration.simulation.groups import Average
from calibration.simulation.risks import risk_named
from calibration.testing.fwer import Promise
from calibration.testing.methods import Method
from calibration.testing.rescale import Scale
from calibration.traces.traces import Traces
from rlcm_serve.evaluation.measuring.measures import Controlled, Origin
from rlcm_serve.evaluation.recorded import Recorded

ALPHAS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
"""Targets for which every source is fitted."""
FITTED = ("selective", "error")
"""Risks for which sources are fitted: errors among answers, and among all questions (RLCM §5.1)."""
DELTA = 0.1
FEWEST = 6
FIT_SHARE = 0.5
"""Share of the problems for the fit; the others test it."""
_SCALE_SHARE, _PULL = 0.25, 0.01


def replay_certificates(
    certificates: Sequence[Certificate], recorded: Recorded
) -> Iterator[Controlled]:
    """Every level of these certificates, which have built-in risks, on this benchmark.

    Problems that do not pass the familiarity check are left out, as every certificate leaves them
    out. So is a certificate for more samples than there are rollouts, or for smaller groups.
    """
    if not certificates:
        return
    traces = recorded.own.passing()
    largest_group = int(np.bincount(traces.unit_P).max())
    for certificate in certificates:
        n, groups = certificate.procedure.samples, certificate.groups
        too_large = groups is not None and largest_group > (groups.max_size or largest_group)
        if n > traces.rollouts_P.min() or too_large:
            continue
        target = Controlled(
            recorded.own_source,
            Origin(certificate.id, samples=n),
            certificate.risk,
            alpha=0,
            n_problems=traces.n_problems,
        )
        around = iter(_around(certificate, traces))
        for level in replay_certificate(certificate, traces):
            at = replace(target, alpha=level.alpha, reason=level.reason)
            yield at if level.evaluation is None else _measured(at, level.evaluation, next(around))


def fit_sources(
    recorded: Recorded, alphas: Sequence[float] = ALPHAS, risks: Sequence[str] = FITTED
) -> Iterator[Controlled]:
    """Fits every source with the same Learn-then-Test, and measures it on the other problems.

    Problems that do not pass the familiarity check are left out, as from every certificate. Half of
    the others are for the fit; a hash of their names decides which. Each alpha is fitted
    separately (pointwise) with delta 0.1. A quarter of that half maps confidence to the probability
    of a right answer (Platt scaling); the rest tests chains of fixed thresholds on that scale. So
    the comparison depends on how a source ranks answers, not on its scale. Each group counts the
    same, which is tested without a bound on its size. With fewer than `FEWEST` problems or groups,
    nothing is fitted.
    """
    own = recorded.own
    if not own.is_familiar_P.any() or own.passing().n_units < FEWEST:
        return
    for source in recorded.sources:
        # Interval and budget are the recording's, whatever drives the exits.
        traces = replace(recorded.traces(source), fingerprint=own.fingerprint).passing()
        fit, _ = traces.split(FIT_SHARE)
        scale = Scale.fit(fit.split(_SCALE_SHARE)[0], shrinkage=_PULL)
        scaled = replace(traces, confidence_RC=scale.right(traces.confidence_RC))
        fit, test = scaled.split(FIT_SHARE)
        _, tested = fit.split(_SCALE_SHARE)
        origin = Origin(fitted_on=fit.n_problems)
        for risk in risks:
            at = Controlled(source, origin, risk, alpha=0, n_problems=test.n_problems)
            yield from _fit(at, alphas, tested, test)


def _fit(
    at: Controlled, alphas: Sequence[float], tested: Traces, test: Traces
) -> Iterator[Controlled]:
    """This target with each alpha, measured with the policy certified there if there is one."""
    try:
        certificate = certify(
            tested,
            risk=at.risk,
            alphas=alphas,
            delta=DELTA,
            promise=Promise.POINTWISE,
            method=Method.CHAINS,
            average=Average.GROUPS,
        )
    except CalibrationError as error:
        yield from (replace(at, alpha=alpha, reason=str(error)) for alpha in alphas)
        return
    levels = certificate.levels
    policies = _policies(certificate)
    risk, groups = risk_named(at.risk), certificate.groups
    found = iter(evaluate(policies, test, risk, groups=groups) if policies else ())
    around = iter(_around(certificate, test))
    for level in levels:
        if isinstance(level, CertifiedLevel):
            yield _measured(replace(at, alpha=level.alpha), next(found), next(around))
        else:
            yield replace(at, alpha=level.alpha, reason=level.reason)


def _policies(certificate: Certificate) -> list[ExitPolicy]:
    return [one.policy for one in certificate.certified_levels]


def _around(certificate: Certificate, traces: Traces) -> list[Intervals]:
    """The intervals of each certified level's figures, in their order."""
    return intervals(_policies(certificate), traces, certificate.procedure, certificate.groups)


def _measured(at: Controlled, found: Evaluation, around: Intervals) -> Controlled:
    low, high = found.risk_interval or (None, None)
    share_low, share_high = around.tokens_share or (None, None)
    return replace(
        at,
        realised=Estimate(found.realised_risk, low, high),
        answered=found.answered_share,
        right=found.right_share,
        tokens=found.tokens,
        full_tokens=found.full_budget_tokens,
        answered_low=around.answered.low,
        answered_high=around.answered.high,
        tokens_share_low=share_low,
        tokens_share_high=share_high,
    )
