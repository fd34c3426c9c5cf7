"""veRL's agent loop of a rollout: after it ends, answers are forced at its budgets."""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop, Semaphore
from typing import Any, ClassVar

from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop

from training.rl.trainer.batch import Batch
from training.verl.recipe import FORCED, recipe_of


class ForcedAnswersLoop(SingleTurnAgentLoop):
    """One rollout, then K forced answers at each of its budgets.

    Other rollouts go on meanwhile. All requests of a rollout go to the same server, whose prefix
    cache holds it. Rows of held-out problems (`extra_info`) have no forced answers.
    """

    _places: ClassVar[dict[AbstractEventLoop, Semaphore]] = {}

    def __init__(self, *args: Any, server_manager: Any, **more: Any) -> None:
        super().__init__(*args, server_manager=_OneServer(server_manager), **more)
        self.recipe = recipe_of(self.config)

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """Samples a rollout; its extra fields get its budgets and forced answers."""
        output = await super().run(sampling_params, **row)
        forces = self.recipe.settings.forces and not row["extra_info"].get("held_out")
        batch = Batch.of([output.prompt_ids], [output.response_ids], self.recipe, forces)
        output.extra_fields[FORCED] = {
            "length": batch.lengths[0],
            "budgets": list(batch.budgets[0]),
            "forced": await self._force(batch, sampling_params),
        }
        return output

    async def _force(self, batch: Batch, sampling: dict[str, Any]) -> list[list[int]]:
        """K forced answers at every budget; the answers of one budget are adjacent."""
        budgets, suffix = self.recipe.settings.budgets, list(self.recipe.thinking.suffix)
        sampling = {**sampling, "max_tokens": budgets.answer_tokens, "logprobs": False}
        return await asyncio.gather(
            *(
                self._answer([*prefix, *suffix], sampling)
                for prefix in batch.prefixes()
                for _ in range(budgets.samples)
            )
        )

    async def _answer(self, prompt_ids: list[int], sampling: dict[str, Any]) -> list[int]:
        async with self._place():
            answer = await self.server_manager.generate(
                request_id="", prompt_ids=prompt_ids, sampling_params=dict(sampling)
            )
        return list(answer.token_ids)

    def _place(self) -> Semaphore:
        """One of this worker's places: together the workers send `at_once` forced answers."""
        at_once = self.recipe.settings.budgets.at_once // self.rollout_config.agent.num_workers
        loop = asyncio.get_running_loop()
        return self._places.setdefault(loop, Semaphore(max(1, at_once)))


class _OneServer:
    """A client of veRL's servers that sends everything to the server of its first request."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._request_id: str | None = None

    async def generate(self, request_id: str, **request: Any) -> Any:
        """As `LLMServerClient.generate`; later ids are replaced by the first one."""
        self._request_id = self._request_id or request_id
        return await self._client.generate(self._request_id, **request)
