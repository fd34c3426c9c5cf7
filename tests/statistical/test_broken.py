"""The harness detects invalid procedures by a wide margin; valid ones pass the same checks."""

from dataclasses import dataclass

import numpy as np
import pytest

from calibration import Promise
from calibration.simulation.risks import ERROR, SELECTIVE
from calibration.testing.chains import Chain, family_of_chains
from calibration.testing.p_values import PValue
from tests.statistical import broken
from tests.statistical.design import most_errors
from tests.statistical.fits import Setting, Source
from tests.statistical.harness import Serve, run, served
from tests.statistical.nulls import ABOVE, Nulls, Shape
from tests.statistical.policies import DELTA, Structure
from tests.statistical.population import Population, Recording
from tests.statistical.procedures import (
    Certifier,
    certifiers,
    certify_family,
    path_beside_chains,
    split,
)
from tests.statistical.report import FITS, Findings
from tests.statistical.worlds import CLUSTERED, GUESSING, OVERCONFIDENT

pytestmark = pytest.mark.slow

CELLS = 20
ALPHA = 0.2


@dataclass(frozen=True)
class Trial:
    """One guarantee checked by many fits."""

    fits: int
    findings: Findings

    def catches(
        self,
        name: str,
        source: Source,
        certify: Certifier,
        n: int,
        *,
        alphas: tuple[float, ...] = (ALPHA,),
        kind: PValue = PValue.BINOMIAL,
        promise: Promise = Promise.POINTWISE,
        serve: Serve = served,
    ) -> bool:
        """Whether `certify` serves falsely far more often than the design allows."""
        setting = Setting(alphas, kind, n, self.fits, seed=5, promises=(promise,), own_aims=False)
        (found,) = run(source, setting, {name: certify}, serve).values()
        if self.fits == FITS:
            self.findings.broken[name] = found.served_violations / self.fits
        return found.served_violations > 1.3 * most_errors(self.fits, DELTA, CELLS)


@pytest.fixture(params=[300, pytest.param(FITS, marks=pytest.mark.statistical)])
def trial(request: pytest.FixtureRequest, findings: Findings) -> Trial:
    return Trial(request.param, findings)


@pytest.fixture(scope="module")
def nulls() -> Nulls:
    return Nulls(ALPHA, Shape.BINARY, nested=False)


@pytest.fixture(scope="module")
def guessing() -> Population:
    return Population.replayed(GUESSING, SELECTIVE, Recording(1, 1), 20_000, seed=1)


def below(population: Population) -> tuple[float, ...]:
    """A level just below every risk."""
    return (float(population.risk_T.min() / ABOVE),)


def test_the_best_bound_of_a_grid(trial: Trial, nulls: Nulls, guessing: Population) -> None:
    assert trial.catches("best bound, nulls", nulls, broken.best_bound, 200)
    alphas = below(guessing)
    assert trial.catches("best bound, guessing", guessing, broken.best_bound, 300, alphas=alphas)


def test_an_order_learned_on_the_testing_labels(
    trial: Trial, nulls: Nulls, guessing: Population
) -> None:
    learned, alphas = broken.order_from_test_labels, below(guessing)
    assert trial.catches("order from test labels, nulls", nulls, learned, 200)
    assert not trial.catches("(valid) order from others, nulls", nulls, split, 200)
    assert trial.catches("order from test labels, guessing", guessing, learned, 300, alphas=alphas)
    assert not trial.catches(
        "(valid) order from others, guessing", guessing, split, 300, alphas=alphas
    )


def test_a_path_learned_on_the_testing_labels_beside_chains(
    trial: Trial, nulls: Nulls, guessing: Population
) -> None:
    learned, alphas = broken.path_from_test_labels, below(guessing)
    assert trial.catches("path from test labels, nulls", nulls, learned, 200)
    assert not trial.catches("(valid) path from others, nulls", nulls, path_beside_chains, 200)
    asked = {"alphas": alphas}
    assert trial.catches("path from test labels, guessing", guessing, learned, 300, **asked)
    assert not trial.catches(
        "(valid) path from others, guessing", guessing, path_beside_chains, 300, **asked
    )


def test_forks_that_keep_all_of_delta(trial: Trial, nulls: Nulls) -> None:
    kept = broken.forks_without_dividing(nulls.grid, (ALPHA,))
    assert trial.catches("forks without dividing, nulls", nulls, kept, 200)
    divided = certifiers(nulls.grid, (ALPHA,))[Structure.FORK]
    assert not trial.catches("(valid) forks, nulls", nulls, divided, 200)


def test_rollouts_counted_as_problems(trial: Trial) -> None:
    nulls = Nulls(ALPHA, Shape.AVERAGED, nested=False, clustering=0.9)
    counted = broken.rollouts_as_problems(nulls.grid, (ALPHA,), rollouts=4)
    averaged = certifiers(nulls.grid, (ALPHA,))[Structure.SEQUENCE]
    kind = PValue.BETTING
    assert trial.catches("binomial on 4 rollouts, nulls", nulls, counted, 200, kind=kind)
    assert not trial.catches("(valid) betting, nulls", nulls, averaged, 200, kind=kind)


def test_rollouts_counted_as_problems_in_a_clustered_world(trial: Trial) -> None:
    population = Population.replayed(CLUSTERED, ERROR, Recording(8, 1), 10_000, seed=1)
    family = population.grid.families((ALPHA,))[Structure.SEQUENCE]
    first = population.grid.columns(family.policies)[0]
    alphas = (float(population.risk_T[first] / ABOVE),)
    counted = broken.rollouts_as_problems(population.grid, alphas, rollouts=8)
    averaged = certifiers(population.grid, alphas)[Structure.SEQUENCE]
    asked = {"alphas": alphas, "kind": PValue.BETTING}
    assert trial.catches("binomial on 8 rollouts, clustered", population, counted, 200, **asked)
    assert not trial.catches("(valid) betting, clustered", population, averaged, 200, **asked)


def test_the_first_threshold_that_failed(trial: Trial, nulls: Nulls) -> None:
    failed = broken.first_that_failed(nulls.grid, (ALPHA,))
    assert trial.catches("first that failed, nulls", nulls, failed, 200)
    world = Population.replayed(OVERCONFIDENT, SELECTIVE, Recording(1, 1), 20_000, seed=1)
    alphas = world.levels()
    failed = broken.first_that_failed(world.grid, alphas)
    assert trial.catches("first that failed, overconfident", world, failed, 300, alphas=alphas)


def test_falling_through_to_another_level(trial: Trial, nulls: Nulls) -> None:
    """Five nearly equal levels, each with a different first policy."""
    alphas = tuple((ALPHA * np.linspace(1 - 1e-7, 1, 5)).tolist())
    chain = nulls.grid.chains[0]
    family = family_of_chains(
        [[Chain(chain[level:], 1.0)] for level in range(len(alphas))], "a chain per level"
    )
    certify = certify_family(family, nulls.grid)
    assert trial.catches(
        "falling through, nulls", nulls, certify, 500, alphas=alphas, serve=broken.fall_through
    )
    for promise in Promise:
        name = f"(valid) {promise}, nulls"
        assert not trial.catches(name, nulls, certify, 500, alphas=alphas, promise=promise)
