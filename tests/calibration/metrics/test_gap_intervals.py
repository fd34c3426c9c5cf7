"""The coverage of the intervals of calibration errors, by rule and by simulation."""

import numpy as np
import pytest

from calibration.metrics.bootstrap import estimate_difference, estimate_metrics
from calibration.metrics.gap_intervals import ERRORS, Noise, total_gap, total_overconfidence
from calibration.metrics.scores import ScoredRollouts
from tests.calibration.plain_metrics import metric_replicates
from tests.calibration.scored_rollouts import drawn

POPULATION = 20_000
"""The population of the samples; its error is the truth."""


def sample(everything: ScoredRollouts, number: int, problems: int) -> ScoredRollouts:
    keep_P = np.zeros(POPULATION, dtype=np.bool_)
    keep_P[number * problems : (number + 1) * problems] = True
    return everything.select(keep_P)


def test_errors_from_gaps() -> None:
    gap_XB = np.array([[0.1, -0.2, 0.0], [-0.1, -0.1, 0.3]])
    assert total_gap(gap_XB) == pytest.approx([0.3, 0.5])
    assert total_overconfidence(gap_XB) == pytest.approx([0.2, 0.2])


def test_clear_gaps_let_noise_cancel() -> None:
    # Standard errors of 0.01, far below the gaps: noise adds to the error with the gap's sign.
    noise_TB = np.array([[0.01, 0.01], [-0.01, 0.01], [0.01, -0.01], [-0.01, -0.01]])
    gap_B = np.array([0.3, -0.2])
    noise = Noise.of("ece", gap_B, gap_B + noise_TB)
    assert noise.value == pytest.approx(0.5)
    for added_T in (noise.most_T, noise.least_T):
        assert added_T == pytest.approx(noise_TB @ [1, -1])
    noise = Noise.of("pce", gap_B, gap_B + noise_TB)
    # Without overconfidence, a small change of the gaps leaves the error at 0.
    assert noise.most_T == pytest.approx(-noise_TB[:, 1])


def test_without_gaps_all_noise_adds_up() -> None:
    noise_TB = np.array([[0.01, 0.01], [-0.01, 0.01], [0.01, -0.01], [-0.01, -0.01]])
    noise = Noise.of("ece", np.zeros(2), noise_TB)
    assert noise.most_T == pytest.approx([0.02] * 4)
    noise = Noise.of("pce", np.zeros(2), noise_TB)
    assert noise.most_T == pytest.approx([0, 0.01, 0.01, 0.02])


@pytest.mark.parametrize("name", ERRORS)
def test_an_interval_holds_its_value_and_stays_in_range(name: str) -> None:
    for seed in range(20):
        found = estimate_metrics(drawn(seed, problems=20, slope=3.0), [name], resamples=60)[name]
        assert found.value is not None
        assert 0 <= found.low <= found.value <= found.high <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("slope", "problems"), [(1.0, 30), (1.0, 100), (1.5, 30), (1.5, 100), (3.0, 30)]
)
def test_coverage(slope: float, problems: int) -> None:
    """The share of intervals, over 200 samples, that contain the population's error; SE 1.5%."""
    everything = drawn(7, problems=POPULATION, rollouts=4, slope=slope)
    truth = estimate_metrics(everything, list(ERRORS), resamples=1)
    held = dict.fromkeys(ERRORS, 0)
    for number in range(200):
        own = sample(everything, number, problems)
        found = estimate_metrics(own, list(ERRORS), resamples=200, seed=number, threads=1)
        for name in ERRORS:
            held[name] += found[name].low <= truth[name].value <= found[name].high
    assert all(count >= 0.92 * 200 for count in held.values()), held


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problems", "least", "most"), [(30, 0.3, 0.55), (100, 0.8, 0.93), (200, 0.87, 0.97)]
)
def test_coverage_is_less_where_wrong_answers_are_rare(
    problems: int, least: float, most: float
) -> None:
    """Over 300 samples with confidences from .95 to 1, of which one answer in 50 is wrong."""
    rng, held = np.random.default_rng(0), 0
    truth = 0.98 - 0.975  # all confidences are in one bin
    for number in range(300):
        right_R = rng.random(problems) < 0.98
        own = ScoredRollouts(
            np.arange(problems), right_R, rng.uniform(0.95, 1, problems), np.where(right_R, 0, 1)
        )
        found = estimate_metrics(own, ["ece"], resamples=200, seed=number, threads=1)["ece"]
        held += found.low is not None and found.low <= truth <= found.high
    assert least < held / 300 < most


def test_a_usual_interval_misses_a_calibrated_confidence() -> None:
    """The reason for a separate rule: 2.5% and 97.5% quantiles of the resamples fail."""
    everything = drawn(7, problems=POPULATION, rollouts=4, slope=1.0)
    held = 0
    for number in range(100):
        own = sample(everything, number, 30)
        error_T = metric_replicates(own, ["ece"], resamples=200, seed=number)["ece"]
        held += np.quantile(error_T, 0.025) <= 0.003
    assert held == 0


@pytest.mark.slow
@pytest.mark.parametrize("slopes", [(1.0, 1.0), (1.0, 2.0), (2.0, 2.1)])
def test_coverage_of_a_difference(slopes: tuple[float, float]) -> None:
    """Two confidences of the same rollouts, hence strongly dependent."""
    one, other = (drawn(7, problems=POPULATION, rollouts=4, slope=slope) for slope in slopes)
    truth = [estimate_metrics(run, list(ERRORS), resamples=1) for run in (one, other)]
    held = dict.fromkeys(ERRORS, 0)
    for number in range(60):
        parts = (sample(run, number, 60) for run in (one, other))
        found = estimate_difference(*parts, list(ERRORS), resamples=200, seed=number, threads=1)
        for name in ERRORS:
            difference = truth[1][name].value - truth[0][name].value
            held[name] += found[name].low <= difference <= found[name].high
    assert all(count >= 54 for count in held.values()), held
