from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

from calibration.testing.rescale import Scale
from tests.calibration.recordings import (
    all_correct,
    constant_confidence,
    copies,
    distorted,
)


@pytest.mark.parametrize(("slope", "offset"), [(0.5, -1.0), (2.0, 0.5), (0.3, 1.5)])
def test_a_known_distortion_is_recovered(world, slope: float, offset: float) -> None:
    traces = distorted(world.draw(np.random.default_rng(1), 3000), slope, offset)
    scale = Scale.fit(traces)
    assert scale.slope == pytest.approx(slope, rel=0.1)
    assert scale.offset == pytest.approx(offset, abs=0.1)
    # A threshold of 0.8 becomes the recorded confidence at which 4 of 5 are right.
    shown = float(expit((logit(0.8) - offset) / slope))
    assert scale.threshold(0.8) == pytest.approx(shown, abs=0.03)


@pytest.mark.parametrize("n", [15, 40, 100])
def test_a_calibrated_confidence_keeps_its_scale(world, n: int) -> None:
    rng = np.random.default_rng(2)
    kept = np.mean([Scale.fit(world.draw(rng, n)).is_recorded for _ in range(60)])
    assert kept >= 0.75
    assert Scale.fit(world.draw(rng, n)).threshold(0.9) == pytest.approx(0.9, abs=0.15)


def test_few_problems_change_little(world) -> None:
    """Slope and offset are shrunk towards 1 and 0."""
    traces = distorted(world.draw(np.random.default_rng(3), 3000), 0.5, -1.0)
    few = [Scale.fit(traces.select(np.arange(3000) // 8 == block)) for block in range(60)]
    assert 0.5 < np.mean([scale.slope for scale in few]) < 1
    assert -1 < np.mean([scale.offset for scale in few]) < 0


def test_a_problem_counts_once_however_often_it_was_recorded(world) -> None:
    traces = distorted(world.draw(np.random.default_rng(4), 50), 0.5, -1.0)
    once, often = Scale.fit(traces), Scale.fit(copies(traces, 40))
    assert not once.is_recorded
    assert (often.slope, often.offset) == pytest.approx((once.slope, once.offset), abs=1e-3)


def test_a_confidence_that_runs_the_wrong_way_keeps_its_scale(world) -> None:
    traces = world.draw(np.random.default_rng(5), 1000)
    wrong_way = replace(traces, confidence_RC=1 - traces.confidence_RC)
    assert Scale.fit(wrong_way) == Scale()


def test_what_cannot_be_fitted_is_fitted_nonetheless(world) -> None:
    traces = world.draw(np.random.default_rng(6), 200)
    for odd in (
        all_correct(traces),
        all_correct(traces, False),
        constant_confidence(traces, 0.0),
        constant_confidence(traces, 1.0),
        traces.select(np.arange(200) < 1),
    ):
        scale = Scale.fit(odd)
        assert scale.slope > 0
        assert np.isfinite(scale.offset)
        assert 0 <= scale.threshold(0.9) <= 1


def test_the_recorded_scale_changes_nothing() -> None:
    assert Scale().is_recorded
    assert Scale().threshold(0.123456789012) == 0.123456789012


@given(st.floats(0.05, 20), st.floats(-20, 20), st.floats(0.001, 0.999), st.floats(0.001, 0.999))
def test_thresholds_keep_their_order(
    slope: float, offset: float, first: float, second: float
) -> None:
    scale = Scale(slope, offset)
    low, high = sorted([first, second])
    assert 0 <= scale.threshold(low) <= scale.threshold(high) <= 1


@pytest.mark.parametrize("outside", [-1.0, 0.0, 1.0, 1.01])
def test_thresholds_that_always_or_never_fire_stay(outside: float) -> None:
    assert Scale(0.5, -1.0).threshold(outside) == outside


def test_names_and_order_of_the_problems_have_no_say(world) -> None:
    """Thresholds come from the sixth digit, too, and a certificate is recognised by them."""
    for seed in range(40):
        traces = distorted(world.draw(np.random.default_rng(seed), 300), 0.5, -1.0)
        other = np.random.default_rng(seed).permutation(traces.n_rollouts)
        columns = ("final_R", "tokens_RC", "confidence_RC", "correct_RC")
        moved = replace(traces, **{name: getattr(traces, name)[other] for name in columns})
        assert Scale.fit(moved) == Scale.fit(traces)
