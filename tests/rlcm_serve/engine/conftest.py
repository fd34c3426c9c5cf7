"""A real vLLM engine, shared because starting it takes most of these tests' time."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.vllm_engine import VllmEngine


@pytest.fixture(scope="session")
async def engine() -> AsyncIterator[VllmEngine]:
    """The embedded model as it is served, with at most 1024 tokens in flight."""
    running = VllmEngine(EngineSettings())
    await running.start()
    yield running
    running.stop()
