"""The risk monitor: how fast it finds, how seldom it errs, and that its state is all it needs."""

import json
from math import nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration.errors import CalibrationError
from calibration.monitoring.risk_monitor import RiskMonitor, RiskMonitors
from calibration.monitoring.risk_test import risk_at
from studies.statistics.monitoring_worlds import changing, run, steady

answers = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.5, 1.0]),
        st.one_of(st.just(nan), st.floats(0, 1)),
        st.sampled_from([0.05, 0.3, 1.0]),
        st.booleans(),
        st.booleans(),
    ),
    max_size=60,
)
Answer = tuple[float, float, float, bool, bool]


def feed(monitor: RiskMonitor, given_answers: list[Answer]) -> None:
    for loss, confidence, share, audited, expired in given_answers:
        monitor.add(loss, confidence, share, audited=audited, expired=expired)


@given(answers, answers)
def test_a_monitor_continues_exactly_from_its_state(
    earlier: list[Answer], later: list[Answer]
) -> None:
    whole, first = RiskMonitor(0.1, 0.05), RiskMonitor(0.1, 0.05)
    feed(whole, earlier + later)
    feed(first, earlier)
    stored = json.loads(json.dumps(first.state(), allow_nan=False))
    second = RiskMonitor.from_state(0.1, 0.05, stored)
    assert second.state() == first.state()
    feed(second, later)
    assert second.state() == whole.state()
    assert (second.labels, second.answers) == (whole.labels, whole.answers)
    assert (second.interval(), second.log_wealth) == (whole.interval(), whole.log_wealth)


def test_a_state_from_before_the_first_answer_counted_keeps_its_estimate() -> None:
    monitor = RiskMonitor(0.1, 0.1)
    for loss in (1.0, 0.0, 0.0, 1.0):
        monitor.add(loss, 0.9, 1.0, audited=True)
    stored = monitor.state()
    for side in ("low", "high"):
        del stored["sequence"][f"first_{side}"]
    again = RiskMonitor.from_state(0.1, 0.1, stored)
    assert again.risk() == pytest.approx(1 / 3), "the mean of the last three"
    assert again.interval() == monitor.interval()
    again.add(1.0, 0.9, 1.0, audited=True)
    assert again.risk() == pytest.approx((1 / 3 + 0 + 0 + 1 + 1) / 5)


def test_labels_that_nobody_drew_count_nothing() -> None:
    told, untold = RiskMonitor(0.1, 0.1), RiskMonitor(0.1, 0.1)
    for number in range(100):
        told.add(1.0, 0.9, 0.2, audited=number % 5 == 0, expired=number % 5 == 0)
        untold.add(None, 0.9, 0.2, audited=number % 5 == 0, expired=number % 5 == 0)
    assert told.state() == untold.state()
    assert (told.labels, told.answers, told.risk()) == (0, 100, None)


def test_an_alarm_stays() -> None:
    monitor = RiskMonitor(0.1, 0.1)
    while not monitor.alarmed:
        monitor.add(1.0, 0.9, 1, audited=True)
    assert monitor.log_wealth >= np.log(10)
    for _ in range(10):
        monitor.add(0.0, 0.9, 1, audited=True)
    assert monitor.log_wealth < np.log(10)
    assert monitor.alarmed


@pytest.mark.parametrize(
    ("risk", "most"), [(0.2, 60), (0.15, 250)], ids=["twice alpha", "half more than alpha"]
)
@pytest.mark.parametrize("share", [1.0, 0.2])
def test_a_raised_risk_is_found_with_few_labels(risk: float, most: int, share: float) -> None:
    _, alarm_M = run(steady(risk, share=share), round(most * 1.5 / share), size=600)
    assert np.median(alarm_M) * share <= most


def test_a_risk_that_rises_late_is_found_with_few_labels() -> None:
    world = changing(500, steady(0.07), steady(0.2))
    _, alarm_M = run(world, 800, size=600)
    late_M = alarm_M[alarm_M > 500] - 500
    assert len(late_M) > 0.97 * len(alarm_M)
    assert np.median(late_M) <= 200


@pytest.mark.parametrize("delta", [0.01, 0.2])
@pytest.mark.parametrize("alpha", [0.02, 0.3])
def test_other_levels_are_as_near_to_the_fewest_labels_possible(alpha: float, delta: float) -> None:
    """A test that knows the raised risk p needs log(1 / delta) / KL(p, alpha) labels on average."""
    risk = risk_at(2.25, alpha)
    divergence = risk * np.log(risk / alpha) + (1 - risk) * np.log((1 - risk) / (1 - alpha))
    fewest = np.log(1 / delta) / divergence
    _, alarm_M = run(steady(risk), round(2 * fewest), alpha=alpha, delta=delta, size=300)
    assert np.median(alarm_M) <= 1.3 * fewest


def test_a_confidence_that_ranks_saves_labels() -> None:
    medians = []
    for skill in (0.0, 3.0):
        _, alarm_M = run(steady(0.15, share=0.1, skill=skill), 2500, size=400)
        medians.append(np.median(alarm_M) * 0.1)
    assert medians[1] < 0.9 * medians[0]


@pytest.mark.parametrize(
    ("loss", "confidence", "share", "message"),
    [
        (None, 0.5, 0.5, "has the loss None"),
        (1.5, 0.5, 0.5, "has the loss 1.5"),
        (1.0, 2.0, 0.5, "confidence 2.0"),
        (1.0, 0.5, 0.0, "audit_share = 0.0"),
    ],
)
def test_a_value_out_of_range_is_refused(
    loss: float | None, confidence: float, share: float, message: str
) -> None:
    with pytest.raises(CalibrationError, match=message):
        RiskMonitor(0.1, 0.1).add(loss, confidence, share, audited=True)


def test_arguments_and_states_that_do_not_fit_are_refused() -> None:
    with pytest.raises(CalibrationError, match="delta = 1"):
        RiskMonitor(0.1, 1)
    with pytest.raises(CalibrationError, match="version 7"):
        RiskMonitor.from_state(0.1, 0.1, {"version": 7})


def test_the_risk_shown_is_too_high_on_average_while_labels_are_few() -> None:
    """As `RiskMonitor.risk` says: .06 in place of .05, over 4,000 services."""
    rng, services, share = np.random.default_rng(0), 4000, 0.05
    monitors = RiskMonitors(0.1, 0.1, services)
    for _ in range(100):
        loss_M = (rng.random(services) < 0.05).astype(float)
        monitors.add(
            loss_M,
            np.full(services, np.nan),
            np.full(services, share),
            rng.random(services) < share,
            np.zeros(services, dtype=np.bool_),
        )
    shown_M = monitors.sequence.estimate()[monitors.labels_M > 0]
    assert 0.056 < shown_M.mean() < 0.065
