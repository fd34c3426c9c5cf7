"""Every reading equals a fresh forward of the final sequence, whatever the scheduler did meanwhile."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from contextlib import aclosing

import prometheus_client
import psutil
import pytest
import torch
from transformers import AutoModel

from calibration import FULL_BUDGET, ExitPolicy
from rlcm_serve.core import Budget, Thought, TokenIds
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.errors import EngineDead
from rlcm_serve.probe import PROBE_FOLDER, Probe
from training.tasks.problems import Split, sample_problems

CRAMPED = (
    "--max-model-len 640 --max-num-seqs 16 --max-num-batched-tokens 64 --block-size 32 "
    "--num-gpu-blocks-override 60 --no-enable-prefix-caching"
).split()
"""Prompts are prefilled in chunks, and 16 requests share room for about four: they are preempted."""


@pytest.fixture(scope="module")
async def cramped() -> AsyncIterator[VllmEngine]:
    """An engine of its own, which the last test kills."""
    engine = VllmEngine(
        EngineSettings(
            interval=16,
            max_tokens=400,
            answer_max_tokens=32,
            log_stats=True,
            vllm_arguments=tuple(CRAMPED),
        )
    )
    await engine.start()
    yield engine
    engine.stop()


def preemptions() -> float:
    """vLLM's own count."""
    return prometheus_client.REGISTRY.get_sample_value(
        "vllm:num_preemptions_total", {"engine": "0", "model_name": str(EMBEDDED_MODEL)}
    ) or 0.0


async def test_readings_match_under_chunks_preemption_and_aborts(cramped: VllmEngine) -> None:
    rng = random.Random(3)
    questions = [p.question for p in sample_problems(Split.VALIDATION, 54, seed=2)][18:]

    async def one(question: str) -> tuple[TokenIds, Thought] | None:
        await asyncio.sleep(rng.random() * 3)  # requests join and leave a running batch
        prompt = cramped.prompt(question)
        policy = rng.choice([FULL_BUDGET, FULL_BUDGET, ExitPolicy(lambda_high=0.97)])
        budget = Budget(thinking=rng.randint(60, 400), answer=32)
        abort_after = rng.randint(1, 8) if rng.random() < 0.2 else None
        async with aclosing(cramped.think(prompt, policy, budget)) as events:
            seen = 0
            async for event in events:
                if isinstance(event, Thought):
                    return prompt, event
                seen += 1
                if seen == abort_after:
                    return None
        raise AssertionError("no thought came")

    runs = await asyncio.gather(*map(one, questions))
    finished = [run for run in runs if run is not None]
    assert len(finished) < len(runs), "some were to be aborted"
    assert preemptions() > 0, "the cache was to be too small"

    model = AutoModel.from_pretrained(EMBEDDED_MODEL, dtype=torch.float32).eval()
    probe = Probe.load(EMBEDDED_MODEL / PROBE_FOLDER)
    compared = 0
    for prompt, thought in finished:
        with torch.inference_mode():
            ids = torch.tensor([[*prompt, *thought.tokens]])
            confidence_T = probe.confidence(model(ids).last_hidden_state[0]).tolist()
        length, final = len(thought.tokens), thought.checkpoints[-1]
        early = [c for c in thought.checkpoints if not c.is_final]
        cut_by_budget = [t for t in range(16, length + 1, 16) if t < length or not final.is_final]
        natural_at = [length] if final.is_final and length % 16 == 0 and thought.answer_text else []
        assert [c.tokens for c in early] == [*cut_by_budget, *natural_at]
        for checkpoint in thought.checkpoints:
            expected = confidence_T[len(prompt) + checkpoint.tokens - 1]
            assert checkpoint.confidence == pytest.approx(expected, abs=1e-4)
            compared += 1
    assert compared > 300


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
