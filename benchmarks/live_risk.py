"""Realised risk through the running service: the whole path, not a replay.

    make serve &
    rlcm examples --split test --count 240 --jsonl > runs/embedded/test-240-0.jsonl
    python benchmarks/live_risk.py

Asks `/solve` every test problem a few times at each α and compares with the labels.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path

import httpx

ALPHAS = (0.05, 0.1, 0.2)
AT_A_TIME = 32


async def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=Path("runs/embedded/test-240-0.jsonl"))
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--all-samples", action="store_true", help="end none that is not needed")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    options = parser.parse_args()
    problems = [json.loads(line) for line in options.data.read_text().splitlines()]
    problems *= options.repeats
    print("| α | asked | answered | wrong | realised risk | mean tokens |")
    print("|---|---|---|---|---|---|")
    async with httpx.AsyncClient(base_url=options.url, timeout=120) as client:
        turns = asyncio.Semaphore(AT_A_TIME)
        for alpha in ALPHAS:
            replies = await asyncio.gather(
                *(
                    ask(
                        client,
                        turns,
                        problem=row["problem"],
                        alpha=alpha,
                        n=options.samples,
                        stop_when_decided=not options.all_samples,
                    )
                    for row in problems
                )
            )
            print(row_of(alpha, problems, replies))


async def ask(
    client: httpx.AsyncClient, turns: asyncio.Semaphore, **question: object
) -> dict[str, object] | None:
    """The response of `/solve`, or None where alpha is infeasible."""
    async with turns:
        response = await client.post("/solve", json=question)
    if response.status_code == 409:
        return None
    response.raise_for_status()
    reply: dict[str, object] = response.json()
    return reply


def row_of(alpha: float, problems: list[dict[str, str]], replies: list) -> str:
    """One row of the table."""
    if None in replies:
        return f"| {alpha} | {len(problems)} | infeasible | | | |"
    pairs = [(p, r) for p, r in zip(problems, replies, strict=True) if not r["abstained"]]
    wrong = sum(reply["answer"] != problem["answer"] for problem, reply in pairs)
    tokens = [
        sum(s["reasoning_tokens"] + s["answer_tokens"] for s in reply["samples"])
        for reply in replies
    ]
    return (
        f"| {alpha} | {len(problems)} | {len(pairs)} | {wrong} | {wrong / len(pairs):.3f} | "
        f"{sum(tokens) / len(tokens):.0f} |"
    )


if __name__ == "__main__":
    asyncio.run(main())
