"""A training run's output: a progress bar, and one line per step with curves and times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import Progress, TaskID
from transformers import TrainerCallback

from rlcm_serve.terminal import progress_bar

_CURVES = {
    "reward": "reward",
    "accuracy": "right",
    "confidence/stated": "stated",
    "confidence/sequence": "confidence",
    "probe/bce": "probe",
    "budgets/both_sides": "both sides",
}
_PARTS = "time/"
EVALUATED = "eval_accuracy"
"""In the log of an evaluation: the accuracy on held-out problems."""


class ShowProgress(TrainerCallback):
    """Prints one line per step and per evaluation, on the main process only."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Shows the bar."""
        if state.is_world_process_zero:
            self._bar = progress_bar(self._console)
            self._bar.start()
            self._task = self._bar.add_task(
                "training", total=state.max_steps, completed=state.global_step
            )

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any
    ) -> None:
        """Prints the completed step, or the evaluation after it."""
        if self._bar is None or not logs:
            return
        step = state.global_step
        if "reward" in logs:
            self._bar.update(self._task, completed=step)
            self._bar.console.print(step_line(step, logs), markup=False, highlight=False)
        elif EVALUATED in logs:
            said = f"after step {step}, on held-out problems: right {logs[EVALUATED]:.3f}"
            self._bar.console.print(said, markup=False, highlight=False)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Ends the bar."""
        self.stop()

    def stop(self) -> None:
        """Ends the bar, so that the terminal is as it was. Does nothing the second time."""
        if self._bar is not None:
            self._bar.stop()


def step_line(step: int, logs: Mapping[str, Any]) -> str:
    """A step in one line: curves, seconds by part, and the overhead factor of RLCM."""
    curves = [
        f"{name} {logs[key]:.3f}" for key, name in _CURVES.items() if logs.get(key) is not None
    ]
    parts = {
        key.removeprefix(_PARTS): value
        for key, value in logs.items()
        if key.startswith(_PARTS) and key != "time/overhead"
    }
    longest = sorted(parts.items(), key=lambda part: -part[1])
    split = ", ".join(f"{part} {seconds:.2f}" for part, seconds in longest if seconds >= 0.005)
    factor = logs.get("time/overhead") or 1.0
    return (
        f"step {step}: {', '.join(curves)} | {sum(parts.values()):.1f} s (x{factor:.2f}): {split}"
    )
