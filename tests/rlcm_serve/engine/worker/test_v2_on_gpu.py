"""Exit control under the V2 model runner on a GPU; `make test-v2` tests it without one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import torch

from rlcm_serve.engine.vllm_engine import VllmEngine
from tests.rlcm_serve.engine.crowd import (
    Forward,
    compare_signals_with_transformers,
    compare_with_transformers,
    cramped_settings,
    crowd,
    preemptions,
)

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
async def on_gpu(pytestconfig: pytest.Config) -> AsyncIterator[VllmEngine]:
    """In float32, which vLLM would halve by itself on a GPU. Without a GPU, `-m gpu` fails."""
    if not torch.cuda.is_available():
        refuse = pytest.fail if pytestconfig.option.markexpr == "gpu" else pytest.skip
        refuse("there is no CUDA device: run `make test-gpu` on a machine that has one")
    arguments = ("--dtype", "float32", "--gpu-memory-utilization", "0.3")
    engine = VllmEngine(cramped_settings(*arguments, record_signals=True))
    await engine.start()
    yield engine
    engine.stop()


async def test_readings_match_under_chunks_preemption_and_aborts(on_gpu: VllmEngine) -> None:
    assert on_gpu.running is not None
    config = on_gpu.running.llm.vllm_config
    assert config.use_v2_model_runner
    assert config.scheduler_config.async_scheduling
    runs = await crowd(on_gpu)
    finished = [run for run in runs if run is not None]
    assert len(finished) < len(runs), "some were to be aborted"
    assert preemptions() > 0, "the cache was to be too small"
    forward = Forward(on_gpu.stop_ids)
    assert compare_with_transformers(finished, forward, tolerance=1e-4) > 300
    assert compare_signals_with_transformers(finished, forward, tolerance=1e-4) > 300
