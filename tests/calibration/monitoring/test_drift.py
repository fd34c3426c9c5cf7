"""The drift monitor: p-values by hand, both error rates, and that its state is all it needs."""

import json
from itertools import pairwise
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, kstest

from calibration.errors import CalibrationError
from calibration.monitoring.drift_monitor import AVERAGE_RUN_LENGTH, BLOCK, DriftMonitor
from calibration.monitoring.drift_test import DriftTest
from calibration.monitoring.grids import BINS, GRIDS, bin_of
from studies.statistics.drift_worlds import Questions, drift_of_all
from studies.statistics.monitoring_worlds import (
    FixedReference,
    Values,
    binary,
    drift_alarms,
    normal,
)

RUNS, DELTA = 300, 0.1
MOST = float(binom.ppf(1 - 1e-4, RUNS, DELTA)) / RUNS
"""A share of false alarms that a valid test exceeds in one of 10,000 simulations."""


def counted(bins: list[int]) -> DriftTest:
    return DriftTest(np.bincount(bins, minlength=BINS)[None].astype(float))


def test_a_p_value_is_the_rank_among_all_readings_so_far() -> None:
    test = counted([3, 5, 5, 9])
    assert test.add(np.array([5]), np.array([0.5]))[0] == pytest.approx((1 + 0.5 * 3) / 5)
    assert test.add(np.array([9]), np.array([0.25]))[0] == pytest.approx((4 + 0.25 * 2) / 6)
    assert test.add(np.array([0]), np.array([0.5]))[0] == pytest.approx(0.5 / 7)


def test_a_test_without_a_reading_stays_as_it_is() -> None:
    both = DriftTest(np.vstack([counted([3, 5]).state["counts"], counted([1, 9]).state["counts"]]))
    alone = counted([1, 9])
    for place in (3, 9, 1):
        both.add(np.array([0, place]), np.array([0.5, 0.5]), np.array([False, True]))
        alone.add(np.array([place]), np.array([0.5]))
    untouched = counted([3, 5]).state
    for name, value_M in both.state.items():
        assert np.array_equal(value_M[0], untouched[name][0])
        assert np.array_equal(value_M[1], alone.state[name][0])


def test_p_values_are_uniform_and_independent_among_few_and_tied_readings() -> None:
    rng = np.random.default_rng(0)
    counts_MK = np.stack(
        [np.bincount(row, minlength=BINS) for row in rng.integers(0, 3, (4000, 5))]
    )
    test = DriftTest(counts_MK.astype(float))
    first_M, second_M = (test.add(rng.integers(0, 3, 4000), rng.random(4000)) for _ in range(2))
    assert kstest(first_M, "uniform").pvalue > 1e-4
    assert kstest(second_M, "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(first_M, second_M)[0, 1]) < 0.06
    cells = np.histogram2d(first_M, second_M, bins=3)[0]
    assert np.abs(cells - 4000 / 9).max() < 5 * np.sqrt(4000 / 9)


@settings(max_examples=10)
@given(st.lists(st.floats(0.001, 0.999), max_size=30))
def test_no_wealth_is_expected_from_a_uniform_p_value(history: list[float]) -> None:
    def wealth_after(p_value: float) -> float:
        test = counted([1])
        for earlier in (*history, p_value):
            test._bet(np.array([earlier]))
        return float(test.wealth_M[0])

    test = counted([1])
    for earlier in history:
        test._bet(np.array([earlier]))
    edges = sorted({i / 8 for i in range(9)} | {u for t in (0.05, 0.1, 0.2) for u in (t, 1 - t)})
    points, weights = np.polynomial.legendre.leggauss(12)
    mean = sum(
        weight / 2 * (high - low) * wealth_after((low + high) / 2 + point * (high - low) / 2)
        for low, high in pairwise(edges)
        for point, weight in zip(points, weights, strict=True)
    )
    assert mean == pytest.approx(float(test.wealth_M[0]), rel=5e-3)


@pytest.mark.parametrize(
    "values", [normal(), binary(0.1), binary(0.0)], ids=["normal", "a tenth", "all equal"]
)
@pytest.mark.parametrize("reference", [30, 300])
def test_false_alarms_stay_below_delta(values: Values, reference: int) -> None:
    alarm_M = drift_alarms(
        values, values, reference=reference, at=0, steps=600, delta=DELTA, size=RUNS
    )
    assert np.isfinite(alarm_M).mean() <= MOST


def test_ranks_among_the_calibration_alone_alarm_too_often() -> None:
    alarm_M = drift_alarms(
        normal(), normal(), reference=100, at=0, steps=600, delta=DELTA, size=RUNS,
        kind=FixedReference,
    )  # fmt: skip
    assert np.isfinite(alarm_M).mean() > MOST


@pytest.mark.parametrize("is_pooled", [False, True])
def test_four_statistics_of_the_same_questions_share_delta(is_pooled: bool) -> None:
    """They depend on each other. A reference of all rollouts, not one a problem, alarms falsely."""
    same = Questions()
    found = drift_of_all(
        same, same, problems=100, steps=600, delta=DELTA, size=RUNS, is_pooled=is_pooled
    )
    assert bool(np.isfinite(found.alarm_M).mean() > MOST) is is_pooled


def test_questions_that_take_longer_are_found_by_their_tokens_alone() -> None:
    longer = Questions(longer=1.5)
    found = drift_of_all(Questions(), longer, problems=600, steps=400, delta=DELTA, size=100)
    shares = {name: np.isfinite(alarm_M).mean() for name, alarm_M in found.by_statistic.items()}
    assert shares.pop("tokens") > 0.9
    assert max(shares.values()) < 0.15


@pytest.mark.parametrize("at", [0, 500])
def test_a_shift_of_half_a_standard_deviation_is_found(at: int) -> None:
    alarm_M = drift_alarms(
        normal(), normal(0.5), reference=600, at=at, steps=at + 300, delta=0.025, size=200
    )
    late_M = alarm_M[alarm_M > at] - at
    assert np.median(late_M) < 150
    assert np.isfinite(late_M).mean() > 0.95


readings = st.fixed_dictionaries(
    {},
    optional={
        "familiarity": st.floats(0, 1),
        "confidence": st.one_of(st.floats(0, 1), st.just(nan)),
        "tokens": st.integers(0, 40_000),
        "declined": st.integers(0, 1),
    },
)
REFERENCE = {
    "familiarity": np.linspace(0.01, 1, 50),
    "confidence": np.linspace(0.5, 0.99, 50),
    "tokens": np.arange(100, 5000, 100),
    "declined": np.arange(50) % 7 == 0,
}


@settings(max_examples=30)
@given(st.lists(readings, max_size=30), st.lists(readings, max_size=30))
def test_a_monitor_continues_exactly_from_its_state(
    earlier: list[dict[str, float]], later: list[dict[str, float]]
) -> None:
    whole, first = (DriftMonitor(REFERENCE, 0.1, b"key") for _ in range(2))
    for values in earlier + later:
        whole.add(values)
    for values in earlier:
        first.add(values)
    stored = json.loads(json.dumps(first.state(), allow_nan=False))
    second = DriftMonitor.from_state(REFERENCE, 0.1, b"key", stored)
    assert second.state() == first.state()
    for values in later:
        second.add(values)
    assert second.state() == whole.state()
    assert (second.alarmed, second.bands()) == (whole.alarmed, whole.bands())


def test_the_statistic_that_moved_is_named() -> None:
    rng = np.random.default_rng(1)
    reference = {"confidence": rng.uniform(0.6, 1, 400), "tokens": rng.normal(1000, 200, 400)}
    monitor = DriftMonitor(reference, 0.05, 3)
    for _ in range(200):
        monitor.add({"confidence": rng.uniform(0.6, 1), "tokens": rng.normal(1300, 200)})
    assert monitor.alarmed == ("tokens",)
    assert monitor.log_wealth["tokens"] > np.log(2 / 0.05) > monitor.log_wealth["confidence"]


def test_bands_show_the_last_full_block() -> None:
    monitor = DriftMonitor({"declined": np.array([0, 0, 0, 1])}, 0.1, 1)
    assert monitor.bands() == ()
    for _ in range(10):
        monitor.add({"declined": 1})
    (filling,) = monitor.bands()
    assert (filling.readings, filling.mean, filling.reference_mean) == (10, 1, 0.25)
    for _ in range(BLOCK):
        monitor.add({"declined": 0})
    (full,) = monitor.bands()
    assert full.readings == BLOCK
    assert full.mean == pytest.approx(10 / BLOCK)
    assert full.high - 0.5 == pytest.approx(3 / np.sqrt(12 * BLOCK))


def test_the_average_run_length_is_as_stated() -> None:
    ranks = np.random.default_rng(0).random((40_000, BLOCK)).mean(1)
    outside = int((np.abs(ranks - 0.5) > 3 / np.sqrt(12 * BLOCK)).sum())
    expected = 40_000 * BLOCK / AVERAGE_RUN_LENGTH
    assert abs(outside - expected) < 4 * np.sqrt(expected)


def test_grids_are_monotone_and_take_every_value() -> None:
    for name in GRIDS:
        bins = [bin_of(name, value) for value in (0, 0.001, 0.3, 0.5, 0.99, 1, 7, 900, 1e12)]
        assert bins == sorted(bins)
        assert 0 <= bins[0] <= bins[-1] < BINS
    assert bin_of("confidence", 0.9) < bin_of("confidence", 0.91)
    assert bin_of("tokens", 1000) < bin_of("tokens", 1060)


def test_what_does_not_fit_is_refused_or_passed_over() -> None:
    with pytest.raises(CalibrationError, match="statistic 'mood' is unknown"):
        DriftMonitor({"mood": np.ones(3)}, 0.1, 1)
    with pytest.raises(CalibrationError, match="delta = 0"):
        DriftMonitor({}, 0, 1)
    monitor = DriftMonitor({"tokens": np.array([]), "declined": np.array([0, nan])}, 0.1, 1)
    monitor.add({"tokens": 3, "declined": nan, "confidence": inf})
    assert monitor.bands() == ()
    with pytest.raises(CalibrationError, match="start a new monitor"):
        DriftMonitor.from_state({}, 0.1, 1, monitor.state())
