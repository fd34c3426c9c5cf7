"""veRL's reward manager: grades a rollout and its forced answers while others are sampled."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from training.rl.rewards.rewards import GradedRollout
from training.rl.trainer.grading import RolloutGrader
from training.rl.trainer.step_clock import StepClock
from training.verl.graded import to_info
from training.verl.recipe import FORCED, recipe_of

_GRADING = ThreadPoolExecutor(1)
"""A grader is used by one thread at a time."""


class GradingManager(RewardManagerBase):
    """Grades rollouts with the grader of the run.

    The reward is the whole R(y) for methods without a probe. For others it is its part without the
    probe, and the trainer replaces it once the states have been read.

    Args:
        config, tokenizer, compute_score: as veRL passes them; no other reward function is used.
        more: addresses of reward models, of which there are none.
    """

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any, **more: Any) -> None:
        super().__init__(config, tokenizer, compute_score)
        self.recipe = recipe_of(config)
        self._grader = RolloutGrader(self.recipe, tokenizer, StepClock())

    async def run_single(self, data: Any) -> dict[str, Any]:
        """The reward of one rollout, the last of `data`; and what the trainer needs for the rest.

        Returns:
            `reward_score`, and `reward_extra_info`: `to_info` of the rollout, without a probe.
        """
        item = data[-1:][0]
        response = item.batch["responses"]
        length = int(item.batch["attention_mask"][-response.shape[-1] :].sum())
        reference = str(item.non_tensor_batch["reward_model"]["ground_truth"])
        forced = item.non_tensor_batch["tool_extra_fields"][FORCED]
        graded = await self.loop.run_in_executor(
            _GRADING, self._graded, response[:length].tolist(), reference, forced
        )
        settings = self.recipe.settings
        score = settings.chosen.reward(graded, settings.weight, with_probe=False)
        return {"reward_score": score, "reward_extra_info": to_info(graded)}

    def _graded(self, ids: list[int], reference: str, forced: dict[str, Any]) -> GradedRollout:
        targets = self._grader.targets(forced["forced"], [reference], [len(forced["budgets"])])
        return self._grader([ids], [reference], targets, [[]])[0]
