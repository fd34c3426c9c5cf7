"""Many concurrent requests to an engine with little memory, compared with transformers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from calibration import FULL_BUDGET, ExitPolicy, ExitReason
from rlcm_serve.core import Budget, Reading, Rollout, TokenIds
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.engine.worker.probe import Probe
from tests.rlcm_serve.engine.asking import generation, user
from tests.rlcm_serve.engine.probes import shipped_probe
from training.tasks.problems import Split, sample_problems

INTERVAL = 16
CRAMPED = (
    *("--max-model-len", "640", "--max-num-seqs", "16", "--max-num-batched-tokens", "64"),
    *("--block-size", "32", "--num-gpu-blocks-override", "60", "--no-enable-prefix-caching"),
)
"""Prompts are prefilled in chunks; 16 requests share memory for four, so some are preempted."""
TOLERANCE = 1e-4
"""By which the engine's readings may differ from those of transformers."""


def cramped_settings(*vllm_arguments: str, **settings: Any) -> EngineSettings:
    return EngineSettings(
        **settings,
        interval=INTERVAL,
        max_tokens=400,
        answer_max_tokens=32,
        log_stats=True,
        vllm_arguments=(*CRAMPED, *vllm_arguments),
    )


def vllm_says(metric: str, model: str = "embedded") -> float:
    """The value of one of vLLM's metrics."""
    labels = {"engine": "0", "model_name": model}
    return prometheus_client.REGISTRY.get_sample_value(f"vllm:{metric}", labels) or 0.0


def preemptions(model: str = "embedded") -> float:
    """The number of preemptions since vLLM started."""
    return vllm_says("num_preemptions_total", model)


async def crowd(
    engine: VllmEngine, requests: int = 36, *, seeds: bool = False
) -> list[tuple[TokenIds, Rollout] | None]:
    """Requests that join and leave a running batch; None for those that were aborted.

    About a third of them has lower priority; with `seeds`, each request has a seed.
    """
    questions = [p.question for p in sample_problems(Split.VALIDATION, requests, seed=2)]

    async def one(question: str) -> tuple[TokenIds, Rollout] | None:
        rng = random.Random(f"18 {question}")  # one per question, as the order of waking varies
        await asyncio.sleep(rng.random())
        prompt = engine.prompt(user(question))
        policy = rng.choice([FULL_BUDGET, FULL_BUDGET, ExitPolicy(lambda_high=0.97)])
        how = generation(
            engine,
            Budget(thinking=rng.randint(60, 400), answer=32),
            seed=rng.randint(0, 99) if seeds else None,
            priority=rng.choice([0, 0, 1]),
        )
        abort_after = rng.randint(1, 8) if rng.random() < 0.2 else None
        async with aclosing(engine.think(prompt, policy, how, text=rng.random() < 0.3)) as events:
            seen = 0
            async for event in events:
                if isinstance(event, Rollout):
                    return prompt, event
                seen += isinstance(event, Reading)
                if seen == abort_after:
                    return None
        raise AssertionError("no rollout came")

    return await asyncio.gather(*map(one, questions))


def compare_with_transformers(
    finished: Sequence[tuple[TokenIds, Rollout]], forward: Forward
) -> int:
    """Compares every reading with a forward pass on its final sequence; returns their number."""
    probe = shipped_probe()
    for prompt, rollout in finished:
        confidence_T = forward.confidences(probe, prompt, rollout.tokens)
        length = len(rollout.tokens)
        expected = [
            tokens
            for tokens in range(INTERVAL, length + 1, INTERVAL)
            if tokens < length or rollout.exit is not ExitReason.BUDGET
        ]
        if rollout.exit.is_own_end:
            expected.append(length)
        assert [checkpoint.tokens for checkpoint in rollout.readings] == expected
        for checkpoint in rollout.readings:
            reading = confidence_T[checkpoint.tokens]
            assert checkpoint.confidence == pytest.approx(reading, abs=TOLERANCE)
    return sum(len(rollout.readings) for _, rollout in finished)


def compare_inputs_with_transformers(
    finished: Sequence[tuple[TokenIds, Rollout]], forward: Forward
) -> int:
    """Compares every reading and its inputs with a forward pass; returns their number."""
    probe = shipped_probe()
    for prompt, rollout in finished:
        states_TH = forward.states_TH((*prompt, *rollout.tokens))[len(prompt) - 1 :]
        statistics_TS = forward.statistics(prompt, rollout.tokens)
        for reading in rollout.readings:
            at = reading.tokens
            state_H, statistics_S = states_TH[at], torch.tensor(statistics_TS[at])
            assert reading.inputs is not None
            inputs = torch.cat((state_H, statistics_S)).tolist()
            assert reading.inputs.tolist() == pytest.approx(inputs, abs=TOLERANCE)
            confidence = probe.confidence(state_H[None], statistics_S[None])
            assert reading.confidence == pytest.approx(float(confidence), abs=TOLERANCE)
    return sum(len(rollout.readings) for _, rollout in finished)


class Forward:
    """Forward passes of transformers on whole sequences, in float32, without the stop ids.

    With `adapter`, the model has this LoRA adapter as PEFT applies it.
    """

    def __init__(self, stop_ids: Sequence[int], adapter: Path | None = None) -> None:
        self._model = AutoModelForCausalLM.from_pretrained(EMBEDDED_MODEL, dtype=torch.float32)
        if adapter is not None:
            self._model = PeftModel.from_pretrained(self._model, adapter).merge_and_unload()
        self._stop_ids = list(stop_ids)

    def log_probs_TV(self, ids: Sequence[int]) -> torch.Tensor:
        """Log-probabilities of the token that follows each position."""
        with torch.inference_mode():
            logits_TV = self._model.eval()(torch.tensor([list(ids)])).logits[0]
            logits_TV[:, self._stop_ids] = float("-inf")
            return logits_TV.log_softmax(dim=-1)

    def states_TH(self, ids: Sequence[int]) -> torch.Tensor:
        """The final-layer state at each position, after the final norm."""
        with torch.inference_mode():
            states_TH: torch.Tensor = self._model.model(torch.tensor([list(ids)])).last_hidden_state
            return states_TH[0]

    def confidences(self, probe: Probe, prompt: TokenIds, thinking: TokenIds) -> list[float]:
        """What the probe reads after 0, 1, 2, ... tokens of the thinking."""
        states_TH = self.states_TH((*prompt, *thinking))[len(prompt) - 1 :]
        statistics_TS = torch.tensor(self.statistics(prompt, thinking))
        confidences: list[float] = probe.confidence(states_TH, statistics_TS).tolist()
        return confidences

    def statistics(self, prompt: TokenIds, thinking: TokenIds) -> list[list[float]]:
        """The statistics of tokens by their definitions, after 0, 1, 2, ... tokens."""
        log_probs_TV = self.log_probs_TV((*prompt, *thinking))[len(prompt) - 1 : -1].double()
        log_prob_T = log_probs_TV[range(len(thinking)), list(thinking)]
        entropy_T = torch.special.entr(log_probs_TV.exp()).sum(-1)
        confidence_T = -log_probs_TV.topk(20, dim=-1).values.mean(dim=-1)
        after = [[0.0] * 12]
        for tokens in range(1, len(thinking) + 1):
            p, h, c = (each[:tokens] for each in (log_prob_T, entropy_T, confidence_T))
            found = [
                *(p.mean(), p.min(), p[-32:].mean(), p[-32:].min(), p.sort().values[:5].mean()),
                *(h.mean(), h[-32:].mean(), h.max()),
                *(c.mean(), c[-32:].mean(), c[-32:].min(), torch.tensor(float(tokens)).log()),
            ]
            after.append([float(value) for value in found])
        return after

    def signals(
        self, prompt: TokenIds, thinking: TokenIds, interval: int = INTERVAL
    ) -> list[dict[str, float]]:
        """The signals of tokens by their definitions, after 1, 2, ... tokens of the thinking."""
        log_probs_TV = self.log_probs_TV((*prompt, *thinking))[len(prompt) - 1 : -1]
        log_prob_T = log_probs_TV[range(len(thinking)), list(thinking)].double()
        confidence_T = -log_probs_TV.topk(20, dim=-1).values.mean(dim=-1).double()
        window, after, lowest = 4 * interval, [], float("inf")
        for tokens in range(1, len(thinking) + 1):
            group = float(confidence_T[max(0, tokens - window) : tokens].mean())
            lowest = min(lowest, group) if tokens > window else group
            after.append(
                {
                    "sequence-probability": float(log_prob_T[:tokens].mean().exp()),
                    "lowest-group": lowest / (lowest + 10),
                    "tail": group / (group + 10),
                }
            )
        return after


def compare_signals_with_transformers(
    finished: Sequence[tuple[TokenIds, Rollout]], forward: Forward
) -> int:
    """Compares every reading's signals with a forward pass on its final sequence; their number."""
    for prompt, rollout in finished:
        after = forward.signals(prompt, rollout.tokens)
        for checkpoint in rollout.readings:
            found = {name: v for name, v in (checkpoint.signals or {}).items() if name != "probe"}
            assert found == pytest.approx(after[checkpoint.tokens - 1], abs=TOLERANCE)
    return sum(len(rollout.readings) for _, rollout in finished)
