"""The confidence sequence of the running mean risk: in expectation, and what it says."""

from copy import deepcopy
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration.monitoring import risk_interval
from calibration.monitoring.risk_interval import RiskInterval, _log_sum
from calibration.monitoring.risk_monitor import RiskMonitor

probabilities = st.floats(0.01, 0.99)
shares = st.sampled_from([0.05, 0.3, 1.0])
Step = tuple[int, float, float, bool]
steps = st.lists(st.tuples(st.integers(0, 1), probabilities, shares, st.booleans()), max_size=20)


def give(interval: RiskInterval, loss: int, guess: float, share: float, audited: bool) -> float:
    """Adds an answer, and returns its X."""
    arrays = (np.array([float(value)]) for value in (loss, guess, share))
    interval.add(*arrays, np.array([audited]), np.array([False]))
    return guess + (loss - guess) / share * audited


def mixtures(interval: RiskInterval, deviation: float) -> list[float]:
    """The mixtures of both sides at this sum of X - mu."""
    found = []
    for sign, name in ((1, "low_squares"), (-1, "high_squares")):
        terms = interval._terms(interval.state[name])
        log_M, _ = _log_sum(*terms, np.array([sign * deviation]))
        found.append(float(np.exp(log_M[0])))
    return found


def test_the_weights_of_the_mixture_sum_to_one() -> None:
    assert np.exp(risk_interval._LOG_WEIGHTS).sum() == pytest.approx(1)


@given(
    steps,
    st.floats(-3, 3),
    probabilities,
    st.tuples(probabilities, probabilities),
    st.tuples(probabilities, probabilities),
    st.tuples(shares, shares),
)
def test_no_side_is_expected_to_grow(
    history: list[Step],
    deviation: float,
    split: float,
    guesses: tuple[float, float],
    risks: tuple[float, float],
    drawn: tuple[float, float],
) -> None:
    """Whatever came before, and whichever of two kinds of answer is audited more."""
    before = RiskInterval(0.1, 0.1, 1)
    for step in [(0, 0.5, 0.3, False), *history]:
        give(before, *step)
    mean = split * risks[0] + (1 - split) * risks[1]
    growths = np.zeros(2)
    for kind, loss, audited in product((0, 1), (0, 1), (False, True)):
        after = deepcopy(before)
        x = give(after, loss, guesses[kind], drawn[kind], audited)
        chance = split if kind == 0 else 1 - split
        chance *= risks[kind] if loss else 1 - risks[kind]
        chance *= drawn[kind] if audited else 1 - drawn[kind]
        growths += chance * np.array(mixtures(after, deviation + x - mean))
    assert (growths <= np.array(mixtures(before, deviation)) * (1 + 1e-9)).all()


def test_missing_labels_span_all_losses() -> None:
    came, missing = RiskMonitor(0.1, 0.1), RiskMonitor(0.1, 0.1)
    for number in range(1000):
        came.add(0.0, 0.9, 1, audited=True)
        missing.add(0.0, 0.9, 1, audited=True, expired=number % 2 == 0)
    assert came.interval()[1] < 0.03
    assert missing.interval()[0] == 0
    assert 0.5 < missing.interval()[1] < 0.58


def test_the_interval_is_as_wide_as_the_normal_one_within_a_factor() -> None:
    monitor = RiskMonitor(0.1, 0.1)
    for number in range(2000):
        monitor.add(float(number % 10 == 0), 0.9, 1, audited=True)
    low, high = monitor.interval()
    fixed_time = 2 * 1.645 * np.sqrt(0.09 / 2000)
    assert low < 0.1 < high
    assert fixed_time < high - low < 2.2 * fixed_time
    assert monitor.risk() == pytest.approx(0.1, abs=0.001)


def test_before_any_answer_every_risk_is_possible() -> None:
    monitor = RiskMonitor(0.1, 0.1)
    assert (monitor.interval(), monitor.risk()) == ((0.0, 1.0), None)


@given(st.lists(st.floats(-60, 0).map(lambda power: 10.0**power), min_size=1, max_size=8))
def test_there_is_an_interval_however_far_the_audit_share_falls(audit_shares: list[float]) -> None:
    monitor = RiskMonitor(0.1, 0.1)
    for number, share in enumerate(audit_shares):
        monitor.add(float(number % 2), 0.9, share, audited=True)
        low, high = monitor.interval()
        risk = monitor.risk()
        assert risk is not None
        assert 0 <= low <= risk <= high <= 1


def test_below_the_grid_of_the_first_share_every_risk_is_possible() -> None:
    monitor = RiskMonitor(0.1, 0.1)
    for _ in range(2000):
        monitor.add(0.0, 0.9, 1.0, audited=True)
    assert monitor.interval()[1] < 0.03
    monitor.add(0.0, 0.9, 2e-5, audited=True)
    assert monitor.interval() == (0.0, 1.0)


def test_the_first_answer_counts_in_the_estimate() -> None:
    monitor = RiskMonitor(0.1, 0.1)
    monitor.add(1.0, 0.9, 1.0, audited=True)
    assert monitor.risk() == 1.0
    monitor.add(0.0, 0.9, 1.0, audited=True)
    assert monitor.risk() == 0.5
    missing = RiskMonitor(0.1, 0.1)
    missing.add(None, 0.9, 1.0, audited=True, expired=True)
    missing.add(0.0, 0.9, 1.0, audited=True)
    assert missing.risk() == 0.25, "the missing label counts as half a loss"


def test_the_estimate_is_unbiased_from_the_first_answer_on() -> None:
    """Over both losses and both draws of two answers, with their probabilities."""
    risk, share, mean = 0.3, 0.6, 0.0
    for losses in product((0, 1), repeat=2):
        for drawn in product((False, True), repeat=2):
            interval, x, chance = RiskInterval(0.1, 0.1, 1), 0.0, 1.0
            for loss, audited in zip(losses, drawn, strict=True):
                x += give(interval, loss, 0.2, share, audited)
                chance *= (risk if loss else 1 - risk) * (share if audited else 1 - share)
            assert interval.estimate()[0] == pytest.approx(np.clip(x / 2, 0, 1))
            mean += chance * x / 2
    assert mean == pytest.approx(risk)
