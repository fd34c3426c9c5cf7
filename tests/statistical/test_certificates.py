"""Certificates from traces, end to end: the policy that a request gets keeps its alpha."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from calibration import Certificate, CertifiedLevel, ExitPolicy, InfeasibleAlpha, Promise, certify
from calibration.simulation.procedure import Procedure
from calibration.simulation.replay import replay
from calibration.simulation.risks import RISKS
from tests.statistical.design import fewest_errors, most_errors
from tests.statistical.policies import DELTA, Structure
from tests.statistical.population import Population, Recording
from tests.statistical.worlds import (
    CALIBRATED,
    CLUSTERED,
    GROUPED,
    NEVER_CORRECT,
    OVERCONFIDENT,
    OVERTHINKING,
    TIES,
    UNINFORMATIVE,
    World,
)


@dataclass(frozen=True)
class Case:
    world: World
    risk: str
    recording: Recording
    method: str
    promise: Promise
    n: int

    def __str__(self) -> str:
        return (
            f"{self.world.name}, {self.risk}, {self.recording}, {self.method}, {self.promise}, "
            f"n={self.n}"
        )


POINTWISE, SIMULTANEOUS = Promise.POINTWISE, Promise.SIMULTANEOUS
ALPHAS = (0.15, 0.2, 0.3)
CASES = [
    Case(TIES, "selective", Recording(1, 1), "auto", SIMULTANEOUS, 100),
    Case(CLUSTERED, "regret", Recording(4, 1), "chains", POINTWISE, 100),
    Case(OVERTHINKING, "error", Recording(1, 1), "split", POINTWISE, 300),
    Case(CALIBRATED, "error", Recording(1, 1), "auto", POINTWISE, 300),
    Case(OVERCONFIDENT, "selective", Recording(4, 1), "split", SIMULTANEOUS, 300),
    Case(GROUPED, "selective", Recording(1, 1), "fixed-sequence", SIMULTANEOUS, 300),
    Case(NEVER_CORRECT, "selective", Recording(6, 3), "auto", POINTWISE, 100),
    Case(CALIBRATED, "regret", Recording(1, 1), "holm", SIMULTANEOUS, 300),
    Case(UNINFORMATIVE, "regret", Recording(1, 1), "auto", POINTWISE, 700),
]


def fit(case: Case, fits: int) -> Iterator[Certificate]:
    rng = np.random.default_rng(7)
    for _ in range(fits):
        traces = case.world.draw(rng, case.n, case.recording.rollouts)
        yield certify(
            traces,
            risk=case.risk,
            alphas=ALPHAS,
            delta=DELTA,
            promise=case.promise,
            samples=case.recording.samples,
            method=case.method,
        )


@dataclass(frozen=True)
class Tabulated:
    """A policy's risk from many draws, and its standard error."""

    risk: float
    error: float

    def exceeds(self, bound: float) -> bool:
        """Whether the risk exceeds alpha by more than the table's own error explains."""
        return self.risk - 3 * self.error > bound


def tabulate(case: Case, policies: list[ExitPolicy], units: int) -> dict[ExitPolicy, Tabulated]:
    rng = np.random.default_rng(8)
    traces = case.world.draw(rng, units, case.recording.rollouts)
    procedure = Procedure(case.recording.samples)
    losses = replay(traces, policies, RISKS[case.risk], procedure).losses
    spread_T = np.std(losses.loss_UT - losses.risk_T * losses.weight_UT, axis=0)
    error_T = spread_T / np.sqrt(units) / losses.weight_UT.mean(axis=0)
    return {
        policy: Tabulated(float(risk), float(error))
        for policy, risk, error in zip(policies, losses.risk_T, error_T, strict=True)
    }


def check(case: Case, fits: int, units: int, cells: int) -> None:
    certificates = list(fit(case, fits))
    levels = [x for made in certificates for x in made.levels if isinstance(x, CertifiedLevel)]
    assert levels
    table = tabulate(case, list({level.policy for level in levels}), units)
    broken_FL = np.array(
        [[serves_falsely(made, alpha, table) for alpha in ALPHAS] for made in certificates]
    )
    together = case.promise is SIMULTANEOUS
    broken = broken_FL.any(axis=1).sum() if together else broken_FL.sum(axis=0).max()
    assert broken <= most_errors(fits, DELTA, cells)
    bounds_broken = sum(
        any(
            table[level.policy].exceeds(level.risk_upper)
            for level in made.levels
            if isinstance(level, CertifiedLevel)
        )
        for made in certificates
    )
    assert bounds_broken <= most_errors(fits, DELTA, cells)


def serves_falsely(
    certificate: Certificate, alpha: float, table: dict[ExitPolicy, Tabulated]
) -> bool:
    try:
        return table[certificate.level_for(alpha).policy].exceeds(alpha)
    except InfeasibleAlpha:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES[:2], ids=str)
def test_requests_are_served_at_their_risk(case: Case) -> None:
    check(case, fits=60, units=20_000, cells=2 * 4)


@pytest.mark.statistical
@pytest.mark.parametrize("case", CASES, ids=str)
def test_requests_are_served_at_their_risk_in_full(case: Case) -> None:
    check(case, fits=500, units=200_000, cells=len(CASES) * 4)


def test_a_level_at_the_very_risk_of_a_policy_is_served_falsely_nearly_delta_of_the_time() -> None:
    """This shows that the tests above would find an error."""
    population = Population.replayed(CALIBRATED, RISKS["error"], Recording(1, 1), 20_000, seed=1)
    family = population.grid.families((0.1,))[Structure.SEQUENCE]
    alpha = float(population.risk_T[population.grid.columns(family.policies)[0]]) * (1 - 1e-9)
    rng = np.random.default_rng(9)
    fits = 200
    certified = sum(
        certify(
            CALIBRATED.draw(rng, 200),
            risk="error",
            alphas=(alpha,),
            delta=DELTA,
            family=population.grid.families((alpha,))[Structure.SEQUENCE],
        )
        .levels[0]
        .certified
        for _ in range(fits)
    )
    assert fewest_errors(fits, 0.8 * DELTA, 1) <= certified <= most_errors(fits, DELTA, 1)
