"""Realised risk of the running service, measured over HTTP and not by replay.

    rlcm examples --split test --count 240 --jsonl > runs/embedded/test-240-0.jsonl
    python -m studies.serving.live_risk [--smoke]

One process runs everything that `rlcm serve` runs, with the embedded model. The script sends every
test problem to `/solve` at each α and number of samples, and compares the answers with the labels.
It writes one row for each to studies/results/live-risk.json; studies/serving/first_light.py makes
the table.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from calibration.files import write_text
from rlcm_serve.settings import Settings
from studies.serving.service_overhead import serving
from studies.smoke import study_parser
from training.tasks.problems import Split, sample_problems

ALPHAS: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1, 0.2)
REPEATS = {1: 4, 4: 1, 8: 1}
"""How often each problem is sent, by the number of samples."""
AT_A_TIME = 32
ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "studies/results/live-risk.json"


@dataclass(frozen=True, slots=True)
class Asked:
    """The results for all test problems at one α and one number of samples.

    Attributes:
        samples: n of every request.
        alpha: the requested α.
        asked: number of requests.
        answered: number of answered requests; 0 if alpha is infeasible.
        wrong: number of wrong answers.
        tokens: mean per request, over thinking and answer of all samples.
    """

    samples: int
    alpha: float
    asked: int
    answered: int
    wrong: int
    tokens: float


async def main() -> None:
    """Sends all requests and writes the rows."""
    parser = study_parser(__doc__)
    parser.add_argument("--data", type=Path, default=Path("runs/embedded/test-240-0.jsonl"))
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    alphas, repeats_of, out = ALPHAS, REPEATS, options.out
    if options.smoke:
        alphas, repeats_of, out = ALPHAS[-1:], {1: 1, 4: 1}, None
        sampled = sample_problems(Split.VALIDATION, 2, seed=9)
        problems = [{"problem": one.question, "answer": one.answer} for one in sampled]
    else:
        problems = [json.loads(line) for line in options.data.read_text().splitlines()]
    rows = []
    with tempfile.TemporaryDirectory() as state:
        settings = Settings(state=Path(state), engine_log=Path(state) / "engine.log")
        async with (
            serving(settings) as (_, port),
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=600) as client,
        ):
            for samples, repeats in repeats_of.items():
                for alpha in alphas:
                    rows.append(await ask_all(client, problems * repeats, samples, alpha))
                    print(rows[-1], flush=True)
    if out is not None:
        write_text(out, json.dumps([asdict(row) for row in rows], indent=1) + "\n")


async def ask_all(
    client: httpx.AsyncClient, problems: list[dict[str, str]], samples: int, alpha: float
) -> Asked:
    """Measures one row."""
    turns = asyncio.Semaphore(AT_A_TIME)

    async def ask(problem: dict[str, str]) -> tuple[dict[str, Any], str]:
        body = {"problem": problem["problem"], "alpha": alpha, "n": samples}
        async with turns:
            response = await client.post("/solve", json=body)
        if response.status_code != httpx.codes.CONFLICT:  # 409: an infeasible alpha
            response.raise_for_status()
        return response.json(), problem["answer"]

    replies = await asyncio.gather(*map(ask, problems))
    feasible = [(reply, answer) for reply, answer in replies if "samples" in reply]
    answered = [(reply, answer) for reply, answer in feasible if not reply["abstained"]]
    tokens = [
        sum(sample["reasoning_tokens"] + sample["answer_tokens"] for sample in reply["samples"])
        for reply, _ in feasible
    ]
    return Asked(
        samples,
        alpha,
        asked=len(problems),
        answered=len(answered),
        wrong=sum(reply["answer"] != answer for reply, answer in answered),
        tokens=round(statistics.fmean(tokens or [0.0]), 1),
    )


if __name__ == "__main__":
    asyncio.run(main())
