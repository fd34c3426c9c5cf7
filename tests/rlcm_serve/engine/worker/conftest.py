"""An engine with little memory, by either way of its readings."""

from __future__ import annotations

import pytest

from rlcm_serve.engine.vllm_engine import VllmEngine
from tests.rlcm_serve.engine.channels import CHANNELS, front_end


@pytest.fixture(scope="module", params=CHANNELS)
async def cramped(request: pytest.FixtureRequest, launched: VllmEngine) -> VllmEngine:
    """The launched engine; readings come through shared memory, or are fetched through vLLM."""
    return await front_end(launched, request.param)
