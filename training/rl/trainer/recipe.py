"""What a run trains, and how it supervises confidence."""

from __future__ import annotations

from dataclasses import dataclass

from rlcm_serve.evaluation.grading import Grader
from training.rl.settings import RunSettings
from training.rl.trainer.forced_answers import Thinking


@dataclass(frozen=True, slots=True)
class Recipe:
    """The settings of a run, with everything else that its rewards depend on.

    Attributes:
        settings: method, λ, budgets, probe.
        thinking: how the model's thinking ends.
        grader: decides which answers are right.
    """

    settings: RunSettings
    thinking: Thinking
    grader: Grader
