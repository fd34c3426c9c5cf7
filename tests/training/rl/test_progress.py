"""A step in one line."""

from __future__ import annotations

import io
from types import SimpleNamespace

from rich.console import Console

from training.rl.progress import ShowProgress, step_line


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


def test_an_evaluation_says_its_accuracy() -> None:
    console = Console(file=io.StringIO(), width=100)
    progress, state = (
        ShowProgress(console),
        SimpleNamespace(is_world_process_zero=True, max_steps=4, global_step=2),
    )
    progress.on_train_begin(None, state, None)
    progress.on_log(None, state, None, {"eval_accuracy": 0.625, "eval_reward": 0.5})
    progress.stop()
    assert "after step 2, on held-out problems: right 0.625\n" in console.file.getvalue()  # type: ignore[attr-defined]


def test_the_cursor_is_back_after_an_error() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    progress, state = (
        ShowProgress(console),
        SimpleNamespace(is_world_process_zero=True, max_steps=4, global_step=2),
    )
    progress.on_train_begin(None, state, None)
    progress.stop()
    progress.stop()
    written = console.file.getvalue()  # type: ignore[attr-defined]
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h") == 1
