"""What fetched readings cost: rates and processor time against readings in shared memory.

    python -m studies.serving.channels [--rounds 9] [--interval 32] [--smoke]

Two front ends of one vLLM run in turn, so that other work on the machine slows both. One shares
memory with the worker, and one asks for its readings through vLLM. Both send the same greedy
requests, so that the same tokens are generated and the same readings returned. The order changes
from round to round, and medians of ratios are reported: of tokens per second, and of the processor
time of the front end and all of vLLM's processes. A model this small is the worst case.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import psutil

from calibration import FULL_BUDGET
from rlcm_serve.core import GenerationSettings, Message, Reading, Role, Rollout, Sampling, TokenIds
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.vllm_engine import VllmEngine
from studies.smoke import study_parser
from training.tasks.problems import Split, sample_problems


class Run(NamedTuple):
    """One batch: its tokens and readings, and its seconds on the clock and of CPU."""

    tokens: int
    readings: int
    seconds: float
    cpu: float


async def main() -> None:
    """Prints a row for each batch size."""
    parser = study_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="interleaved rounds per batch size")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--interval", type=int, default=32, help="tokens between two readings")
    parser.add_argument("--log", type=Path, default=Path("runs/channels.log"))
    options = parser.parse_args()
    rounds, batches = (1, [2]) if options.smoke else (options.rounds, options.batches)
    log = None if options.smoke else options.log
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
    shared = VllmEngine(EngineSettings(log=log, interval=options.interval))
    await shared.start()
    if shared.running is None:
        raise RuntimeError(f"the engine did not start: see {log}")
    fetched = VllmEngine(replace(shared.settings, shares_memory=False), shared.running.llm)
    await fetched.start()
    print(
        "| batch | tokens/s, shared | ratio, fetched (min to max) | CPU µs/token, shared | more |"
    )
    print("|---|---|---|---|---|")
    try:
        for batch in batches:
            await measure((shared, fetched), batch, rounds)
    finally:
        fetched.stop()
        shared.stop()


async def measure(engines: tuple[VllmEngine, VllmEngine], batch: int, rounds: int) -> None:
    """Prints the row of one batch size; the first round warms up and is not counted."""
    problems = sample_problems(Split.VALIDATION, batch, seed=9)
    prompts = [engines[0].prompt([Message(Role.USER, one.question)]) for one in problems]
    pairs: list[tuple[Run, Run]] = []
    for turn in range(rounds + 1):
        order = engines if turn % 2 else engines[::-1]
        runs = {id(engine): await one_batch(engine, prompts) for engine in order}
        ours, theirs = (runs[id(engine)] for engine in engines)
        if ours[:2] != theirs[:2]:
            raise RuntimeError(f"not the same work: {ours} and {theirs}")
        pairs.append((ours, theirs))
    speeds = [ours.seconds / theirs.seconds for ours, theirs in pairs[1:]]
    costs = [1e6 * ours.cpu / ours.tokens for ours, _ in pairs[1:]]
    more = [1e6 * (theirs.cpu - ours.cpu) / ours.tokens for ours, theirs in pairs[1:]]
    rate = statistics.median(ours.tokens / ours.seconds for ours, _ in pairs[1:])
    print(
        f"| {batch} | {rate:.0f} | {statistics.median(speeds):.3f} ({min(speeds):.3f} to "
        f"{max(speeds):.3f}) | {statistics.median(costs):.0f} | {statistics.median(more):+.0f} |",
        flush=True,
    )


async def one_batch(engine: VllmEngine, prompts: list[TokenIds]) -> Run:
    """Lets every prompt think to its end, at the same time."""
    identity = engine.identity
    generation = GenerationSettings(identity.budget, Sampling(0.0, 1.0))
    began, cpu = time.perf_counter(), processor_time()

    async def one(prompt: TokenIds) -> tuple[int, int]:
        tokens = readings = 0
        async for event in engine.think(prompt, FULL_BUDGET, generation):
            readings += isinstance(event, Reading)
            tokens += len(event.tokens) if isinstance(event, Rollout) else 0
        return tokens, readings

    counts = await asyncio.gather(*map(one, prompts))
    tokens, readings = (sum(column) for column in zip(*counts, strict=True))
    return Run(tokens, readings, time.perf_counter() - began, processor_time() - cpu)


def processor_time() -> float:
    """Seconds of processor time of this process and of all that it started."""
    own = psutil.Process()
    return sum(sum(one.cpu_times()[:2]) for one in (own, *own.children(recursive=True)))


if __name__ == "__main__":
    asyncio.run(main())
