"""If everything certified is false: errors at most δ, and nearly δ, so the tests have power."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from scipy import stats

from calibration import Promise
from calibration.testing.p_values import PValue
from tests.statistical.design import fewest_errors, most_errors
from tests.statistical.fits import Setting
from tests.statistical.harness import run
from tests.statistical.nulls import Nulls, Shape
from tests.statistical.policies import DELTA, Structure
from tests.statistical.procedures import certifiers
from tests.statistical.report import FITS, AllFalse, Findings

ALPHA = 0.2
SIZES = (20, 50, 100, 300, 1000, 2000)
KINDS = (PValue.BINOMIAL, PValue.BETTING, PValue.HOEFFDING_BENTKUS)


@dataclass(frozen=True)
class Case:
    shape: Shape
    nested: bool
    kind: PValue
    n: int

    def __str__(self) -> str:
        return f"{self.losses}, {self.kind}, n={self.n}"

    @property
    def losses(self) -> str:
        return f"{self.shape}, {'nested' if self.nested else 'independent'}"

    @property
    def exact(self) -> bool:
        """The result depends only on counts, so the rejection probability is known."""
        binary_counts = self.shape is Shape.BINARY and self.kind is PValue.HOEFFDING_BENTKUS
        return self.kind is PValue.BINOMIAL or binary_counts


CASES = [
    Case(*case)
    for case in product(Shape, (False, True), KINDS, SIZES)
    if not (case[0] is Shape.AVERAGED and case[2] is PValue.BINOMIAL)
]
FAST = [case for case in CASES if case.n == 100 and case.shape is not Shape.RATIO]
CELLS = len(CASES) * len(Structure)


def check(case: Case, fits: int, cells: int) -> list[AllFalse]:
    nulls = Nulls(ALPHA, case.shape, case.nested)
    setting = Setting((ALPHA,), case.kind, case.n, fits, promises=(Promise.POINTWISE,))
    tallies = run(nulls, setting, certifiers(nulls.grid, setting.alphas))
    families = nulls.grid.families(setting.alphas)
    found = []
    for (structure, _), tally in tallies.items():
        assert tally.violations <= most_errors(fits, DELTA, cells), structure
        # Whatever is certified is false, so whatever is served is.
        assert tally.violations == tally.served_violations == tally.certified_L[0]
        theory = None
        if case.exact and structure in families:
            theory = nulls.rejects(case.kind, case.n, DELTA, families[structure])
            assert theory <= DELTA
            assert tally.violations <= most_errors(fits, theory, cells), structure
            assert tally.violations >= fewest_errors(fits, theory, cells), structure
        share = tally.violations / fits
        found.append(AllFalse(case.losses, case.kind, case.n, structure, share, theory))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("case", FAST, ids=str)
def test_no_more_than_delta_and_as_often_as_theory_says(case: Case) -> None:
    check(case, fits=200, cells=len(FAST) * len(Structure))


@pytest.mark.statistical
@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_more_than_delta_and_as_often_as_theory_says_in_full(
    case: Case, findings: Findings
) -> None:
    findings.all_false += check(case, FITS, CELLS)


@pytest.mark.parametrize("structure", [Structure.SEQUENCE, Structure.CHAINS, Structure.GRAPH])
def test_the_exact_test_spends_most_of_delta(structure: Structure) -> None:
    """So the bound δ is tested; it does not hold merely for lack of power."""
    nulls = Nulls(ALPHA, Shape.BINARY, nested=False)
    family = nulls.grid.families((ALPHA,))[structure]
    shares = [nulls.rejects(PValue.BINOMIAL, n, DELTA, family) for n in (100, 300, 1000, 2000)]
    assert min(shares) > 0.7 * DELTA
    assert max(shares) > 0.9 * DELTA


@pytest.mark.slow
@pytest.mark.parametrize("shape", Shape)
def test_betting_spends_most_of_delta(shape: Shape) -> None:
    nulls = Nulls(ALPHA, shape, nested=False)
    setting = Setting((ALPHA,), PValue.BETTING, 300, 400, promises=(Promise.POINTWISE,))
    certify = certifiers(nulls.grid, setting.alphas)
    (tally,) = run(nulls, setting, {"sequence": certify[Structure.SEQUENCE]}).values()
    assert tally.violations >= fewest_errors(setting.fits, 0.6 * DELTA, len(Shape))


def test_closed_forms_agree_with_brute_force() -> None:
    """The theory compared with plain counting, without the project's tests."""
    rng = np.random.default_rng(0)
    nulls = Nulls(ALPHA, Shape.RATIO, nested=False)
    family = nulls.grid.families((ALPHA,))[Structure.CHAINS]
    expected = nulls.rejects(PValue.BINOMIAL, 100, DELTA, family)
    answered = rng.binomial(100, 0.7, (100_000, 3))
    wrong = rng.binomial(answered, ALPHA)
    p_values = stats.binom.cdf(wrong, answered, ALPHA)
    assert (p_values <= DELTA / 3).any(axis=1).mean() == pytest.approx(expected, abs=0.004)
