import numpy as np
import pytest
from scipy.stats import binom

from rlcm_serve.familiarity.cutoff import fewest_ranking_problems, flagged_ranks


def test_460_problems_are_needed_to_flag_half_a_percent_with_90_percent_confidence() -> None:
    assert fewest_ranking_problems(0.005, 0.9) == 460
    assert flagged_ranks(459, 0.005, 0.9) == 0
    assert flagged_ranks(460, 0.005, 0.9) == 1


@pytest.mark.parametrize(("epsilon", "confidence"), [(0.005, 0.9), (0.05, 0.95), (0.2, 0.5)])
@pytest.mark.parametrize("n", [50, 460, 2000])
def test_the_ranks_are_the_most_that_the_binomial_allows(
    n: int, epsilon: float, confidence: float
) -> None:
    k = flagged_ranks(n, epsilon, confidence)
    # The k-th largest of n is among the top epsilon if at least k of them are.
    assert k == 0 or binom.sf(k - 1, n, epsilon) >= confidence
    assert binom.sf(k, n, epsilon) < confidence


def test_the_rate_of_flagged_questions_keeps_epsilon_in_nine_of_ten_fits() -> None:
    rng = np.random.default_rng(0)
    n, epsilon = 1000, 0.02
    k = flagged_ranks(n, epsilon, 0.9)
    cutoffs = np.sort(rng.uniform(size=(4000, n)), axis=1)[:, -k]
    kept = float((1 - cutoffs <= epsilon).mean())  # scores are uniform: the rate is known
    assert 0.9 - 0.015 <= kept <= 0.95
