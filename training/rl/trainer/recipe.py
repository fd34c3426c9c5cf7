"""What is trained, and how its confidence is supervised."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlcm_serve.evaluation.grading import Grader
from training.rl.rewards.methods import Method
from training.rl.trainer.forced_answers import Thinking
from training.rl.trainer.joint_probe import ProbeSettings


@dataclass(frozen=True, slots=True)
class Recipe:
    """A method with all that its rewards depend on.

    Attributes:
        method: whose reward and loss.
        strength: λ.
        thinking: how the model's thinking ends.
        grader: says which answers are right.
        interval: N, tokens from one budget to the next.
        samples: K, forced answers at each.
        answer_tokens: the most a forced answer may take.
        probe: of the probe, if there is one.
    """

    method: Method
    strength: float
    thinking: Thinking
    grader: Grader
    interval: int = 500
    samples: int = 4
    answer_tokens: int = 32
    probe: ProbeSettings = field(default_factory=ProbeSettings)

    @property
    def trains_probe(self) -> bool:
        """Whether there is a probe, and with it budgets and forced answers."""
        return self.probe.always or self.method.needs_probe(self.strength)
