"""The harness itself: its shortcuts change no result, and it serves as certificates do."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from calibration import Certificate, CertifiedLevel, InfeasibleAlpha, Promise, certify
from calibration.certificate.fitting.tested import certify_policies
from calibration.simulation.risks import SELECTIVE
from calibration.testing.p_values import PValue, p_value_table
from tests.statistical.fits import Setting, fits
from tests.statistical.harness import run, served
from tests.statistical.nulls import Nulls, Shape
from tests.statistical.policies import DELTA, Structure
from tests.statistical.population import Population, Recording
from tests.statistical.procedures import certifiers
from tests.statistical.worlds import CALIBRATED, OVERTHINKING


@pytest.fixture(scope="module")
def population() -> Population:
    return Population.replayed(OVERTHINKING, SELECTIVE, Recording(4, 1), 5000, seed=1)


KINDS = (PValue.HOEFFDING_BENTKUS, PValue.BETTING)


@pytest.mark.parametrize("kind", KINDS)
def test_p_values_of_many_fits_at_once_are_those_of_each(population, kind: PValue) -> None:
    setting = Setting(population.levels(), kind, 60, fits=5)
    for fit in fits(population, setting):
        assert fit.tables
        for target_level, p_LT in fit.tables.items():
            alone_LT = p_value_table(fit.losses, setting.alphas, kind, 0, target_level)
            assert p_LT == pytest.approx(alone_LT, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("promise", Promise)
def test_shared_p_values_certify_what_own_ones_do(
    population, kind: PValue, promise: Promise
) -> None:
    setting = Setting(population.levels(), kind, 200, fits=4)
    families = population.grid.families(setting.alphas)
    certify_shared = certifiers(population.grid, setting.alphas)
    for fit, (structure, family) in product(fits(population, setting), families.items()):
        columns = population.grid.columns(family.policies)
        tested = certify_policies(
            fit.losses.select(columns), family, setting.alphas, DELTA, promise, kind
        )
        certified_LT = certify_shared[structure](fit, promise)
        for level, row in enumerate(tested.certified_LT):
            assert set(columns[row]) == set(np.flatnonzero(certified_LT[level]))


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    """One level certified, one not."""
    traces = CALIBRATED.draw(np.random.default_rng(0), 100)
    made = certify(traces, risk="error", alphas=(0.01, 0.6), method="fixed-sequence")
    assert [level.certified for level in made.levels] == [False, True]
    return made


@pytest.mark.parametrize("promise", Promise)
@pytest.mark.parametrize("pattern", product((False, True), repeat=3))
def test_requests_are_served_as_by_a_certificate(
    certificate: Certificate, pattern: tuple[bool, ...], promise: Promise
) -> None:
    levels = tuple(
        replace(certificate.levels[certified], alpha=alpha)
        for certified, alpha in zip(pattern, (0.1, 0.2, 0.3), strict=True)
    )
    made = replace(certificate, levels=levels, promise=promise)
    chosen_L = [level if certified else None for level, certified in enumerate(pattern)]
    assert served(chosen_L, promise) == [handed(made, level.alpha) for level in levels]


def handed(certificate: Certificate, alpha: float) -> int | None:
    try:
        level: CertifiedLevel = certificate.level_for(alpha)
    except InfeasibleAlpha:
        return None
    return certificate.levels.index(level)


@pytest.mark.slow
def test_runs_repeat() -> None:
    nulls = Nulls(0.2, Shape.RATIO, nested=False)
    setting = Setting((0.2,), PValue.BINOMIAL, 50, fits=40, seed=3)
    certify_all = certifiers(nulls.grid, setting.alphas)
    counts = [
        [tally.violations for tally in run(nulls, each, certify_all).values()]
        for each in (setting, setting, replace(setting, seed=4))
    ]
    assert counts[0] == counts[1] != counts[2]


def test_every_structure_is_certified_by(population: Population) -> None:
    assert set(certifiers(population.grid, population.levels())) == set(Structure)
