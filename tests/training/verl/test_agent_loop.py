"""A rollout through veRL's own agent-loop and reward classes; only its server is a double."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker
from verl.trainer.ppo.metric_utils import process_validation_metrics
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

from training.rl.inputs import RunInputs
from training.verl.graded import from_info
from training.verl.recipe import FORCED

pytestmark = pytest.mark.verl


class Servers:
    """A double of veRL's `LLMServerClient`: a rollout, then the answers that a function gives.

    Attributes:
        requests: of every call.
        busiest: most calls that were under way at once.
    """

    def __init__(self, rollout: list[int], answers: list[list[int]]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.busiest = self._now = 0
        self._replies = iter([rollout, *answers])

    async def generate(self, request_id: str, **request: Any) -> TokenOutput:
        self.requests.append({"request_id": request_id, **request})
        reply = next(self._replies)
        self._now += 1
        self.busiest = max(self.busiest, self._now)
        for _ in range(3):
            await asyncio.sleep(0)
        self._now -= 1
        logs = [-0.5] * len(reply) if request["sampling_params"]["logprobs"] else None
        return TokenOutput(token_ids=reply, log_probs=logs, extra_fields={"global_steps": 1})


def agent_loop(config: Any, inputs: RunInputs, servers: Servers) -> Any:
    """The agent loop, made from the run's file as veRL's worker makes it."""
    loops = OmegaConf.load(config.actor_rollout_ref.rollout.agent.agent_loop_config_path)
    chosen = next(
        own
        for own in loops
        if own.name == config.actor_rollout_ref.rollout.agent.default_agent_loop
    )
    return instantiate(
        {"_target_": chosen._target_},
        trainer_config=DictConfigWrap(config=config),
        server_manager=servers,
        tokenizer=inputs.tokenizer,
        processor=None,
        hf_model_type=inputs.files.config["model_type"],
        dataset_cls=RLHFDataset,
        data_config=DictConfigWrap(config.data),
        tools=ToolListWrap([]),
    )


SAMPLING = {"temperature": 0.8, "top_p": 1.0, "top_k": -1, "logprobs": True}


def sampled(
    config: Any, inputs: RunInputs, answers: list[str], held_out: bool = False
) -> tuple[Any, Servers]:
    """A rollout of 20 tokens of reasoning and an answer, and what the server was asked."""
    tokenizer, thinking = inputs.tokenizer, inputs.recipe.thinking
    word = tokenizer.encode("dial", add_special_tokens=False)[:1]
    own = [
        *word * 20,
        thinking.think_end,
        *tokenizer.encode("\\boxed{6}", add_special_tokens=False),
    ]
    encoded = [tokenizer.encode(text, add_special_tokens=False) for text in answers]
    servers = Servers(own, encoded)

    async def run() -> Any:
        loop = agent_loop(config, inputs, servers)
        messages = [{"role": "user", "content": inputs.problems.problems[0].problem}]
        return await loop.run(
            dict(SAMPLING), raw_prompt=messages, extra_info={"held_out": held_out}, index=0
        )

    return asyncio.run(run()), servers


def test_answers_are_forced_at_every_budget_on_the_server_of_the_rollout(
    config: Any, inputs: RunInputs
) -> None:
    output, servers = sampled(config, inputs, ["6}", "5}", "6}", "6}"])
    first, *forced = servers.requests
    suffix = list(inputs.recipe.thinking.suffix)
    expected = [
        [*first["prompt_ids"], *output.response_ids[:budget], *suffix]
        for budget in (8, 16)
        for _ in range(2)
    ]
    assert [own["prompt_ids"] for own in forced] == expected
    assert {own["request_id"] for own in servers.requests} == {first["request_id"]}
    wanted = {**SAMPLING, "max_tokens": 6, "logprobs": False}
    assert [own["sampling_params"] for own in forced] == [wanted] * 4
    assert output.extra_fields[FORCED]["budgets"] == [8, 16]
    assert output.extra_fields[FORCED]["length"] == 20
    assert len(output.response_logprobs) == len(output.response_ids)
    assert servers.busiest == 4


def test_no_more_answers_are_forced_at_once_than_the_settings_allow(
    config: Any, inputs: RunInputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.verl.agent_loop.recipe_of", lambda _: few_at_once(inputs))
    _, servers = sampled(config, inputs, ["6}"] * 4)
    assert servers.busiest == 2


def few_at_once(inputs: RunInputs) -> Any:
    """The recipe with 16 forced answers at once for all eight workers of veRL's default."""
    from dataclasses import replace

    budgets = replace(inputs.settings.budgets, at_once=16)
    return replace(inputs.recipe, settings=replace(inputs.settings, budgets=budgets))


def test_nothing_is_forced_on_held_out_problems(config: Any, inputs: RunInputs) -> None:
    output, servers = sampled(config, inputs, [], held_out=True)
    assert len(servers.requests) == 1
    assert output.extra_fields[FORCED] == {"length": 20, "budgets": [], "forced": []}


def reward_of(config: Any, inputs: RunInputs, output: Any, reference: str) -> dict[str, Any]:
    """The reward as veRL's reward worker gets it from the output of an agent loop."""
    prompts, responses = torch.tensor([output.prompt_ids]), torch.tensor([output.response_ids])
    whole = torch.cat([prompts, responses], 1)
    data = DataProto.from_dict(
        tensors={"prompts": prompts, "responses": responses, "attention_mask": whole * 0 + 1},
        non_tensors={
            "data_source": np.array(["embedded"]),
            "reward_model": np.array([{"ground_truth": reference}], dtype=object),
            "tool_extra_fields": np.array([output.extra_fields], dtype=object),
        },
    )

    async def graded() -> dict[str, Any]:
        return await RewardLoopWorker(config).compute_score(data)

    return asyncio.run(graded())


@pytest.mark.parametrize(("reference", "right"), [("6", True), ("7", False)])
def test_verls_reward_worker_grades_the_rollout_and_its_forced_answers(
    config: Any, inputs: RunInputs, reference: str, right: bool
) -> None:
    output, _ = sampled(config, inputs, ["6}", "5}", "6}", "6}"])
    found = reward_of(config, inputs, output, reference)
    assert found["reward_score"] == (1.0 if right else -1.0)
    assert found["reward_extra_info"]["acc"] == float(right)
    graded = from_info(found["reward_extra_info"])
    assert graded.is_right == right
    assert graded.target_B == ((0.5, 1.0) if right else (0.0, 0.0))
    assert graded.confidence_B == ()


def test_verls_validation_takes_the_mean_of_what_the_reward_says(
    config: Any, inputs: RunInputs
) -> None:
    output, _ = sampled(config, inputs, [], held_out=True)
    infos = [
        reward_of(config, inputs, output, reference)["reward_extra_info"]
        for reference in ("6", "7")
    ]
    columns = {name: [own[name] for own in infos] for name in infos[0]}
    found = process_validation_metrics(["embedded"] * 2, ["first"] * 2, columns)
    assert found["embedded"]["acc"]["mean@2"] == 0.5
    assert set(found["embedded"]) == {"acc"}
