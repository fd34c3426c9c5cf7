from itertools import combinations, product

import pytest
from scipy import stats

from calibration import Promise
from calibration.testing.p_values import PValue
from tests.statistical.cells import CELLS, FACTORS, STUDIES, allowed
from tests.statistical.design import fewest_errors, most_errors, pairwise
from tests.statistical.policies import Structure
from tests.statistical.report import FITS


def test_the_studies_meet_every_pair_of_settings() -> None:
    factors = [*FACTORS.values(), tuple(Structure), tuple(Promise)]
    rows = [
        (study.world, study.risk, study.recording, study.kind, study.n, structure, promise)
        for study in STUDIES
        for structure, promise in product(Structure, Promise)
    ]
    possible = [row for row in product(*FACTORS.values()) if allowed(row)]
    for (i, first), (j, second) in combinations(enumerate(factors), 2):
        met = {(row[i], row[j]) for row in rows}
        for pair in product(first, second):
            if max(i, j) >= len(FACTORS) or any((row[i], row[j]) == pair for row in possible):
                assert pair in met


def test_few_rows_suffice() -> None:
    largest, second = sorted(len(settings) for settings in FACTORS.values())[-1:-3:-1]
    assert largest * second <= len(STUDIES) <= 1.5 * largest * second


def test_the_binomial_test_is_never_given_averages() -> None:
    exact = [study for study in STUDIES if study.kind is PValue.BINOMIAL]
    assert exact
    assert not any(study.recording.averaged or study.world.group_size > 1 for study in exact)


def test_the_design_is_the_same_every_time() -> None:
    factors = {"a": (1, 2, 3), "b": (1, 2), "c": (1, 2)}
    design = pairwise(factors, lambda row: row != (1, 1, 1))
    assert design == pairwise(factors, lambda row: row != (1, 1, 1))
    assert (1, 1, 1) not in design
    assert len(design) == 6


def test_allowances_bracket_what_a_valid_procedure_does() -> None:
    most, fewest = most_errors(2000, 0.1, CELLS), fewest_errors(2000, 0.1, CELLS)
    assert stats.binom.sf(most, 2000, 0.1) * CELLS <= 0.001
    assert stats.binom.cdf(fewest - 1, 2000, 0.1) * CELLS <= 0.001
    assert 0.06 < fewest / 2000 < 0.1 < most / 2000 < 0.14


def test_a_full_run_finds_what_errs_one_and_a_half_times_as_often_as_promised() -> None:
    """In any one of up to 20 cells; at the small size of other runs, what errs twice as often."""
    assert stats.binom.sf(most_errors(FITS, 0.1, 20), FITS, 0.15) > 0.99
    assert stats.binom.sf(most_errors(200, 0.1, 20), 200, 0.2) > 0.4
    assert stats.binom.sf(most_errors(200, 0.1, 20), 200, 0.3) > 0.99


@pytest.mark.parametrize("study", STUDIES, ids=str)
def test_each_study_has_its_own_seed(study) -> None:
    assert sum(other.seed == study.seed for other in STUDIES) == 1
