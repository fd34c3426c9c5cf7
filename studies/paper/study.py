"""Carries out all or some of the paper's runs, a few at a time."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Protocol

from rich.console import Console

from studies.paper.runs import PaperRun
from studies.paper.stages import Running, Study
from training.errors import TrainingRefused
from training.tasks.problems import Split, sample_problems

SMOKE_CONFIG = """
model = "embedded-sft"
steps = 1
[data]
source = "embedded"
limit = 8
[rollouts]
prompts = 2
per_prompt = 2
max_tokens = 64
[budgets]
interval = 4
samples = 1
answer_tokens = 4
[policy]
micro_batch = 4
gradient_checkpointing = false
bf16 = false
"""


def smoke_study(folder: Path) -> Study:
    """A study with one training step and four evaluation problems, in a temporary folder."""
    config, data = folder / "smoke.toml", folder / "smoke.jsonl"
    config.write_text(SMOKE_CONFIG)
    rows = [
        {"id": one.id, "problem": one.question, "answer": one.answer}
        for one in sample_problems(Split.VALIDATION, 4, seed=9)
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Study(config, str(data), folder / "out", folder / "results", threads=1)


def carry_out(study: Study, runs: Sequence[PaperRun], jobs: int, console: Console) -> None:
    """Completes the missing runs. A failed run does not stop the others.

    Raises:
        TrainingRefused: one or more runs failed; the message at the end says which and why.
    """
    missing = [Running(study, run) for run in runs if not study.is_done(run)]
    complete(missing, len(runs), jobs, console)


class Unfinished(Protocol):
    """A run in progress."""

    @property
    def name(self) -> str:
        """Of the run."""

    @property
    def folder(self) -> Path:
        """Folder of its model; logs are beside it."""

    def finish(self) -> Path:
        """Completes it; returns the path of the result."""


def complete(missing: Sequence[Unfinished], total: int, jobs: int, console: Console) -> None:
    """Completes the missing ones of so many runs, some at a time, as `carry_out` does."""
    console.print(f"{total - len(missing)} of {total} runs are done")
    failed = []
    with ThreadPoolExecutor(jobs) as pool:
        under_way = {pool.submit(_finish, run, console): run.name for run in missing}
        try:
            for ended in as_completed(under_way):
                if error := ended.exception():
                    failed.append(f"{under_way[ended]}: {error!r}")
                    console.print(f"{under_way[ended]} failed", style="red")
        finally:
            pool.shutdown(cancel_futures=True)
    if failed:
        raise TrainingRefused("; ".join(failed))


def _finish(run: Unfinished, console: Console) -> None:
    began, name = time.monotonic(), run.name
    console.print(f"{name} begins; its logs are in {run.folder.parent}")
    path = run.finish()
    console.print(f"{name} ended after {(time.monotonic() - began) / 60:.0f} min: {path}")
