"""The confidence sequence of the running mean risk: in expectation, and what it says."""

from copy import deepcopy
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
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


@settings(deadline=None)
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
