"""Small runs of the embedded model; transformers sample in vLLM's place, in seconds.

Problems are easy, so that rollouts end within their token limit and some of them are right.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from rich.console import Console
from trl.generation.vllm_generation import VLLMGeneration
from trl.trainer.utils import pad

from rlcm_serve.evaluation.grading import grader_named
from training.rl.progress import ShowProgress
from training.rl.run import Prepared, make_trainer, prepare
from training.rl.settings import (
    BudgetSettings,
    DataSettings,
    PolicySettings,
    RolloutSettings,
    RunSettings,
)
from training.rl.trainer.trainer import RLCMTrainer
from training.tasks.problems import Split, problem_stream

SMALL = RunSettings(
    method="rlcm",
    steps=1,
    save_steps=1,
    rollouts=RolloutSettings(prompts=2, per_prompt=4, temperature=1.4, max_tokens=256),
    budgets=BudgetSettings(interval=16, samples=2, answer_tokens=6),
    policy=PolicySettings(
        learning_rate=1e-3, micro_batch=4, gradient_checkpointing=False, bf16=False
    ),
)


def small_run(out: Path, **changes: Any) -> Prepared:
    """A prepared run with the settings `SMALL` and these changes."""
    path = out / "problems.jsonl"
    out.mkdir(parents=True, exist_ok=True)
    made = problem_stream(Split.TRAIN, random.Random(0), families=("dial",), levels=(1, 2))
    rows = ({"problem": one.question, "answer": one.answer} for one in islice(made, 40))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = replace(SMALL, data=DataSettings(source=str(path)))
    settings = replace(settings, **changes).completed()
    return prepare(settings, out, grader_named("exact"))


def small_trainer(out: Path, **changes: Any) -> RLCMTrainer:
    """The trainer of a small run."""
    with patch("trl.trainer.grpo_trainer.VLLMGeneration", SampledByTransformers):
        return make_trainer(small_run(out, **changes), ShowProgress(Console(quiet=True)))


class SampledByTransformers(VLLMGeneration):  # type: ignore[misc]  # TRL comes without types
    """In the place of TRL's engine: transformers sample from the policy itself."""

    def _init_vllm(self) -> None:
        """Starts nothing; seeds the process as vLLM's worker does, with no number of the run."""
        torch.manual_seed(0)

    def sync_weights(self) -> None:
        """The policy's weights are the sampler's."""

    @torch.no_grad()
    def generate(
        self, prompts: list[list[int]], images: Any, num_generations: int, profiler: Any = None
    ) -> tuple[list[list[int]], list[list[int]], list[list[list[float]]], None]:
        """One continuation of each prompt, with the log-probabilities of its tokens."""
        ids_RT = pad([torch.tensor(prompt) for prompt in prompts], padding_side="left")
        mask_RT = pad([torch.ones(len(prompt)).long() for prompt in prompts], padding_side="left")
        is_training = self.model.training
        found = self.model.eval().generate(
            input_ids=ids_RT,
            attention_mask=mask_RT,
            do_sample=True,
            temperature=self.temperature,
            top_k=self.top_k,
            max_new_tokens=self.max_completion_length,
            return_dict_in_generate=True,
            output_scores=True,
        )
        self.model.train(is_training)
        logps_RT = self.model.compute_transition_scores(
            found.sequences, found.scores, normalize_logits=True
        )
        end = self.processing_class.eos_token_id
        sampled = [_until(end, row) for row in found.sequences[:, ids_RT.shape[1] :].tolist()]
        logps = [
            [[value] for value in row[: len(own)]]
            for row, own in zip(logps_RT.tolist(), sampled, strict=True)
        ]
        return prompts, sampled, logps, None


def _until(end: int, ids: list[int]) -> list[int]:
    """The tokens up to the end of the sequence, with it."""
    return ids[: ids.index(end) + 1] if end in ids else ids
