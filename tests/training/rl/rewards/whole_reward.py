"""R(y) as TRL computes it, from a method's terms and weights."""

from training.rl.rewards.methods import Method
from training.rl.rewards.rewards import GradedRollout


def whole_reward(method: Method, rollout: GradedRollout, strength: float) -> float:
    """R(y) before the normalisation within its group."""
    return sum(term.weight(strength) * term.of(rollout) for term in method.terms)
