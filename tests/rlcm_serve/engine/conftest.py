"""Real vLLM, shared: starting it is most of what these tests cost."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.vllm_engine import VllmEngine


@pytest.fixture(scope="session")
async def engine() -> AsyncIterator[VllmEngine]:
    """The embedded model as it is served, at most 1024 tokens of it in flight."""
    running = VllmEngine(EngineSettings())
    await running.start()
    yield running
    running.stop()
