"""Seconds per step of RLCM training: `python -m studies.gpu.training_speed --json FILE`.

    python -m studies.gpu.training_speed [--steps 10] [--json FILE] [--tiny] [--smoke]

Trains the embedded model's warm start for a few steps with `configs/embedded.toml`, and reads the
seconds of each step's parts from its curves. The first step, which compiles, is left out.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from studies.smoke import study_parser

CONFIG = Path(__file__).parents[2] / "configs" / "embedded.toml"
_TINY = """
model = "embedded-sft"
save_steps = 50
[data]
source = "embedded-dial"
limit = 20
[rollouts]
prompts = 2
per_prompt = 2
max_tokens = 64
[budgets]
interval = 4
samples = 2
answer_tokens = 4
[policy]
micro_batch = 4
gradient_checkpointing = false
bf16 = false
"""
_PARTS, _FACTOR = "time/", "time/overhead"


def main() -> None:
    """Prints the medians; writes them as JSON if asked to."""
    parser = study_parser(__doc__)
    parser.add_argument("--steps", type=int, default=10, help="policy steps")
    parser.add_argument("--tiny", action="store_true", help="very short rollouts")
    parser.add_argument("--json", type=Path, help="also write the results into this file")
    options = parser.parse_args()
    is_tiny = options.tiny or options.smoke
    with tempfile.TemporaryDirectory() as folder:
        found = summary(trained(Path(folder), 2 if options.smoke else options.steps, is_tiny))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))
    print(json.dumps(found, indent=2))


def trained(folder: Path, steps: int, is_tiny: bool) -> list[dict[str, Any]]:
    """The curves of a run of `rlcm train rl`."""
    config = CONFIG
    if is_tiny:
        config = folder / "tiny.toml"
        config.write_text(f"steps = {steps}\n{_TINY}")
    rlcm = str(Path(sys.executable).parent / "rlcm")
    options = ["--config", str(config), "--steps", str(steps), "--out", str(folder / "out")]
    subprocess.run([rlcm, "train", "rl", *options], check=True, stdout=sys.stderr)
    curves: list[dict[str, Any]] = json.loads((folder / "out" / "training.json").read_text())[
        "curves"
    ]
    return curves


def summary(curves: list[dict[str, Any]]) -> dict[str, Any]:
    """Median seconds of a step and of its parts, and steps per second, without the first step."""
    steps = curves[1:] or curves
    names = [name for name in steps[0] if name.startswith(_PARTS) and name != _FACTOR]
    parts = {
        name.removeprefix(_PARTS): statistics.median(step[name] for step in steps) for name in names
    }
    whole = statistics.median(sum(step[name] for name in names) for step in steps)
    return {
        "steps": len(steps),
        "seconds_per_step": whole,
        "steps_per_second": 1 / whole,
        "parts": parts,
        "factor_over_grpo": statistics.median(step[_FACTOR] for step in steps),
    }


if __name__ == "__main__":
    main()
