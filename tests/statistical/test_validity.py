"""The guarantee holds with probability 1 - δ, in every world and for every procedure."""

from collections.abc import Mapping

import pytest

from calibration import Promise
from tests.statistical.cells import ALPHAS, CELLS, CELLS_PER_STUDY, STUDIES, Study
from tests.statistical.design import most_errors
from tests.statistical.harness import Tally
from tests.statistical.policies import DELTA
from tests.statistical.report import FITS, Findings, Found

pytestmark = pytest.mark.slow

UNITS = 100_000
SMALL = [study for study in STUDIES if study.n <= 100 and not study.asymptotic][::4]
"""A seeded subset for the daily run."""

Tallies = Mapping[tuple[str, Promise], Tally]


def check(tallies: Tallies, cells: int) -> None:
    for (structure, promise), tally in tallies.items():
        assert tally.violations <= most_errors(tally.fits, DELTA, cells), (structure, promise)
        # Only what is false can be served falsely.
        assert tally.served_violations <= tally.violations, (structure, promise)


@pytest.mark.parametrize("study", SMALL, ids=str)
def test_the_promise_is_kept(study: Study) -> None:
    tallies = study.run(study.population(5000), fits=150)
    check(tallies, CELLS_PER_STUDY * len(SMALL))


@pytest.mark.statistical
@pytest.mark.parametrize("study", STUDIES, ids=str)
def test_the_promise_is_kept_in_full(study: Study, findings: Findings) -> None:
    """The asymptotic test guarantees nothing at any n: its result is reported, not asserted."""
    population = study.population(UNITS)
    tallies = study.run(population, FITS)
    findings.studies.append(Found(study, population.levels(ALPHAS), tallies))
    if not study.asymptotic:
        check(tallies, CELLS)
