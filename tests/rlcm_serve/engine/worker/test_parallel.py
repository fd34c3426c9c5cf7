"""Readings of an engine in several processes, tensor parallel or data parallel."""

from __future__ import annotations

from collections.abc import AsyncIterator

import prometheus_client
import pytest

from rlcm_serve.engine.vllm_engine import VllmEngine
from tests.rlcm_serve.engine.channels import CHANNELS, front_end
from tests.rlcm_serve.engine.crowd import (
    Forward,
    compare_with_transformers,
    cramped_settings,
    crowd,
)

pytestmark = pytest.mark.slow

PARALLEL = {
    "tensor": ("--tensor-parallel-size", "2"),
    "data": ("--data-parallel-size", "2"),
}


@pytest.fixture(scope="module", params=PARALLEL)
async def launched(request: pytest.FixtureRequest) -> AsyncIterator[VllmEngine]:
    engine = VllmEngine(cramped_settings(*PARALLEL[request.param]))
    await engine.start()
    yield engine
    engine.stop()


def generated(engine: int) -> float:
    """Tokens that one data-parallel engine has generated since it started."""
    labels = {"engine": str(engine), "model_name": "embedded"}
    name = "vllm:generation_tokens_total"
    return prometheus_client.REGISTRY.get_sample_value(name, labels) or 0.0


@pytest.mark.parametrize("channel", CHANNELS)
async def test_readings_match_when_several_processes_run_the_model(
    launched: VllmEngine, channel: str
) -> None:
    engine = await front_end(launched, channel)
    assert engine.running is not None
    assert engine.running.table.address.shared is (channel == "shared")
    parallel = engine.running.llm.vllm_config.parallel_config
    before = [generated(rank) for rank in range(parallel.data_parallel_size)]
    finished = [run for run in await crowd(engine, 24) if run is not None]
    assert compare_with_transformers(finished, Forward(engine.stop_ids)) > 150
    after = [generated(rank) for rank in range(parallel.data_parallel_size)]
    assert all(now > earlier for now, earlier in zip(after, before, strict=True)), "all took part"
