"""Tokens of each problem under exits that are certified at one risk, on the other half's labels."""

from __future__ import annotations

from math import log, log1p

import numpy as np
from numpy.typing import NDArray

from calibration import FULL_BUDGET, ExitPolicy, certify
from calibration.certificate.levels import CertifiedLevel
from calibration.simulation.procedure import ONE_SAMPLE
from calibration.simulation.replay import outcomes
from calibration.traces.traces import Traces
from studies.paper.primary.design import ALPHA, DELTA, RISK
from studies.paper.primary.problems import is_out_of_domain


def certified_tokens(traces: Traces) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean tokens of each problem's rollouts (P): under certified exits, and at the full budget.

    The problems are split into two halves by a hash of their ids: into the same ones for every run,
    so that a comparison by problem shares them. Each half is read under the policy that the other
    half certifies, on its problems of the trained kinds: these are what the risk is about. If no
    policy is certified, the half is read at the full budget.
    """
    halves = traces.split(0.5)
    tokens: dict[str, tuple[float, float]] = {}
    for own, other in (halves, halves[::-1]):
        trained_P = np.array([not is_out_of_domain(name) for name in other.problem_ids])
        found = outcomes(own, [_certified(other.select(trained_P))], ONE_SAMPLE)
        problem_D = own.problem_R
        count_P = np.bincount(problem_D)
        exits_P = np.bincount(problem_D, found.tokens_DT[:, 0]) / count_P
        full_P = np.bincount(problem_D, found.full_tokens_D) / count_P
        tokens |= dict(zip(own.problem_ids, zip(exits_P, full_P, strict=True), strict=True))
    both = np.array([tokens[name] for name in traces.problem_ids])
    return both[:, 0], both[:, 1]


def _certified(traces: Traces) -> ExitPolicy:
    """The policy with the fewest tokens that these traces certify; none if they are too few."""
    if traces.n_units < log(DELTA) / log1p(-ALPHA):
        return FULL_BUDGET
    certificate = certify(traces, risk=RISK, alphas=[ALPHA], delta=DELTA)
    level = certificate.levels[0]
    return level.policy if isinstance(level, CertifiedLevel) else FULL_BUDGET
