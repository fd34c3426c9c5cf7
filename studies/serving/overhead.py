"""The cost of the probe: tokens per second of plain vLLM against vLLM under exit control.

    python -m studies.serving.overhead [--rounds 21] [--smoke]

Three engines of the same embedded model run in turn, so that other work on the machine slows all:
plain vLLM, one with a probe of the state, and one with a probe of the state and the tokens. The
order changes from round to round, and the medians of the ratios to plain vLLM are reported: of
tokens per second, and of the processor time of vLLM's own processes, which other work on the
machine disturbs less. All engines use the same executor, scheduler and limits, and generate the
same number of tokens for the same prompts (the end of the text is ignored). The controlled ones
read the probe every 32 tokens under a rule that never fires, and return each reading. A model this
small is the worst case: its forward pass takes hardly longer than the control.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import psutil
from vllm import SamplingParams
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.async_llm import AsyncLLM

from calibration import FULL_BUDGET
from rlcm_serve.core import Message, Role, TokenIds
from rlcm_serve.engine.clients.cleanup import children
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.engine.worker.exit_control import ControlSpec
from rlcm_serve.engine.worker.probe import PROBE_FOLDER, STATE_ALONE, Probe
from rlcm_serve.engine.worker.readings.slots import ReadingsTable
from rlcm_serve.engine.worker.statistics import STATISTICS
from rlcm_serve.terminal import output_to
from studies.smoke import study_parser
from training.tasks.problems import Split, sample_problems

TOKENS = 512
INTERVAL = 32


async def main() -> None:
    """Prints a table of ratios."""
    parser = study_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=21, help="interleaved rounds per batch size")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--log", type=Path, default=Path("runs/overhead.log"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "probe"
        probe_of_state().save(probe, INTERVAL)
        if options.smoke:
            log = Path(folder) / "overhead.log"
            await compare(log, probe, 1, [1, 4], 2 * INTERVAL)
        else:
            await compare(options.log, probe, options.rounds, options.batches, TOKENS)


def probe_of_state() -> Probe:
    """The embedded model's probe without its weights for the tokens."""
    shipped = Probe.load(EMBEDDED_MODEL / PROBE_FOLDER)
    weight_WH = shipped.hidden_weight[:, : -len(STATISTICS)]
    return replace(shipped, hidden_weight=weight_WH, inputs=STATE_ALONE)


async def compare(log: Path, probe: Path, rounds: int, batches: list[int], tokens: int) -> None:
    """Prints the rows of each batch size: `rounds` rounds, each of `tokens` tokens per prompt."""
    before = children()
    state = VllmEngine(EngineSettings(log=log, probe=probe))
    await state.start()
    of_state = children() - before
    both = VllmEngine(EngineSettings(log=log.with_suffix(".tokens.log")))
    await both.start()
    of_both = children() - before - of_state
    if state.running is None or both.running is None:
        raise RuntimeError(f"the engine did not start: see {log}")
    with output_to(log.with_suffix(".plain.log")):
        plain = plain_engine(state.running.llm)
    sides = (
        Side("plain vLLM", plain, children() - before - of_state - of_both, None, tokens),
        Side("state", state.running.llm, of_state, state, tokens),
        Side("state and tokens", both.running.llm, of_both, both, tokens),
    )
    prompts = [
        state.prompt([Message(Role.USER, problem.question)])
        for problem in sample_problems(Split.VALIDATION, max(batches), seed=9)
    ]
    print("| batch | probe of | tokens/s | ratio to plain vLLM, median (min to max) | CPU time |")
    print("|---|---|---|---|---|")
    try:
        for batch in batches:
            runs = [await one_round(sides, prompts[:batch], turn) for turn in range(rounds + 1)]
            report(batch, sides, runs[1:])  # the first round warms up
    finally:
        for side in sides:
            side.close()
        for engine in (state, both):
            engine.stop()
        plain.shutdown()


def report(batch: int, sides: tuple[Side, ...], runs: list[list[Run]]) -> None:
    """Prints a row per engine."""
    for at, side in enumerate(sides):
        ratios = [own[at].speed / own[0].speed for own in runs]
        times = [own[at].cpu / own[0].cpu for own in runs]
        print(
            f"| {batch} | {side.name} | {statistics.median(own[at].speed for own in runs):.0f} | "
            f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}) | "
            f"{statistics.median(times):.3f} |",
            flush=True,
        )


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


class Run(NamedTuple):
    """Tokens per second of one batch, and the seconds of processor time that vLLM took for it."""

    speed: float
    cpu: float


async def one_round(sides: tuple[Side, ...], prompts: list[TokenIds], turn: int) -> list[Run]:
    """One run of each engine, in the order of `sides`; `turn` sets which runs first."""
    runs = {at: await sides[at].run(prompts) for at in _rotated(len(sides), turn)}
    return [runs[at] for at in range(len(sides))]


def _rotated(count: int, turn: int) -> list[int]:
    order = [(at + turn) % count for at in range(count)]
    return order[::-1] if turn % 2 else order


class Side:
    """One of the engines, with its processes and the arguments of its requests."""

    def __init__(
        self,
        name: str,
        llm: AsyncLLM,
        processes: set[int],
        controlled: VllmEngine | None,
        tokens: int,
    ) -> None:
        self.name, self.llm, self.controlled, self.tokens = name, llm, controlled, tokens
        self.processes = [psutil.Process(number) for number in processes]
        self.table = None
        if controlled is not None:
            followed = tokens + 1 if "tokens" in name else 0
            self.table = ReadingsTable(64, tokens // INTERVAL, tokens=followed)
        self.names = itertools.count()

    def close(self) -> None:
        """Removes the table of readings."""
        if self.table is not None:
            self.table.close()

    async def run(self, prompts: list[TokenIds]) -> Run:
        """Generates one batch."""
        began, cpu = time.perf_counter(), self._cpu()
        await asyncio.gather(*map(self._generate, prompts))
        seconds = time.perf_counter() - began
        return Run(len(prompts) * self.tokens / seconds, self._cpu() - cpu)

    def _cpu(self) -> float:
        return sum(sum(process.cpu_times()[:2]) for process in self.processes)

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
