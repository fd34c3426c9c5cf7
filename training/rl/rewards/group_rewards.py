"""Reward terms that compare the rollouts of one problem with each other.

RLCM's margin is taken within one rollout, so it says nothing about which of two rollouts is right.
Votes and early exits need just that. These terms are not the paper's. A group is all rollouts of
one problem in one step; each function gives a value for each of them, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence

from training.rl.rewards.rewards import GradedRollout, confidence_at_end, margin, mean

Group = Sequence[GradedRollout]


def ranking(group: Group) -> list[float]:
    """The share of the rollouts of the other outcome that C(y) ranks on the proper side.

    For a right rollout: how many wrong ones have a lower confidence at their end. For a wrong one:
    how many right ones have a higher one. Ties count half. Over the right rollouts, and over the
    wrong ones, its mean is the AUROC within the question. 0 if all have the same outcome.
    """
    return [_ranked(own, group) for own in group]


def _ranked(own: GradedRollout, group: Group) -> float:
    sign = 1 if own.is_right else -1
    gaps = [
        sign * (confidence_at_end(own) - confidence_at_end(other))
        for other in group
        if other.is_right != own.is_right
    ]
    return mean([float(gap > 0) + 0.5 * (gap == 0) for gap in gaps])


def margin_between(group: Group) -> list[float]:
    """The margin with the whole group as the other side.

    Mean C_b over a rollout's B+ minus mean C_b over the group's B-; mean C_b over the group's B+
    minus mean C_b over the rollout's B-; the mean of those of both that exist. So a rollout with
    budgets on one side alone is compared too, which RLCM's margin compares with 0. 0 for all if
    the group's budgets are on one side.
    """
    high, low = _sides(group)
    if not high or not low:
        return [0.0 for _ in group]
    found = []
    for rollout in group:
        own_high, own_low = _sides([rollout])
        parts = [mean(own_high) - mean(low)] if own_high else []
        parts += [mean(high) - mean(own_low)] if own_low else []
        found.append(mean(parts))
    return found


def _sides(group: Group) -> tuple[list[float], list[float]]:
    """C_b over B+ and over B- of these rollouts."""
    sides: dict[bool, list[float]] = {True: [], False: []}
    for rollout in group:
        for promising, confidence in zip(rollout.promising_B, rollout.confidence_B, strict=True):
            sides[promising].append(confidence)
    return sides[True], sides[False]


def margin_by_variance(group: Group) -> list[float]:
    """RLCM's margin times 4p(1 - p), p the share of the group that is right.

    Rewards are divided by their spread within the group. So where all rollouts have the same
    outcome, the plain margin alone decides the advantages, however small λ is. Here such a group
    has no advantages, and the margin counts most where the question is open.
    """
    share = mean([float(rollout.is_right) for rollout in group])
    return [4 * share * (1 - share) * margin(rollout) for rollout in group]
