"""Rewards, by hand and by property."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.rl.rewards.whole_reward import whole_reward
from training.errors import TrainingRefused
from training.rl.rewards.methods import METHODS, method_named
from training.rl.rewards.rewards import (
    GradedRollout,
    answer,
    correctness,
    final_brier,
    final_margin,
    formatted,
    margin,
    process_brier,
    stated_brier,
    stated_brier_or_half,
    strict_margin,
)

SHARES = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
CONFIDENCES = st.floats(0, 1)
BUDGETS = st.lists(st.tuples(SHARES, CONFIDENCES), max_size=20)


def rollout(
    *budgets: tuple[float, float], right: bool = True, final: float | None = None
) -> GradedRollout:
    targets, confidences = zip(*budgets, strict=True) if budgets else ((), ())
    return GradedRollout(right, target_B=targets, confidence_B=confidences, final_confidence=final)


def test_an_answer_is_worth_1_or_minus_1() -> None:
    assert (answer(GradedRollout(True)), answer(GradedRollout(False))) == (1.0, -1.0)
    assert (correctness(GradedRollout(True)), correctness(GradedRollout(False))) == (1.0, 0.0)


def test_the_margin_is_the_gap_between_the_means_of_both_sides() -> None:
    mixed = rollout((1.0, 0.9), (0.0, 0.2), (0.75, 0.7), (0.25, 0.4), (0.0, 0.3))
    assert margin(mixed) == pytest.approx((0.9 + 0.7) / 2 - (0.2 + 0.4 + 0.3) / 3)


def test_half_right_is_promising() -> None:
    assert margin(rollout((0.5, 0.8), (0.25, 0.3))) == pytest.approx(0.5)


def test_an_empty_side_is_0() -> None:
    assert margin(rollout((1.0, 0.9), (0.5, 0.7))) == pytest.approx(0.8)
    assert margin(rollout((0.0, 0.9), (0.25, 0.7))) == pytest.approx(-0.8)
    assert margin(rollout()) == 0


@given(BUDGETS)
def test_a_margin_is_between_minus_1_and_1(budgets: list[tuple[float, float]]) -> None:
    assert -1 <= margin(rollout(*budgets)) <= 1


@given(BUDGETS, st.randoms(use_true_random=False))
def test_a_margin_knows_no_order(budgets: list[tuple[float, float]], draw: object) -> None:
    shuffled = list(budgets)
    draw.shuffle(shuffled)  # type: ignore[attr-defined]  # a random.Random
    assert margin(rollout(*shuffled)) == pytest.approx(margin(rollout(*budgets)))


@given(BUDGETS, st.floats(-0.3, 0.3))
def test_a_shift_of_all_confidences_leaves_the_margin_where_both_sides_are(
    budgets: list[tuple[float, float]], shift: float
) -> None:
    both = [(1.0, 0.5), (0.0, 0.5), *budgets]
    shifted = [(share, confidence + shift) for share, confidence in both]
    assert margin(rollout(*shifted)) == pytest.approx(margin(rollout(*both)))


def test_the_strict_margin_leaves_partly_right_budgets_out() -> None:
    mixed = rollout((1.0, 0.9), (0.0, 0.2), (0.75, 0.1), (0.25, 0.99), (0.0, 0.4), (1.0, 0.7))
    assert strict_margin(mixed) == pytest.approx((0.9 + 0.7) / 2 - (0.2 + 0.4) / 2)
    assert margin(mixed) != pytest.approx(strict_margin(mixed))


@pytest.mark.parametrize(
    "budgets",
    [(), ((1.0, 0.9), (1.0, 0.3)), ((0.0, 0.9), (0.25, 0.1)), ((0.5, 0.9), (0.75, 0.1))],
)
def test_the_strict_margin_of_one_kind_alone_is_0(
    budgets: tuple[tuple[float, float], ...],
) -> None:
    assert strict_margin(rollout(*budgets)) == 0


@given(BUDGETS)
def test_where_no_budget_is_partly_right_both_margins_agree_if_both_sides_are_there(
    budgets: list[tuple[float, float]],
) -> None:
    clear = [(float(share >= 0.5), confidence) for share, confidence in budgets]
    both = rollout((1.0, 0.6), (0.0, 0.4), *clear)
    assert strict_margin(both) == pytest.approx(margin(both))


def test_process_brier_is_the_mean_squared_gap() -> None:
    assert process_brier(rollout((1.0, 0.9), (0.25, 0.75))) == pytest.approx(-(0.01 + 0.25) / 2)
    assert process_brier(rollout()) == 0


@given(BUDGETS)
def test_process_brier_is_best_where_confidence_is_the_share(
    budgets: list[tuple[float, float]],
) -> None:
    exact = rollout(*((share, share) for share, _ in budgets))
    assert process_brier(exact) == 0 >= process_brier(rollout(*budgets))


def test_final_rewards_read_the_end_and_the_whole_trajectorys_answer() -> None:
    # The budgets say the opposite, and do not count.
    right = rollout((0.0, 0.1), final=0.8)
    wrong = rollout((1.0, 0.9), right=False, final=0.3)
    assert final_brier(right) == pytest.approx(-0.04)
    assert final_brier(wrong) == pytest.approx(-0.09)
    assert final_margin(right) == pytest.approx(0.8)
    assert final_margin(wrong) == 0


def test_final_rewards_without_a_probe_are_an_error() -> None:
    with pytest.raises(ValueError, match="no probe has read"):
        final_brier(GradedRollout(True))


@pytest.mark.parametrize(
    ("right", "stated", "expected"),
    [(True, 0.9, 0.99), (True, 0.0, 0.0), (False, 0.2, 0.96), (False, 1.0, 0.0)],
)
def test_a_stated_confidence_is_scored(right: bool, stated: float, expected: float) -> None:
    assert stated_brier(GradedRollout(right, True, stated)) == pytest.approx(expected)


def test_what_is_not_stated_in_format_earns_nothing() -> None:
    assert (
        stated_brier(GradedRollout(True, False, 0.9))
        == stated_brier(GradedRollout(True, True, None))
        == 0
    )
    assert (
        formatted(GradedRollout(True, False, 0.9))
        == formatted(GradedRollout(True, True, None))
        == 0
    )
    assert formatted(GradedRollout(False, True, 0.1)) == 1


@pytest.mark.parametrize(
    ("right", "stated", "expected"),
    [(True, 0.9, -0.01), (False, 0.2, -0.04), (True, None, -0.25), (False, None, -0.25)],
)
def test_the_authors_read_a_missing_confidence_as_one_half(
    right: bool, stated: float | None, expected: float
) -> None:
    """Format does not count."""
    assert stated_brier_or_half(GradedRollout(right, False, stated)) == pytest.approx(expected)


@given(st.floats(0, 1), st.floats(0, 1))
def test_stating_what_is_true_pays_most_on_average(truth: float, stated: float) -> None:
    def expected(confidence: float) -> float:
        right, wrong = (stated_brier(GradedRollout(won, True, confidence)) for won in (True, False))
        return truth * right + (1 - truth) * wrong

    assert expected(truth) >= expected(stated) - 1e-12


FULL = GradedRollout(True, True, 0.7, (1.0, 0.0), (0.9, 0.2), 0.8)


@pytest.mark.parametrize(
    ("name", "strength", "expected"),
    [
        ("grpo", 0.0, 1.0),
        ("rlcm", 0.1, 1 + 0.1 * 0.7),
        ("rlcm", 0.5, 1 + 0.5 * 0.7),
        ("rlcm-authors", 0.1, 1 + 0.1 * 0.7),
        ("rlcr-authors", 1.0, 1 - 0.09),
        ("final-brier", 0.1, 1 - 0.1 * 0.04),
        ("final-margin", 0.1, 1 + 0.1 * 0.8),
        ("process-brier", 0.1, 1 - 0.1 * (0.01 + 0.04) / 2),
        ("rlcr", 1.0, 1 + 1 + (1 - 0.09)),
        ("rlcr", 0.2, 1 + 1 + 0.2 * (1 - 0.09)),
        ("c2gspg", 0.01, 1.0),
    ],
)
def test_each_methods_whole_reward(name: str, strength: float, expected: float) -> None:
    assert whole_reward(METHODS[name], FULL, strength) == pytest.approx(expected)


def test_with_lambda_0_nothing_reads_the_probe() -> None:
    for method in METHODS.values():
        assert not method.needs_probe(0)
        assert method.needs_probe(0.1) == method.reads_probe
    assert {m.name for m in METHODS.values() if m.reads_probe} == {
        *("rlcm", "rlcm-authors", "final-brier", "final-margin", "process-brier"),
        *("rlcm-ranking", "rlcm-between", "rlcm-variance", "rlcm-rising"),
    }


@given(BUDGETS, st.booleans(), st.floats(0, 1))
def test_with_lambda_0_the_probed_methods_are_grpo(
    budgets: list[tuple[float, float]], right: bool, final: float
) -> None:
    one = rollout(*budgets, right=right, final=final)
    for method in METHODS.values():
        if method.reads_probe:
            reward = whole_reward(method, one, 0)
            # Rewards of {0, 1} and of {-1, 1} have the same advantages.
            plain = 2 * reward - 1 if method.name == "rlcm-authors" else reward
            assert plain == whole_reward(METHODS["grpo"], one, 0)


def test_an_unknown_method_is_refused_with_those_there_are() -> None:
    with pytest.raises(TrainingRefused, match="'rlhf' is not a method: choose one of grpo, rlcm"):
        method_named("rlhf")


def test_one_method_alone_has_no_use_for_a_strength() -> None:
    assert [name for name, method in METHODS.items() if not method.uses_strength] == ["grpo"]
