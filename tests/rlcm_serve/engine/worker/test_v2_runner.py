"""The engine on vLLM's V2 model runner, whose kernels Triton's interpreter runs (make test-v2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from calibration import FULL_BUDGET, ExitPolicy, ExitReason
from rlcm_serve.core import Budget, Message, Role, Sampling
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.familiarity.familiarity import FAMILIARITY_FOLDER, Familiarity
from tests.rlcm_serve.engine.asking import forced_answers, generation, think, user
from tests.rlcm_serve.engine.crowd import (
    INTERVAL,
    Forward,
    compare_inputs_with_transformers,
    compare_signals_with_transformers,
    compare_with_transformers,
    cramped_settings,
    crowd,
    preemptions,
)
from tests.rlcm_serve.engine.familiarities import compare_familiarity
from training.tasks.problems import Split, sample_problems

pytestmark = pytest.mark.v2

QUESTIONS = [p.question for p in sample_problems(Split.VALIDATION, 8, seed=1)]
GREEDY = Sampling(temperature=0.0, top_p=1.0)


@pytest.fixture(scope="module")
async def cramped(on_v2: None) -> AsyncIterator[VllmEngine]:
    """With a prefix cache, from which preempted requests are resumed."""
    caching = ("--enable-prefix-caching",)
    engine = VllmEngine(cramped_settings(*caching, record_inputs=True, record_signals=True))
    await engine.start()
    yield engine
    engine.stop()


@pytest.fixture(scope="module")
def forward(cramped: VllmEngine) -> Forward:
    return Forward(cramped.stop_ids)


async def test_readings_match_under_chunks_preemption_and_aborts(
    cramped: VllmEngine, forward: Forward
) -> None:
    assert cramped.running is not None
    assert cramped.running.llm.vllm_config.use_v2_model_runner
    runs = await crowd(cramped, 20)
    finished = [run for run in runs if run is not None]
    assert len(finished) < len(runs), "some were to be aborted"
    assert preemptions() > 0, "the cache was to be too small"
    assert {rollout.exit for _, rollout in finished} >= {ExitReason.NATURAL, ExitReason.BUDGET}
    assert compare_with_transformers(finished, forward) > 100
    assert compare_inputs_with_transformers(finished, forward) > 100
    assert compare_signals_with_transformers(finished, forward) > 100
    compare_familiarity(finished, Familiarity.load(EMBEDDED_MODEL / FAMILIARITY_FOLDER), forward)


async def test_exits_are_at_the_checkpoint_that_fires_and_ends_are_read(
    cramped: VllmEngine, forward: Forward
) -> None:
    how = generation(cramped, Budget(150, 32), sampling=GREEDY)
    policies = [ExitPolicy(lambda_high=0.01), ExitPolicy(lambda_low=0.999, patience=48)]
    policies += [FULL_BUDGET] * (len(QUESTIONS) - 2)
    runs = await asyncio.gather(
        *(think(cramped, q, p, how) for q, p in zip(QUESTIONS, policies, strict=True))
    )
    rollouts = [told.rollout for told in runs]
    prompts = [cramped.prompt(user(question)) for question in QUESTIONS]
    compare_with_transformers(list(zip(prompts, rollouts, strict=True)), forward)
    assert (rollouts[0].exit, len(rollouts[0].tokens)) == (ExitReason.HIGH, INTERVAL)
    assert (rollouts[1].exit, len(rollouts[1].tokens)) == (ExitReason.LOW, 3 * INTERVAL)
    for rollout in rollouts:
        assert not set(rollout.tokens) & set(cramped.stop_ids)


@pytest.mark.parametrize("thinking", [1, 15, 16, 17])
async def test_the_budget_ends_thinking_with_a_final_reading(
    cramped: VllmEngine, thinking: int
) -> None:
    told = await think(cramped, QUESTIONS[0], FULL_BUDGET, generation(cramped, Budget(thinking, 8)))
    assert told.rollout.exit is ExitReason.BUDGET
    assert [c.tokens for c in told.checkpoints] == [*range(INTERVAL, thinking, INTERVAL), thinking]
    assert told.checkpoints[-1].is_final


async def test_forced_answers_come_from_the_cached_prefix(cramped: VllmEngine) -> None:
    history = [Message(Role.USER, QUESTIONS[1]), Message(Role.ASSISTANT, "It shows 4.")] * 4
    prompt = cramped.prompt([*history, Message(Role.USER, QUESTIONS[2])])
    how = generation(cramped, Budget(20, 8))
    first, again = [await think(cramped, prompt, FULL_BUDGET, how) for _ in range(2)]
    assert again.rollout.cached_prompt_tokens > first.rollout.cached_prompt_tokens
    answers = await forced_answers(cramped, prompt, again.rollout.tokens, how, 4)
    assert len(answers) == 4
    assert all(1 <= one.tokens <= 8 for one in answers)
