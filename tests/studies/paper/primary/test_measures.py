"""What is measured of a run, by hand and against plain resampling."""

from __future__ import annotations

import numpy as np
import pytest

from calibration.metrics.ranking import auroc
from studies.paper.primary.inference import resamples
from studies.paper.primary.measures import (
    mean_over,
    mixed,
    mixed_in_all,
    resolution,
    within_question,
)

ONE = np.ones((1, 3))
RIGHT = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1]], dtype=float)
CONFIDENCE = np.array([[0.9, 0.6, 0.7, 0.1], [0.2, 0.2, 0.2, 0.2], [0.9, 0.8, 0.7, 0.6]])


def test_a_mean_counts_each_problem_as_often_as_the_resample_holds_it() -> None:
    weights = np.array([[1.0, 1, 1], [3, 0, 0], [0, 2, 1]])
    assert mean_over(RIGHT.mean(1), weights) == pytest.approx([2 / 3, 1 / 2, 2 / 3])


def test_within_a_question_is_the_mean_auroc_of_the_common_problems() -> None:
    assert mixed(RIGHT).tolist() == [True, True, False]
    found = within_question(CONFIDENCE, RIGHT, mixed(RIGHT), np.vstack([ONE, [[2, 1, 5]]]))
    first = auroc(CONFIDENCE[0], RIGHT[0] > 0)
    assert first == 0.75
    assert found == pytest.approx([(first + 0.5) / 2, (2 * first + 0.5) / 3])


def test_problems_are_compared_within_only_where_all_runs_are_mixed() -> None:
    other = RIGHT.copy()
    other[1] = 0
    assert mixed_in_all([RIGHT, other]).tolist() == [True, False, False]
    found = within_question(CONFIDENCE, RIGHT, mixed_in_all([RIGHT, other]), ONE)
    assert found == pytest.approx([0.75])


def test_resolution_is_the_uncertainty_if_confidence_tells_all_and_0_if_nothing() -> None:
    right = np.array([[1.0] * 5 + [0.0] * 5] * 4)
    ones = np.ones((1, 4))
    assert resolution(right * 0.5 + 0.2, right, ones) == pytest.approx([0.25])
    alike = np.tile([1.0, 0.0], (10, 10))
    confidence = np.arange(200.0).reshape(10, 20)  # every bin holds one problem, half of it right
    assert resolution(confidence, alike, np.ones((1, 10))) == pytest.approx([0], abs=1e-12)


def test_resolution_knows_only_the_order_of_confidences() -> None:
    draw = np.random.default_rng(0)
    confidence = draw.random((50, 8))
    right = (draw.random((50, 8)) < confidence).astype(float)
    ones = np.ones((1, 50))
    plain = resolution(confidence, right, ones)
    assert resolution(confidence**3, right, ones) == pytest.approx(plain)
    assert plain[0] > 0.04


def test_equal_confidences_tell_nothing_whatever_the_order_of_the_problems() -> None:
    right = np.repeat([[1.0], [0.0]], 40, axis=0) * np.ones((80, 5))
    weights = np.vstack([np.ones((1, 80)), resamples(80, 3, seed=3)])
    assert resolution(np.full((80, 5), 0.25), right, weights) == pytest.approx(0, abs=1e-12)


def test_a_weight_is_as_many_copies_of_the_problem() -> None:
    draw = np.random.default_rng(1)
    confidence, right = draw.random((40, 10)), (draw.random((40, 10)) < 0.5).astype(float)
    weights = resamples(40, 3, seed=2)
    for weight_P, found in zip(weights, resolution(confidence, right, weights), strict=True):
        copies = np.repeat(np.arange(40), weight_P.astype(int))
        again = resolution(confidence[copies], right[copies], np.ones((1, 40)))[0]
        assert found == pytest.approx(again, abs=2e-3)  # copies on a bin's edge stay together
