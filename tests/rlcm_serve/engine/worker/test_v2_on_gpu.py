"""Exit control under the V2 model runner on a GPU; `make test-v2` tests it without one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import torch

from rlcm_serve.engine.diagnosis.self_test import self_test
from rlcm_serve.engine.model_files import EMBEDDED_MODEL, ModelFiles
from rlcm_serve.engine.vllm_engine import VllmEngine
from tests.rlcm_serve.engine.crowd import (
    Forward,
    compare_inputs_with_transformers,
    compare_signals_with_transformers,
    compare_with_transformers,
    cramped_settings,
    crowd,
    preemptions,
    vllm_says,
)
from tests.rlcm_serve.engine.drafting import save_draft_model, with_drafts

pytestmark = pytest.mark.gpu


IN_FLOAT32 = ("--dtype", "float32", "--gpu-memory-utilization", "0.3")
"""vLLM would halve the model's data type by itself on a GPU."""
ROOM_FOR_DRAFTS = ("--max-num-batched-tokens", "128")
"""With 64, vLLM's draft model gets a batch of 72 tokens, for which nothing was compiled."""


@pytest.fixture(scope="module")
def has_gpu(pytestconfig: pytest.Config) -> Iterator[None]:
    """Without a GPU, `-m gpu` fails. Triton multiplies in float32, not in TF32 as by default."""
    if not torch.cuda.is_available():
        refuse = pytest.fail if pytestconfig.option.markexpr == "gpu" else pytest.skip
        refuse("there is no CUDA device: run `make test-gpu` on a machine that has one")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TRITON_F32_DEFAULT", "ieee")
        yield


@pytest.fixture(scope="module")
async def on_gpu(has_gpu: None) -> AsyncIterator[VllmEngine]:
    engine = VllmEngine(cramped_settings(*IN_FLOAT32, record_signals=True))
    await engine.start()
    yield engine
    engine.stop()


@pytest.fixture(scope="module")
async def drafting(
    has_gpu: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[VllmEngine]:
    drafts = with_drafts(save_draft_model(tmp_path_factory.mktemp("drafts") / "draft"))
    arguments = (*IN_FLOAT32, *ROOM_FOR_DRAFTS, *drafts)
    engine = VllmEngine(cramped_settings(*arguments, record_inputs=True))
    await engine.start()
    yield engine
    engine.stop()


async def test_readings_match_under_chunks_preemption_and_aborts(on_gpu: VllmEngine) -> None:
    assert on_gpu.running is not None
    config = on_gpu.running.llm.vllm_config
    assert config.use_v2_model_runner
    assert config.scheduler_config.async_scheduling
    assert config.compilation_config.cudagraph_mode.name != "NONE"
    runs = await crowd(on_gpu)
    finished = [run for run in runs if run is not None]
    assert len(finished) < len(runs), "some were to be aborted"
    assert preemptions() > 0, "the cache was to be too small"
    forward = Forward(on_gpu.stop_ids)
    assert compare_with_transformers(finished, forward) > 300
    assert compare_signals_with_transformers(finished, forward) > 300


async def test_the_self_test_passes(on_gpu: VllmEngine) -> None:
    passed = await self_test(on_gpu, ModelFiles.read(EMBEDDED_MODEL))
    assert passed is not None
    assert passed.reference == "transformers"


async def test_readings_at_drafts_match_under_chunks_preemption_and_aborts(
    drafting: VllmEngine,
) -> None:
    finished = [run for run in await crowd(drafting) if run is not None]
    assert preemptions() > 0, "the cache was to be too small"
    forward = Forward(drafting.stop_ids)
    assert compare_inputs_with_transformers(finished, forward) > 300
    drafted, accepted = (
        vllm_says(f"spec_decode_num_{what}_tokens_total") for what in ("draft", "accepted")
    )
    assert 0.2 < accepted / drafted < 0.95, "some drafts were to be accepted, and some refused"
