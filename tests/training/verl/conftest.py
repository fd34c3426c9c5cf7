"""Tests that need veRL, in the lane `verl` (make test-verl); without veRL they are left out."""

from __future__ import annotations

import importlib.util
import json
import random
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from rlcm_serve.evaluation.grading import grader_named
from training.rl.inputs import RunInputs, read_inputs
from training.rl.settings import BudgetSettings, DataSettings, RolloutSettings, RunSettings
from training.tasks.problems import Split, problem_stream
from training.verl.folder import write_folder
from training.verl.overrides import Cluster, hydra_overrides

NEED_VERL = ["test_agent_loop.py", "test_engine.py", "test_run.py", "test_trainer.py"]
collect_ignore = [] if importlib.util.find_spec("verl") else NEED_VERL

SMALL = RunSettings(
    method="rlcm",
    steps=3,
    save_steps=1,
    rollouts=RolloutSettings(prompts=2, per_prompt=2, max_tokens=64),
    budgets=BudgetSettings(interval=8, samples=2, answer_tokens=6),
)


def inputs_of(folder: Path, **changes: Any) -> RunInputs:
    """The inputs of a small run on the embedded model, whose problems are in `folder`."""
    made = problem_stream(Split.TRAIN, random.Random(0), families=("dial",), levels=(1, 2))
    rows = ({"problem": one.question, "answer": one.answer} for one in islice(made, 8))
    path = folder / "problems.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = replace(SMALL, data=DataSettings(source=str(path)), **changes).completed()
    return read_inputs(settings, grader_named("exact"))


def config_of(inputs: RunInputs, out: Path) -> Any:
    """veRL's own configuration of a run, whose folder is written to `out`."""
    from training.verl.run import configuration

    write_folder(inputs, out)
    return configuration(hydra_overrides(inputs, out, Cluster(nodes=1, gpus=1)))


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> RunInputs:
    return inputs_of(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="session")
def config(inputs: RunInputs, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return config_of(inputs, tmp_path_factory.mktemp("run"))
