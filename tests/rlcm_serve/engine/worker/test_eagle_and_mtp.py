"""Drafts from the model's own states, by an EAGLE head or an MTP layer, change no token or reading.

The heads have no training. Random weights say nothing of how many drafts trained ones get accepted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from calibration import FULL_BUDGET, ExitPolicy, ExitReason
from rlcm_serve.core import Budget, Rollout, Sampling, TokenIds
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.engine.vllm_engine import VllmEngine
from tests.rlcm_serve.engine.asking import generation, think, user
from tests.rlcm_serve.engine.crowd import (
    INTERVAL,
    Forward,
    compare_inputs_with_transformers,
    vllm_says,
)
from tests.rlcm_serve.engine.drafting import save_eagle_head, save_model_with_mtp, with_drafts
from training.tasks.problems import Split, sample_problems

pytestmark = pytest.mark.v2

QUESTIONS = [p.question for p in sample_problems(Split.VALIDATION, 4, seed=31)]
POLICIES = [
    *(FULL_BUDGET, ExitPolicy(lambda_high=0.01), ExitPolicy(lambda_low=0.999, patience=32)),
    FULL_BUDGET,
]
EXITS = [ExitReason.BUDGET, ExitReason.HIGH, ExitReason.LOW, ExitReason.BUDGET]


class Run(NamedTuple):
    """Greedy rollouts of one engine.

    `speculation` is what the fingerprint says of it, `accepted` the share of accepted drafts.
    """

    stop_ids: tuple[int, int]
    speculation: str
    accepted: float
    rollouts: list[tuple[TokenIds, Rollout]]


async def run(model: Path, drafts: Sequence[str], folder: Path) -> Run:
    engine = VllmEngine(
        EngineSettings(
            str(model),
            interval=INTERVAL,
            record_inputs=True,
            log_stats=True,
            log=folder / "vllm.log",
            vllm_arguments=("--max-num-seqs", "8", *drafts),
        )
    )
    await engine.start()
    how = generation(engine, Budget(48, 2), sampling=Sampling(temperature=0.0, top_p=1.0))
    told = await asyncio.gather(
        *(think(engine, q, p, how) for q, p in zip(QUESTIONS, POLICIES, strict=True))
    )
    prompts = [engine.prompt(user(question)) for question in QUESTIONS]
    pairs = list(zip(prompts, (one.rollout for one in told), strict=True))
    counts = [
        vllm_says(f"spec_decode_num_{w}_tokens_total", str(model)) for w in ("accepted", "draft")
    ]
    speculation = engine.identity.facts.speculation
    engine.stop()
    return Run(engine.stop_ids, speculation, counts[0] / max(counts[1], 1), pairs)


async def test_an_eagle_head_changes_no_token_and_no_reading(on_v2: None, tmp_path: Path) -> None:
    head = with_drafts(save_eagle_head(tmp_path / "head"), method="eagle")
    drafted = await run(EMBEDDED_MODEL, head, tmp_path)
    assert drafted.speculation == "eagle, 3 tokens, standard"
    assert 0.1 < drafted.accepted < 0.95
    forward = Forward(drafted.stop_ids)
    read = compare_inputs_with_transformers(drafted.rollouts, forward)
    assert read >= 8
    for prompt, rollout in drafted.rollouts:
        log_probs_TV = forward.log_probs_TV((*prompt, *rollout.tokens))[len(prompt) - 1 : -1]
        assert log_probs_TV.argmax(-1).tolist() == list(rollout.tokens)
    assert [rollout.exit for _, rollout in drafted.rollouts] == EXITS


async def test_an_mtp_layer_changes_no_token_and_no_reading(on_v2: None, tmp_path: Path) -> None:
    model = save_model_with_mtp(tmp_path / "model")
    drafted = await run(model, with_drafts(None, method="mtp"), tmp_path)
    assert drafted.speculation == "mtp, 3 tokens, standard"
    assert 0 < drafted.accepted < 1
    plain = await run(model, (), tmp_path)
    assert plain.speculation == ""
    for (_, one), (_, alone) in zip(drafted.rollouts, plain.rollouts, strict=True):
        assert (one.tokens, one.exit) == (alone.tokens, alone.exit)
        assert [r.tokens for r in one.readings] == [r.tokens for r in alone.readings]
        wanted = [r.confidence for r in alone.readings]
        assert [r.confidence for r in one.readings] == pytest.approx(wanted, abs=1e-4)
