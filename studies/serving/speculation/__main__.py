"""Speculative decoding with exits: equal tokens and readings, equal distributions, fewer steps.

    make speculation-study

Generates rollouts on vLLM's V2 model runner, whose kernels Triton's interpreter runs: with and
without drafts, greedy and sampled, and with a fault that must be found. The embedded model before
RLCM training drafts for the embedded model. Chunks of rollouts are kept in runs/speculation; an
interrupted run goes on. Then it compares what exists and writes the figures into
studies/results/speculation.json (`--arms` alone generates nothing).
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from dataclasses import replace
from pathlib import Path

from calibration.files import write_text
from studies.serving.speculation.report import figures
from studies.serving.speculation.rollouts import Arm, Plan, generate
from studies.smoke import study_parser

RESULT = Path(__file__).parents[2] / "results" / "speculation.json"
GREEDY = Plan("greedy", 300, 1, 100, 0.0, (Arm.PLAIN, Arm.DRAFTS))
SAMPLED = Plan("sampled", 75, 4, 100, 0.8, tuple(Arm))


async def main() -> None:
    """Generates, compares, and writes the figures."""
    parser = study_parser(__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs/speculation"))
    parser.add_argument("--arms", type=Arm, nargs="*", default=list(Arm), help="engines to run")
    options = parser.parse_args()
    plans = [GREEDY, SAMPLED]
    if options.smoke:
        plans = [replace(plan, prompts=2, chunk=2, thinking=20) for plan in plans]
    with tempfile.TemporaryDirectory() as scratch:
        runs = Path(scratch) if options.smoke else options.runs
        for arm in options.arms:
            await generate(runs, arm, plans)
        text = json.dumps(figures(runs, *plans), indent=1)
    print(text)
    if not options.smoke:
        write_text(RESULT, f"{text}\n")


if __name__ == "__main__":
    asyncio.run(main())
