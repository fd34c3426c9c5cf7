"""R(y) as TRL adds it up from a method's terms and their weights."""

from training.rl.rewards.methods import Method
from training.rl.rewards.rewards import GradedRollout


def whole_reward(method: Method, rollout: GradedRollout, strength: float) -> float:
    """Before it is normalised within its group."""
    return sum(term.weight(strength) * term.of(rollout) for term in method.terms)
