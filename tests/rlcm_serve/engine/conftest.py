"""A real vLLM engine, shared because starting it takes most of these tests' time."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.vllm_engine import VllmEngine


@pytest.fixture(scope="session")
def on_v2(pytestconfig: pytest.Config) -> None:
    """vLLM runs its V2 model runner. Where it does not, `-m v2` fails."""
    if os.environ.get("VLLM_USE_V2_MODEL_RUNNER") != "1":
        refuse = pytest.fail if pytestconfig.option.markexpr == "v2" else pytest.skip
        refuse("vLLM runs its V1 model runner here: use `make test-v2`")


@pytest.fixture(scope="session")
async def engine() -> AsyncIterator[VllmEngine]:
    """The embedded model as it is served, with at most 1024 tokens in flight."""
    running = VllmEngine(EngineSettings())
    await running.start()
    yield running
    running.stop()
