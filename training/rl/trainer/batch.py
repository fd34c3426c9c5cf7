"""The rollouts of a training step, from their generation to the probe's update."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean
from typing import Self

import torch
from torch import Tensor

from training.errors import TrainingRefused
from training.rl.rewards.rewards import GradedRollout
from training.rl.settings import BudgetSettings
from training.rl.trainer.forced_answers import cut_points
from training.rl.trainer.recipe import Recipe

Ids = list[int]


@dataclass(slots=True)
class Batch:
    """The rollouts (R) of one rank, and the data collected about them during the step.

    Attributes:
        prompts, completions: token ids.
        lengths: tokens of reasoning in each completion.
        budgets: B(y) of each rollout; empty if no probe is trained.
        forced: forced answers, K for each budget, in the order of the rollouts.
        targets: Y_b at the budgets of each rollout.
        states: by rollout, shape (budgets + 1, hidden): at its budgets, then at its end.
        graded: the rollouts in the form that rewards read.
    """

    prompts: list[Ids]
    completions: list[Ids]
    lengths: list[int]
    budgets: list[tuple[int, ...]]
    forced: list[Ids] = field(default_factory=list)
    targets: list[tuple[float, ...]] = field(default_factory=list)
    states: dict[int, Tensor] = field(default_factory=dict)
    graded: list[GradedRollout] = field(default_factory=list)

    @classmethod
    def of(cls, prompts: list[Ids], completions: list[Ids], recipe: Recipe, forces: bool) -> Self:
        """Creates a batch; rollouts have budgets only if answers are forced there."""
        lengths = [recipe.thinking.length(own) for own in completions]
        cuts = [cut_points(own, recipe.settings.budgets) if forces else () for own in lengths]
        return cls(prompts, completions, lengths, cuts)

    @property
    def budgets_R(self) -> list[int]:
        """The number of budgets of each rollout."""
        return [len(own) for own in self.budgets]

    def prefixes(self) -> list[Ids]:
        """The prompt and the reasoning before each budget, in the order of the rollouts."""
        return [
            [*prompt, *completion[:budget]]
            for prompt, completion, own in zip(
                self.prompts, self.completions, self.budgets, strict=True
            )
            for budget in own
        ]

    def cuts(self, rollout: int) -> tuple[int, ...]:
        """The positions, in tokens, at which the rollout's states are read."""
        return (*self.budgets[rollout], self.lengths[rollout])

    def states_in_order(self) -> list[Tensor]:
        """The states of every rollout, in the order of the rollouts."""
        return [self.states[rollout] for rollout in range(len(self.completions))]

    def points(self) -> tuple[Tensor, Tensor]:
        """The probe's training data: the state at each budget (N, hidden), and Y_b (N)."""
        hidden_NH = torch.cat([own[:-1] for own in self.states_in_order()])
        targets = [share for own in self.targets for share in own]
        return hidden_NH, torch.tensor(targets).to(hidden_NH)

    def curves(self, states_confidence: bool) -> dict[str, float]:
        """Means over the rollouts, logged beside TRL's metrics.

        Args:
            states_confidence: whether the prompt asks the model to state its confidence.
        """
        graded = self.graded
        found = {"accuracy": fmean([own.is_right for own in graded])}
        if states_confidence:
            found["confidence/stated"] = fmean([own.stated is not None for own in graded])
        if self.states:
            targets = [share for own in graded for share in own.target_B]
            confidences = [value for own in graded for value in own.confidence_B]
            both = [any(own.promising_B) and not all(own.promising_B) for own in graded]
            found["budgets/per_rollout"] = len(targets) / len(graded)
            found["budgets/both_sides"] = fmean(both)
            if targets:
                found |= {"probe/target": fmean(targets), "probe/confidence": fmean(confidences)}
        return found


def nothing_to_supervise(budgets: BudgetSettings, longest: int) -> TrainingRefused:
    """The error of a run whose first rollouts have no budget; the longest has so many tokens."""
    set_to, remedy = f"interval is {budgets.interval} tokens", "lower it"
    if budgets.fractions:
        set_to, remedy = f"fractions are {budgets.fractions}", "give larger ones"
    return TrainingRefused(
        f"{set_to} in [budgets], and the longest of the first rollouts has {longest} tokens, so "
        f"there is nothing to supervise: {remedy}"
    )
