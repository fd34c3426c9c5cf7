"""R(y) as TRL computes it, from a method's terms and weights."""

from training.rl.rewards.methods import GroupTerm, Method
from training.rl.rewards.rewards import GradedRollout


def whole_reward(method: Method, rollout: GradedRollout, strength: float) -> float:
    """R(y) of the only rollout of its group, before the normalisation within it."""
    return sum(
        term.weight(strength)
        * (term.of([rollout])[0] if isinstance(term, GroupTerm) else term.of(rollout))
        for term in method.terms
    )
