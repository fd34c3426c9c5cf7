"""A graded rollout on its way from veRL's reward worker to the trainer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict

from training.rl.rewards.rewards import GradedRollout

_GRADED = "graded"


def to_info(graded: GradedRollout) -> dict[str, float | str]:
    """A rollout's `reward_extra_info`: `acc`, 1 if the answer is right, and all fields as JSON.

    A text, because veRL's validation takes the mean of every entry that is not one.
    """
    return {"acc": float(graded.is_right), _GRADED: json.dumps(asdict(graded))}


def from_info(info: Mapping[str, float | str]) -> GradedRollout:
    """The rollout whose `to_info` this is."""
    fields = json.loads(str(info[_GRADED]))
    budgets = {name: tuple(fields[name]) for name in ("target_B", "confidence_B")}
    return GradedRollout(**{**fields, **budgets})
