"""Small runs of the embedded model, sampled by transformers in seconds, without an engine.

Problems are easy, so that rollouts end within their token limit and some of them are right.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console

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
    prepared = prepare(settings, out, grader_named("exact"))
    without = {name: own for name, own in prepared.arguments.items() if "vllm" not in name}
    return replace(prepared, arguments=without)


def small_trainer(out: Path, **changes: Any) -> RLCMTrainer:
    """The trainer of a small run."""
    return make_trainer(small_run(out, **changes), ShowProgress(Console(quiet=True)))
