"""Rewards that compare the rollouts of one problem, by hand and by property."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration.metrics.ranking import auroc
from training.rl.rewards.group_rewards import margin_between, margin_by_variance, ranking
from training.rl.rewards.methods import METHODS
from training.rl.rewards.rewards import GradedRollout, margin

SHARES = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
ROLLOUTS = st.builds(
    lambda right, budgets, final: GradedRollout(
        right,
        target_B=tuple(share for share, _ in budgets),
        confidence_B=tuple(confidence for _, confidence in budgets),
        final_confidence=final,
    ),
    st.booleans(),
    st.lists(st.tuples(SHARES, st.floats(0, 1)), max_size=5),
    st.floats(0, 1),
)
GROUPS = st.lists(ROLLOUTS, min_size=1, max_size=6)


def ended(right: bool, confidence: float) -> GradedRollout:
    return GradedRollout(right, final_confidence=confidence)


def cut(right: bool, *budgets: tuple[float, float]) -> GradedRollout:
    targets, confidences = zip(*budgets, strict=True) if budgets else ((), ())
    return GradedRollout(right, target_B=targets, confidence_B=confidences)


def test_a_rollout_is_worth_the_share_of_the_others_that_it_is_ranked_properly_against() -> None:
    group = [ended(True, 0.9), ended(True, 0.4), ended(False, 0.5), ended(False, 0.4)]
    # 0.9 beats both; 0.4 loses to 0.5 and ties with 0.4; below 0.5 lies one of two, above 0.4 one
    # and a half.
    assert ranking(group) == [1.0, 0.25, 0.5, 0.75]


def test_without_another_outcome_there_is_nothing_to_rank() -> None:
    assert ranking([ended(True, 0.9), ended(True, 0.1)]) == [0, 0]
    assert ranking([ended(False, 0.9)]) == [0]


@given(GROUPS)
def test_the_mean_over_the_right_ones_is_the_auroc_within_the_question(
    group: list[GradedRollout],
) -> None:
    right = np.array([own.is_right for own in group])
    values = np.array(ranking(group))
    if right.all() or not right.any():
        assert not values.any()
        return
    expected = auroc(np.array([own.final_confidence for own in group], dtype=float), right)
    assert values[right].mean() == pytest.approx(expected)
    assert values[~right].mean() == pytest.approx(expected)


def test_the_margin_between_has_the_group_on_the_other_side() -> None:
    group = [
        cut(True, (1.0, 0.9), (0.75, 0.7)),  # B+ alone: 0.8 - 0.3
        cut(False, (0.0, 0.2)),  # B- alone: 0.7 - 0.2
        cut(True, (0.5, 0.5), (0.25, 0.4)),  # both: (0.5 - 0.3 + 0.7 - 0.4) / 2
        cut(False),
    ]
    assert margin_between(group) == pytest.approx([0.5, 0.5, 0.25, 0.0])
    assert margin_between([group[0], group[3]]) == [0.0, 0.0]


@given(GROUPS)
def test_a_margin_between_is_the_plain_margin_if_both_sides_are_in_one_rollout(
    group: list[GradedRollout],
) -> None:
    assert all(-1 <= value <= 1 for value in margin_between(group))
    one = cut(True, (1.0, 0.8), (0.0, 0.3), (0.0, 0.1))
    assert margin_between([one]) == pytest.approx([margin(one)])


def test_a_margin_by_variance_counts_fully_where_half_is_right_and_not_at_all_where_all_are() -> (
    None
):
    right, wrong = cut(True, (1.0, 0.9), (0.0, 0.2)), cut(False, (1.0, 0.6), (0.0, 0.5))
    assert margin_by_variance([right, wrong]) == pytest.approx([0.7, 0.1])
    assert margin_by_variance([right, right]) == [0, 0]
    assert margin_by_variance([right, wrong, wrong, wrong]) == pytest.approx([0.525] + [0.075] * 3)


@given(GROUPS, st.randoms(use_true_random=False))
def test_values_follow_their_rollouts_in_any_order(
    group: list[GradedRollout], draw: object
) -> None:
    order = list(range(len(group)))
    draw.shuffle(order)  # type: ignore[attr-defined]  # a random.Random
    for of in (ranking, margin_between, margin_by_variance):
        values, shuffled = of(group), of([group[at] for at in order])
        assert shuffled == pytest.approx([values[at] for at in order])


def test_a_rising_lambda_has_the_method_s_own_as_its_mean() -> None:
    rising, plain = METHODS["rlcm-rising"], METHODS["rlcm"]
    weights = [rising.weights(0.1, step / 60) for step in range(61)]
    assert weights[0] == [1, 0]
    assert weights[-1] == pytest.approx([1, 0.2])
    assert np.mean(weights, axis=0) == pytest.approx([1, 0.1])
    assert [plain.weights(0.1, done) for done in (0.0, 0.5, 1.0)] == [[1, 0.1]] * 3
