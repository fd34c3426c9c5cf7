"""Every reading equals a fresh forward of the final sequence, whatever the scheduler did."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing

import pytest

from calibration import FULL_BUDGET
from rlcm_serve.core import Budget, Sampling
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.errors import RequestRefused
from tests.rlcm_serve.engine.asking import forced_answers, generation, user
from tests.rlcm_serve.engine.crowd import (
    Forward,
    compare_with_transformers,
    cramped_settings,
    crowd,
    preemptions,
    vllm_says,
)

pytestmark = pytest.mark.engine

QUESTION = "A dial shows 3. A up 5. What does it show now?"


@pytest.fixture(scope="module")
async def launched() -> AsyncIterator[VllmEngine]:
    engine = VllmEngine(cramped_settings())
    await engine.start()
    yield engine
    engine.stop()


async def test_readings_match_under_chunks_preemption_priorities_and_aborts(
    cramped: VllmEngine,
) -> None:
    runs = await crowd(cramped)
    finished = [run for run in runs if run is not None]
    assert len(finished) < len(runs), "some were to be aborted"
    assert preemptions() > 0, "the cache was to be too small"
    assert compare_with_transformers(finished, Forward(cramped.stop_ids)) > 300


async def test_what_is_closed_early_is_gone_from_vllm_itself(cramped: VllmEngine) -> None:
    prompt, how = cramped.prompt(user(QUESTION)), generation(cramped)
    async with AsyncExitStack() as rollouts:
        for _ in range(8):
            events = cramped.think(prompt, FULL_BUDGET, how)
            await rollouts.enter_async_context(aclosing(events))
            await anext(events)
        await asyncio.sleep(0)
        assert vllm_says("num_requests_running") > 0
    # vLLM hears of the ends before it hears of this, which is over by the next checkpoint.
    await forced_answers(cramped, prompt, (), generation(cramped, Budget(1, answer=8)))
    assert vllm_says("num_requests_running") == 0


async def test_a_seed_is_refused_where_it_would_kill_the_engine(cramped: VllmEngine) -> None:
    prompt = cramped.prompt(user(QUESTION))
    with pytest.raises(RequestRefused, match="--no-enable-chunked-prefill") as refusal:
        cramped.check(prompt, generation(cramped, seed=1))
    assert refusal.value.field == "seed"
    cramped.check(prompt, generation(cramped, seed=1, sampling=Sampling(0.0, 1.0)))
