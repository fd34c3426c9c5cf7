"""Training with the engine that samples, vLLM in the trainer's process: minutes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rlcm_serve.engine.model_files import ModelFiles
from training.rl.checkpoint import export_checkpoint

pytestmark = pytest.mark.training

RLCM = Path(sys.executable).parent / "rlcm"
CONFIG = """
model = "embedded-sft"
steps = {steps}
save_steps = {save_steps}
[data]
source = "embedded-dial"
limit = 60
[rollouts]
prompts = 4
per_prompt = 4
max_tokens = 160
[budgets]
interval = 32
samples = 2
answer_tokens = 6
[policy]
learning_rate = 1e-3
micro_batch = 8
gradient_checkpointing = false
bf16 = false
"""
CURVES = ("reward", "accuracy", "grad_norm", "probe/bce", "probe/confidence", "budgets/per_rollout")


EVALUATION = """
[evaluation]
source = "embedded-dial"
limit = 8
every = 10
rollouts = 2
"""


def start(folder: Path, steps: int, save_steps: int, more: str = "") -> subprocess.Popen[str]:
    """`rlcm train rl` in a session of its own, so that it can be killed whole."""
    config = folder / "run.toml"
    config.write_text(CONFIG.format(steps=steps, save_steps=save_steps) + more)
    return subprocess.Popen(
        [str(RLCM), "train", "rl", "--config", str(config), "--out", str(folder / "out")],
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "300"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finished(
    folder: Path, steps: int, save_steps: int = 50, more: str = ""
) -> list[dict[str, Any]]:
    """The curves of a run that is let come to its end."""
    running = start(folder, steps, save_steps, more)
    output, _ = running.communicate(timeout=900)
    assert running.returncode == 0, output
    curves: list[dict[str, Any]] = json.loads((folder / "out/training.json").read_text())["curves"]
    return curves


def test_the_engines_weights_follow_the_trainers(tmp_path: Path) -> None:
    """A step of 1e-3 a weight moves log-probabilities by far more than 1e-4."""
    curves = finished(tmp_path, steps=20, save_steps=5, more=EVALUATION)
    assert len(curves) == 20
    assert max(entry["sampling/sampling_logp_difference/max"] for entry in curves) < 1e-4
    assert min(entry["grad_norm"] for entry in curves[:5]) > 0
    assert all(entry["time/overhead"] > 1 for entry in curves)
    files = ModelFiles.read(tmp_path / "out")
    assert files.probe is not None
    facts = json.loads((tmp_path / "out/training.json").read_text())
    evaluated = {one["step"]: one["eval_accuracy"] for one in facts["evaluations"]}
    assert evaluated.keys() == {10, 20}
    best = export_checkpoint(tmp_path / "out", "best", tmp_path / "best")
    assert evaluated[best] == max(evaluated.values())
    assert ModelFiles.read(tmp_path / "best").probe is not None


def test_a_killed_run_goes_on_with_the_curves_it_would_have_had(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    whole.mkdir()
    cut.mkdir()
    expected = finished(whole, steps=7, save_steps=2)
    kill_after_step(5, start(cut, steps=7, save_steps=2))
    found = finished(cut, steps=7, save_steps=2)
    assert [entry["step"] for entry in found] == [*range(1, 8)]
    for one, other in zip(expected, found, strict=True):
        assert {name: other[name] for name in CURVES} == {name: one[name] for name in CURVES}


def kill_after_step(step: int, running: subprocess.Popen[str]) -> None:
    """kill -9, of all its processes, while it is at work on the next step."""
    assert running.stdout is not None
    output = []
    for line in running.stdout:
        output.append(line)
        if re.match(rf"step {step}:", line):
            break
    else:
        pytest.fail("".join(output))
    time.sleep(0.5)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait(timeout=60)
    running.stdout.close()
