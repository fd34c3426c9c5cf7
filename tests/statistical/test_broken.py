"""The harness catches procedures that are wrong, by a wide margin; valid ones pass beside them."""

import numpy as np
import pytest

from calibration import Promise
from calibration.families import Chain, family_of_chains
from calibration.pvalues import PValue
from calibration.risks import ERROR, SELECTIVE
from tests.statistical import broken
from tests.statistical.design import most_errors
from tests.statistical.harness import (
    Certifier,
    Setting,
    Source,
    Tally,
    certifiers,
    certify_family,
    run,
    served,
    split,
)
from tests.statistical.nulls import ABOVE, Nulls, Shape
from tests.statistical.policies import DELTA, Structure
from tests.statistical.population import Population, Recording
from tests.statistical.worlds import CLUSTERED, GUESSING, OVERCONFIDENT

FITS = 300
CELLS = 20
ALPHA = 0.2


def tally(source: Source, setting: Setting, certify: Certifier, serve=served) -> Tally:
    (only,) = run(source, setting, {"procedure": certify}, serve).values()
    return only


def pointwise(alphas: tuple[float, ...], kind: PValue, n: int) -> Setting:
    return Setting(alphas, kind, n, FITS, seed=5, promises=(Promise.POINTWISE,))


def is_caught(found: Tally) -> bool:
    """More violations than the design allows, and by more than chance could bring about."""
    return found.served_violations > 1.3 * most_errors(FITS, DELTA, CELLS)


@pytest.fixture(scope="module")
def nulls() -> Nulls:
    return Nulls(ALPHA, Shape.BINARY, nested=False)


@pytest.fixture(scope="module")
def guessing() -> Population:
    return Population.replayed(GUESSING, SELECTIVE, Recording(1, 1), 20_000, seed=1)


def below(population: Population) -> tuple[float]:
    """A level just below every risk."""
    return (float(population.risk_T.min() / ABOVE),)


def test_the_best_bound_of_a_grid(nulls: Nulls, guessing: Population) -> None:
    setting = pointwise((ALPHA,), PValue.BINOMIAL, 200)
    assert is_caught(tally(nulls, setting, broken.best_bound))
    setting = pointwise(below(guessing), PValue.BINOMIAL, 300)
    assert is_caught(tally(guessing, setting, broken.best_bound))


def test_an_order_learned_on_the_testing_labels(nulls: Nulls, guessing: Population) -> None:
    setting = pointwise((ALPHA,), PValue.BINOMIAL, 200)
    assert is_caught(tally(nulls, setting, broken.order_from_test_labels))
    assert not is_caught(tally(nulls, setting, split))
    setting = pointwise(below(guessing), PValue.BINOMIAL, 300)
    assert is_caught(tally(guessing, setting, broken.order_from_test_labels))
    assert not is_caught(tally(guessing, setting, split))


def test_rollouts_counted_as_problems() -> None:
    nulls = Nulls(ALPHA, Shape.AVERAGED, nested=False, clustering=0.9)
    setting = pointwise((ALPHA,), PValue.BETTING, 200)
    counted = broken.rollouts_as_problems(nulls.grid, setting.alphas, rollouts=4)
    assert is_caught(tally(nulls, setting, counted))
    averaged = certifiers(nulls.grid, setting.alphas)[Structure.SEQUENCE]
    assert not is_caught(tally(nulls, setting, averaged))


def test_rollouts_counted_as_problems_in_a_clustered_world() -> None:
    population = Population.replayed(CLUSTERED, ERROR, Recording(8, 1), 10_000, seed=1)
    family = population.grid.families((ALPHA,))[Structure.SEQUENCE]
    first = population.grid.columns(family.policies)[0]
    setting = pointwise((population.risk_T[first] / ABOVE,), PValue.BETTING, 200)
    counted = broken.rollouts_as_problems(population.grid, setting.alphas, rollouts=8)
    assert is_caught(tally(population, setting, counted))
    averaged = certifiers(population.grid, setting.alphas)[Structure.SEQUENCE]
    assert not is_caught(tally(population, setting, averaged))


def test_the_first_threshold_that_failed(nulls: Nulls) -> None:
    setting = pointwise((ALPHA,), PValue.BINOMIAL, 200)
    assert is_caught(tally(nulls, setting, broken.first_that_failed(nulls.grid, setting.alphas)))
    world = Population.replayed(OVERCONFIDENT, SELECTIVE, Recording(1, 1), 20_000, seed=1)
    setting = pointwise(world.levels(), PValue.BINOMIAL, 300)
    assert is_caught(tally(world, setting, broken.first_that_failed(world.grid, setting.alphas)))


def test_falling_through_to_another_level(nulls: Nulls) -> None:
    """Five levels, all but the same, each tested first on a policy of its own."""
    alphas = tuple((ALPHA * np.linspace(1 - 1e-7, 1, 5)).tolist())
    chain = nulls.grid.chains[0]
    family = family_of_chains(
        [[Chain(chain[level:], 1.0)] for level in range(len(alphas))], "a chain per level"
    )
    certify = certify_family(family, nulls.grid)
    setting = pointwise(alphas, PValue.BINOMIAL, 500)
    assert is_caught(tally(nulls, setting, certify, broken.fall_through))
    assert not is_caught(tally(nulls, setting, certify))
    together = Setting(alphas, PValue.BINOMIAL, 500, FITS, 5, (Promise.SIMULTANEOUS,))
    assert not is_caught(tally(nulls, together, certify))
