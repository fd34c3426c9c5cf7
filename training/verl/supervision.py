"""The probe of a run on veRL: it lives in the trainer's process and sees all rollouts of a step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from training.rl.settings import RunSettings
from training.rl.trainer.batch import Batch, nothing_to_supervise
from training.rl.trainer.joint_probe import JointProbe, require_finite


class Supervision:
    """Reads the probe, makes the rewards, and trains the probe, in the order that RLCM gives.

    Args:
        settings: of the run.
    """

    def __init__(self, settings: RunSettings) -> None:
        self._settings = settings
        self.probe: JointProbe | None = None

    def rewards(self, batch: Batch, step: int) -> tuple[list[float], dict[str, float]]:
        """R(y) of each rollout, and the curves of the step.

        Args:
            batch: with states, targets, and rollouts that are graded without a probe.
            step: from 1.

        Raises:
            TrainingRefused: the first rollouts have too few budgets, or states are NaN or infinite.
        """
        settings, method = self._settings, self._settings.chosen
        if self.probe is None and not any(batch.budgets):
            raise nothing_to_supervise(settings.budgets, max(batch.lengths))
        states = batch.states_in_order()
        require_finite(states, _alone, step)
        probe = self._created(states[0].shape[1])
        probe.ensure_scale(states, _alone)
        loss = probe.update(*batch.points(), _alone) if settings.probe.learns_first else None
        batch.graded = [
            replace(own, confidence_B=tuple(readings[:-1]), final_confidence=readings[-1])
            for own, readings in zip(batch.graded, probe.readings(states), strict=True)
        ]
        rewards = [method.reward(own, settings.weight) for own in batch.graded]
        if loss is None:
            loss = probe.update(*batch.points(), _alone)
        return rewards, batch.curves(method.asks_confidence) | {"probe/bce": loss}

    def restore(self, state: dict[str, Any]) -> None:
        """Continues with a probe from a checkpoint.

        Raises:
            TrainingRefused: as `JointProbe.restore`.
        """
        self._created(len(state["weights"]["mean_H"])).restore(state)

    def _created(self, hidden_size: int) -> JointProbe:
        if self.probe is None:
            self.probe = JointProbe(hidden_size, self._settings.probe, self._settings.seed)
        return self.probe


def _alone(values: Tensor) -> Tensor:
    """The sum over ranks: this process holds all cuts."""
    return values
