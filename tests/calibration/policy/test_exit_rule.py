import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration import (
    FULL_BUDGET,
    INITIAL_STATE,
    CalibrationError,
    ExitPolicy,
    ExitReason,
    answers_at_end,
    step,
)
from calibration.policy.exit_search import find_exits

N = 16
HIGH, LOW = ExitReason.HIGH, ExitReason.LOW


def walk(
    policy: ExitPolicy, confidences: Sequence[float], tokens: Sequence[int] | None = None
) -> tuple[int, ExitReason | None, bool]:
    """Step by step: column of the exit, its reason (None at the end), and whether it answers."""
    state = INITIAL_STATE
    *checkpoints, end = confidences
    for column, confidence in enumerate(checkpoints):
        at = tokens[column] if tokens else (column + 1) * N
        state, reason = step(policy, state, at, confidence)
        if reason is not None:
            return column, reason, reason is HIGH or policy.answer_on_low
    return len(checkpoints), None, answers_at_end(policy, state, end)


@pytest.mark.parametrize(
    ("policy", "confidences", "expected"),
    [
        # A tie is an exit.
        (ExitPolicy(lambda_high=0.9), [0.5, 0.9, 0.1], (1, HIGH, True)),
        (ExitPolicy(lambda_low=0.1), [0.5, 0.1, 0.5], (1, LOW, False)),
        # Without patience, one low checkpoint is enough.
        (ExitPolicy(lambda_low=0.1), [0.05, 0.5], (0, LOW, False)),
        # A low exit with a forced answer.
        (ExitPolicy(lambda_low=0.1, answer_on_low=True), [0.05, 0.5], (0, LOW, True)),
        # Patience of two checkpoints: 16 and 32 tokens both low.
        (ExitPolicy(lambda_low=0.1, patience=32), [0.05, 0.05, 0.5], (1, LOW, False)),
        # A patience of 33 tokens has not passed at 32 tokens.
        (ExitPolicy(lambda_low=0.1, patience=33), [0.05, 0.05, 0.05, 0.5], (2, LOW, False)),
        # A checkpoint that is not low restarts the wait: low at 32 and 48, window (16, 48].
        (ExitPolicy(lambda_low=0.1, patience=32), [0.5, 0.05, 0.05, 0.5], (2, LOW, False)),
        (ExitPolicy(lambda_low=0.1, patience=32), [0.05, 0.5, 0.05, 0.5], (3, None, True)),
        # High comes in the middle of a low streak's wait.
        (ExitPolicy(0.1, 48, 0.9), [0.05, 0.05, 0.95, 0.05], (2, HIGH, True)),
        # The final reading causes no exit; only λa applies there.
        (ExitPolicy(0.1, 0, 0.9, lambda_answer=0.5), [0.4, 0.99], (1, None, True)),
        (ExitPolicy(0.1, 0, 0.9, lambda_answer=0.5), [0.4, 0.01], (1, None, False)),
        (ExitPolicy(lambda_answer=0.5), [0.5], (0, None, True)),
        (FULL_BUDGET, [0.0, 1.0, 0.0], (2, None, True)),
        # Smoothed by halves: 0.8, 0.85, 0.9 -> 0.8, 0.825, 0.8625; the end 0.5 -> 0.68125.
        (ExitPolicy(lambda_high=0.86, smoothing=0.5), [0.8, 0.85, 0.9, 0.5], (2, HIGH, True)),
        (ExitPolicy(lambda_answer=0.6, smoothing=0.5), [0.8, 0.85, 0.9, 0.5], (3, None, True)),
        (ExitPolicy(lambda_answer=0.7, smoothing=0.5), [0.8, 0.85, 0.9, 0.5], (3, None, False)),
        # λ1(t) = 0.1 + 0.4 σ(t - 32): about 0.1 at 16, 0.3 at 32, 0.5 at 48 tokens.
        (
            ExitPolicy(0.1, low_rise=0.4, low_slope=1.0, low_shift=32.0),
            [0.29, 0.31, 0.49, 0.5],
            (2, LOW, False),
        ),
        # 0.29 at 16 tokens is not low by the threshold at 16, so the wait begins at 32.
        (
            ExitPolicy(0.1, 32, low_rise=0.4, low_slope=1.0, low_shift=32.0),
            [0.29, 0.29, 0.29, 0.5],
            (2, LOW, False),
        ),
    ],
)
def test_exits_worked_out_by_hand(
    policy: ExitPolicy,
    confidences: list[float],
    expected: tuple[int, ExitReason | None, bool],
) -> None:
    assert walk(policy, confidences) == expected
    assert vectorised([policy], [confidences])[0][0] == expected


def vectorised(
    policies: Sequence[ExitPolicy],
    rollouts: Sequence[Sequence[float]],
    padding: float = math.nan,
    tokens: Sequence[Sequence[int]] | None = None,
) -> list[list[tuple[int, ExitReason | None, bool]]]:
    final_R = np.array([len(confidences) - 1 for confidences in rollouts])
    shape = (len(rollouts), final_R.max() + 1)
    confidence_RC = np.full(shape, padding)
    tokens_RC = np.zeros(shape, dtype=np.int64)
    for r, confidences in enumerate(rollouts):
        confidence_RC[r, : len(confidences)] = confidences
        regular = N * np.arange(1, len(confidences) + 1)
        tokens_RC[r, : len(confidences)] = tokens[r] if tokens else regular
    exits = find_exits(policies, tokens_RC, confidence_RC, final_R)
    return [
        [
            (
                int(exits.stop_RT[r, t]),
                HIGH if exits.high_RT[r, t] else LOW if exits.low_RT[r, t] else None,
                bool(exits.answered_RT[r, t]),
            )
            for t in range(len(policies))
        ]
        for r in range(len(rollouts))
    ]


# A coarse grid, so that confidences often lie exactly on a threshold.
LEVELS = [i / 20 for i in range(21)]
confidence = st.sampled_from(LEVELS) | st.floats(0, 1)


@st.composite
def policies(draw: st.DrawFn) -> ExitPolicy:
    low = draw(st.sampled_from([-1.0, *LEVELS]))
    rise = draw(st.sampled_from([0.0, 0.0, 0.1, 0.3]))
    highs = [high for high in [*LEVELS, 1.01] if high > low + rise]
    return ExitPolicy(
        lambda_low=low,
        patience=draw(st.integers(0, 5 * N)),
        lambda_high=draw(st.sampled_from(highs or [low + rise + 0.01])),
        lambda_answer=draw(st.sampled_from([*LEVELS, 1.01])),
        low_rise=rise,
        low_slope=draw(st.sampled_from([0.01, 0.1, 1.0, 1e6])) if rise else 0.0,
        low_shift=draw(st.sampled_from([0.0, 16.0, 40.0, -1e6])) if rise else 0.0,
        smoothing=draw(st.sampled_from([0.0, 0.0, 0.3, 0.5, 0.9])),
        answer_on_low=draw(st.booleans()),
    )


@settings(max_examples=300)
@given(
    st.lists(policies(), min_size=1, max_size=8),
    st.lists(st.lists(confidence, min_size=1, max_size=12), min_size=1, max_size=4),
)
def test_stepwise_and_vectorised_agree(
    candidates: list[ExitPolicy], rollouts: list[list[float]]
) -> None:
    stepwise = [[walk(policy, confidences) for policy in candidates] for confidences in rollouts]
    assert vectorised(candidates, rollouts) == stepwise


def test_stepwise_and_vectorised_agree_on_many_long_rollouts() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        rollouts = [
            np.round(np.clip(0.5 + 0.15 * np.cumsum(rng.normal(size=n)), 0, 1), 2).tolist()
            for n in rng.integers(1, 60, size=20)
        ]
        candidates = [
            ExitPolicy(
                lambda_low=round(rng.uniform(0, 0.4), 2),
                patience=int(rng.integers(0, 300)),
                lambda_high=round(rng.uniform(0.85, 1), 2),
                lambda_answer=round(rng.random(), 2),
                low_rise=0.4,
                low_slope=rng.uniform(0.001, 0.2),
                low_shift=rng.uniform(0, 600),
                smoothing=rng.choice([0.0, rng.random()]),
            )
            for _ in range(20)
        ]
        stepwise = [[walk(policy, row) for policy in candidates] for row in rollouts]
        assert vectorised(candidates, rollouts) == stepwise


def test_stepwise_and_vectorised_agree_on_uneven_checkpoints() -> None:
    rng = np.random.default_rng(2)
    for _ in range(30):
        lengths = rng.integers(1, 25, size=12)
        rollouts = [np.round(rng.random(n), 1).tolist() for n in lengths]
        # From 0 tokens on, and NaN now and then.
        tokens = [np.cumsum(rng.integers(1, 40, size=n)) - rng.integers(1, 2) for n in lengths]
        tokens = [(row - row[0] * rng.integers(0, 2)).tolist() for row in tokens]
        for row in rollouts:
            if rng.random() < 0.2:
                row[int(rng.integers(len(row)))] = math.nan
        candidates = [
            ExitPolicy(
                lambda_low=round(rng.uniform(0, 0.6), 1),
                patience=int(rng.integers(0, 120)),
                lambda_high=0.95,
                low_rise=rise,
                low_slope=rise / 10,
                smoothing=rng.choice([0.0, 0.4]),
                answer_on_low=bool(rng.integers(2)),
            )
            for rise in (0.0, 0.0, 0.2)
            for _ in range(8)
        ]
        stepwise = [
            [walk(policy, row, at) for policy in candidates]
            for row, at in zip(rollouts, tokens, strict=True)
        ]
        assert vectorised(candidates, rollouts, tokens=tokens) == stepwise


def test_policies_that_share_settings_do_not_mix() -> None:
    rng = np.random.default_rng(1)
    rollouts = [np.round(rng.random(n), 2).tolist() for n in rng.integers(1, 12, size=30)]
    grid = [
        ExitPolicy(low, patience, high, answer, smoothing=smoothing, answer_on_low=forced)
        for low in (0.3, 0.1, -1.0)
        for patience in (48, 0)
        for high in (0.9, 0.7)
        for answer in (0.0, 0.6)
        for smoothing in (0.5, 0.0)
        for forced in (False, True)
    ]
    shuffled = [grid[t] for t in rng.permutation(len(grid))]
    stepwise = [[walk(policy, row) for policy in shuffled] for row in rollouts]
    assert vectorised(shuffled, rollouts) == stepwise


def test_more_readings_than_fit_a_short_code() -> None:
    rollout = [0.5] * 16400 + [0.95] + [0.5] * 3
    late, never = ExitPolicy(lambda_high=0.9), ExitPolicy(lambda_low=0.4)
    assert vectorised([late, never], [rollout, [0.5]]) == [
        [(16400, HIGH, True), (16403, None, True)],
        [(0, None, True), (0, None, True)],
    ]


def test_no_policies() -> None:
    assert vectorised([], [[0.5], [0.5, 0.6]]) == [[], []]


def test_padding_is_never_looked_at() -> None:
    candidates = [ExitPolicy(0.3, 32, 0.9, 0.5), ExitPolicy(0.3, 0, 0.9, smoothing=0.5)]
    rollouts = [[0.5], [0.5, 0.6, 0.6, 0.6], [0.2, 0.4]]
    expected = vectorised(candidates, rollouts)
    assert vectorised(candidates, rollouts, padding=0.0) == expected
    assert vectorised(candidates, rollouts, padding=1.0) == expected


def test_nan_fires_nothing_and_is_not_answered() -> None:
    policy = ExitPolicy(lambda_low=0.5, lambda_high=0.9)
    assert walk(policy, [math.nan, math.nan, math.nan]) == (2, None, False)
    assert vectorised([policy], [[math.nan] * 3]) == [[(2, None, False)]]
    # Without smoothing, the rule recovers.
    assert walk(policy, [math.nan, 0.95, 0.5]) == (1, HIGH, True)


def test_policy_round_trip() -> None:
    policy = ExitPolicy(
        0.1,
        64,
        0.9,
        0.5,
        low_rise=0.2,
        low_slope=0.01,
        low_shift=256.0,
        answer_on_low=True,
        lambda_vote=0.4,
        lambda_stop=0.3,
    )
    scalars = policy.to_scalars()
    assert ExitPolicy.from_scalars(scalars) == policy
    assert scalars["lambda_stop"] == 0.3
    # Certificates from before there was a vote stop keep their digests.
    assert "lambda_stop" not in FULL_BUDGET.to_scalars()
    assert ExitPolicy.from_scalars({"patience": 64.0, "lambda_high": 1}) == ExitPolicy(
        patience=64, lambda_high=1.0
    )
    assert ExitPolicy.from_scalars({}) == FULL_BUDGET
    assert ExitPolicy.from_scalars({"answer_on_low": 1}) == ExitPolicy(answer_on_low=True)
    assert ExitPolicy.from_scalars({"answer_on_low": 0.0}) == FULL_BUDGET
    assert type(scalars["answer_on_low"]) is bool
    assert all(type(value) in (int, float, bool) for value in scalars.values())


def test_sigmoid_does_not_overflow() -> None:
    policy = ExitPolicy(0.1, low_rise=0.2, low_slope=1e6, low_shift=1000.0)
    assert policy.low_threshold(0) == pytest.approx(0.1)
    assert policy.low_threshold(1000) == pytest.approx(0.2)
    assert policy.low_threshold(10**6) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"lambda_low": 0.9, "lambda_high": 0.9}, "λ1 must stay below λ2"),
        (
            {"lambda_low": 0.5, "low_rise": 0.5, "low_slope": 1.0, "lambda_high": 0.9},
            "the low threshold reaches 1.0 and lambda_high is 0.9",
        ),
        ({"lambda_high": math.nan}, "lambda_high is nan"),
        ({"lambda_low": -math.inf}, "lambda_low is -inf"),
        ({"patience": -1}, "patience is -1: give a whole number"),
        ({"patience": 1.5}, "patience is 1.5: give a whole number"),
        ({"lambda_answer": -0.1}, "lambda_answer is -0.1"),
        ({"smoothing": 1.0}, "smoothing is 1.0"),
        ({"low_rise": 0.1}, "both must be above 0"),
        ({"low_slope": 0.1}, "both must be above 0"),
        ({"low_shift": 5.0}, "low_shift is 5.0 without a sigmoid"),
        ({"answer_on_low": 2}, "answer_on_low is 2: give true or false"),
        ({"answer_on_low": 0.5}, r"answer_on_low is 0\.5"),
        ({"lambda_vote": 1.1}, r"lambda_vote is 1\.1: give a share of the vote"),
        ({"lambda_vote": -0.1}, r"lambda_vote is -0\.1"),
        ({"lambda_stop": 0.0}, r"lambda_stop is 0\.0: give a share of the vote above 0"),
        ({"lambda_stop": math.nan}, "lambda_stop is nan"),
        ({"lambda_hi": 0.9}, r"unknown policy fields \['lambda_hi'\]"),
    ],
)
def test_policy_refuses(fields: dict[str, float], message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        ExitPolicy.from_scalars(fields)


def test_policy_refuses_what_is_set_directly() -> None:
    with pytest.raises(CalibrationError, match=r"patience is 1\.5"):
        replace(FULL_BUDGET, patience=1.5)
    with pytest.raises(CalibrationError, match="answer_on_low is 1: give True or False"):
        replace(FULL_BUDGET, answer_on_low=1)


@pytest.mark.parametrize(
    ("policy", "high", "low"),
    [
        (ExitPolicy(), False, False),
        (ExitPolicy(lambda_high=1.0), True, False),
        (ExitPolicy(lambda_low=0.0), False, True),
        (ExitPolicy(low_rise=0.5, low_slope=0.1, lambda_low=-0.1), False, True),
        (ExitPolicy(lambda_low=0.2, lambda_high=0.9), True, True),
    ],
)
def test_a_policy_says_which_exits_it_has(policy: ExitPolicy, high: bool, low: bool) -> None:
    assert (policy.exits_high, policy.exits_low) == (high, low)
