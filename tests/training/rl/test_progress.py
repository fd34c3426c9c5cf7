"""A step in one line."""

from __future__ import annotations

from training.rl.progress import step_line


def test_a_step_says_its_curves_and_where_its_time_went() -> None:
    logs = {
        "reward": -0.25,
        "accuracy": 0.375,
        "probe/bce": 0.61,
        "budgets/both_sides": 0.5,
        "time/update": 2.0,
        "time/rollouts": 3.5,
        "time/forced answers": 1.5,
        "time/grading": 0.001,
        "time/overhead": 1.27,
        "loss": 0.0,
    }
    assert step_line(3, logs) == (
        "step 3: reward -0.250, right 0.375, probe 0.610, both sides 0.500 | 7.0 s (x1.27): "
        "rollouts 3.50, update 2.00, forced answers 1.50"
    )


def test_what_a_method_does_not_have_is_left_out() -> None:
    logs = {"reward": 0.5, "accuracy": 0.75, "probe/bce": None, "time/update": 1.0}
    assert step_line(1, logs) == "step 1: reward 0.500, right 0.750 | 1.0 s (x1.00): update 1.00"
