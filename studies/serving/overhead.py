"""The cost of the probe: tokens per second of plain vLLM against vLLM under exit control.

    python -m studies.serving.overhead [--pairs 21] [--smoke]

Two engines of the same embedded model run in turn, so that other work on the machine slows both.
The order changes from pair to pair, and the median of the pairs' ratios is reported. Both engines
use the same executor, scheduler and limits, and generate the same number of tokens for the same
prompts (the end of the text is ignored). The controlled engine reads the probe every 32 tokens
under a rule that never fires, and returns each reading. A model this small is the worst case: its
forward pass takes hardly longer than the control.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import tempfile
import time
from pathlib import Path

from vllm import SamplingParams
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.async_llm import AsyncLLM

from calibration import FULL_BUDGET
from rlcm_serve.core import Message, Role, TokenIds
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.engine.worker.exit_control import ControlSpec
from rlcm_serve.engine.worker.readings import ReadingsTable
from rlcm_serve.terminal import output_to
from studies.smoke import study_parser
from training.tasks.problems import Split, sample_problems

TOKENS = 512
INTERVAL = 32


async def main() -> None:
    """Prints a table of ratios."""
    parser = study_parser(__doc__)
    parser.add_argument("--pairs", type=int, default=21, help="interleaved pairs per batch size")
    parser.add_argument("--log", type=Path, default=Path("runs/overhead.log"))
    options = parser.parse_args()
    if not options.smoke:
        await compare(options.log, options.pairs, (1, 64), TOKENS)
        return
    with tempfile.TemporaryDirectory() as folder:
        await compare(Path(folder) / "overhead.log", 1, (1, 4), 2 * INTERVAL)


async def compare(log: Path, pairs: int, batches: tuple[int, ...], tokens: int) -> None:
    """Prints a row per batch size: `pairs` pairs of runs, each of `tokens` tokens per prompt."""
    controlled = VllmEngine(EngineSettings(log=log))
    await controlled.start()
    if controlled.running is None:
        raise RuntimeError(f"the engine did not start: see {log}")
    llm = controlled.running.llm
    with output_to(log.with_suffix(".plain.log")):
        plain = plain_engine(llm)
    sides = Side(plain, None, tokens), Side(llm, controlled, tokens)
    prompts = [
        controlled.prompt([Message(Role.USER, problem.question)])
        for problem in sample_problems(Split.VALIDATION, max(batches), seed=9)
    ]
    print("| batch | plain, tokens/s | with probe, tokens/s | ratio, median (min to max) |")
    print("|---|---|---|---|")
    try:
        for batch in batches:
            speeds = [
                await one_pair(sides, prompts[:batch], plain_first=turn % 2 == 0)
                for turn in range(pairs + 1)
            ][1:]  # the first pair warms up
            ratios = [with_probe / without for without, with_probe in speeds]
            without, with_probe = (statistics.median(side) for side in zip(*speeds, strict=True))
            print(
                f"| {batch} | {without:.0f} | {with_probe:.0f} | {statistics.median(ratios):.3f} "
                f"({min(ratios):.3f} to {max(ratios):.3f}) |",
                flush=True,
            )
    finally:
        sides[1].close()
        controlled.stop()
        plain.shutdown()


def plain_engine(controlled: AsyncLLM) -> AsyncLLM:
    """The same model, executor and scheduler in vLLM alone, without our classes."""
    scheduler = controlled.vllm_config.scheduler_config
    parallel = controlled.vllm_config.parallel_config
    return AsyncLLM.from_engine_args(
        AsyncEngineArgs(
            model=str(EMBEDDED_MODEL),
            dtype="float32",
            enforce_eager=True,
            max_num_seqs=scheduler.max_num_seqs,
            scheduling_policy=scheduler.policy,
            enable_chunked_prefill=scheduler.enable_chunked_prefill,
            distributed_executor_backend=parallel.distributed_executor_backend,
            enable_prefix_caching=True,
            disable_log_stats=True,
            generation_config="vllm",
        )
    )


async def one_pair(
    sides: tuple[Side, Side], prompts: list[TokenIds], plain_first: bool
) -> tuple[float, float]:
    """Speeds without and with the probe, in tokens per second; `plain_first` sets the order."""
    order = sides if plain_first else sides[::-1]
    speeds = [await side.speed(prompts) for side in order]
    without, with_probe = speeds if plain_first else speeds[::-1]
    return without, with_probe


class Side:
    """One of the two engines, with the arguments of its requests."""

    def __init__(self, llm: AsyncLLM, controlled: VllmEngine | None, tokens: int) -> None:
        self.llm, self.controlled, self.tokens = llm, controlled, tokens
        self.table = ReadingsTable(64, tokens // INTERVAL) if controlled else None
        self.names = itertools.count()

    def close(self) -> None:
        """Removes the table of readings."""
        if self.table is not None:
            self.table.close()

    async def speed(self, prompts: list[TokenIds]) -> float:
        """Tokens per second of one batch."""
        began = time.perf_counter()
        await asyncio.gather(*map(self._generate, prompts))
        return len(prompts) * self.tokens / (time.perf_counter() - began)

    async def _generate(self, prompt: TokenIds) -> None:
        params = SamplingParams(
            temperature=0.8,
            max_tokens=self.tokens,
            ignore_eos=True,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )
        slot = None
        if self.table is not None and self.controlled is not None:
            slot = await self.table.acquire(INTERVAL)
            high, low = self.controlled.stop_ids
            params.extra_args = ControlSpec(
                policy=FULL_BUDGET,
                interval=INTERVAL,
                budget=self.tokens + 1,
                stop_high=high,
                stop_low=low,
                think_end=None,  # reads on to the last token
                table=self.table.address,
                slot=slot.number,
                ticket=slot.ticket,
            ).to_extra_args()
        received, readings = 0, 0
        inputs = {"prompt_token_ids": list(prompt)}
        async for output in self.llm.generate(inputs, params, f"overhead-{next(self.names)}"):
            received += len(output.outputs[0].token_ids)
            readings += len(slot.new(received)) if slot else 0
        expected = (self.tokens - 1) // INTERVAL if slot else 0
        if received != self.tokens or readings != expected:
            raise RuntimeError(f"{received} tokens and {readings} readings: nothing comparable ran")
        if self.table is not None and slot is not None:
            self.table.release(slot)


if __name__ == "__main__":
    asyncio.run(main())
