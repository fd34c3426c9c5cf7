"""Two processes see what one sees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.served import free_port

pytestmark = pytest.mark.training

ROOT = Path(__file__).parents[3]
RANK = """
import json, sys
from dataclasses import replace
from pathlib import Path
from tests.training.rl.small import SMALL, small_trainer
out = Path(sys.argv[1])
trainer = small_trainer(out, trainer={"top_k": 1}, policy=replace(SMALL.policy, micro_batch=4))
trainer.train()
if trainer.accelerator.is_main_process:
    Path(sys.argv[2]).write_text(json.dumps(trainer.state.log_history[0]))
"""


def run_on(ranks: int, folder: Path) -> dict[str, float]:
    """One greedy step on so many gloo processes; what the first of them logged."""
    port = free_port()
    result = folder / f"{ranks}.json"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(folder / f"out-{ranks}"), str(result)],
            cwd=ROOT,
            env=os.environ
            | {
                "OMP_NUM_THREADS": "1",
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(ranks),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "ACCELERATE_USE_CPU": "true",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        output = [process.communicate(timeout=300)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    assert all(process.returncode == 0 for process in running), output
    log: dict[str, float] = json.loads(result.read_text())
    return log


def test_two_ranks_see_the_rewards_and_the_probe_loss_that_one_sees(tmp_path: Path) -> None:
    one, two = run_on(1, tmp_path), run_on(2, tmp_path)
    same = ["accuracy", "reward", "probe/bce", "probe/target", "probe/confidence", "grad_norm"]
    for name in [*same, "rewards/margin/mean", "rewards/margin/std", "rewards/answer/mean"]:
        assert two[name] == pytest.approx(one[name], abs=2e-5), name
    assert one["probe/target"] > 0
