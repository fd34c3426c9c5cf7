"""Every reading equals a fresh forward of the final sequence, whatever the scheduler did."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import aclosing

import psutil
import pytest

from calibration import FULL_BUDGET
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.errors import EngineDead
from tests.rlcm_serve.engine.crowd import (
    compare_with_transformers,
    cramped_settings,
    crowd,
    preemptions,
)


@pytest.fixture(scope="module")
async def cramped() -> AsyncIterator[VllmEngine]:
    """An engine of its own, which the last test kills."""
    engine = VllmEngine(cramped_settings())
    await engine.start()
    yield engine
    engine.stop()


async def test_readings_match_under_chunks_preemption_and_aborts(cramped: VllmEngine) -> None:
    runs = await crowd(cramped)
    finished = [run for run in runs if run is not None]
    assert len(finished) < len(runs), "some were to be aborted"
    assert preemptions() > 0, "the cache was to be too small"
    assert compare_with_transformers(finished, tolerance=1e-4) > 300


async def test_a_dead_engine_is_an_error_and_not_a_hang(cramped: VllmEngine) -> None:
    prompt = cramped.prompt("A dial shows 3. A up 5. What does it show now?")

    async def ask() -> None:
        while True:  # until the engine is gone
            async with aclosing(
                cramped.think(prompt, FULL_BUDGET, cramped.identity.budget)
            ) as events:
                async for _ in events:
                    pass

    asking = [asyncio.create_task(ask()) for _ in range(4)]
    await asyncio.sleep(0.5)
    for child in psutil.Process().children(recursive=True):
        if "EngineCore" in " ".join(child.cmdline()) or "EngineCore" in child.name():
            os.kill(child.pid, signal.SIGKILL)
    for result in await asyncio.wait_for(asyncio.gather(*asking, return_exceptions=True), 60):
        assert isinstance(result, EngineDead)
    with pytest.raises(EngineDead):
        await cramped.check_health()
